//! What can be made to go wrong.

use crate::Object;
use std::time::Duration;

/// What goes wrong with one request.
#[derive(Debug, Clone)]
pub enum Fault {
    /// Nothing: to let a request pass before the next fault.
    None,
    /// It is answered with this status and this code of S3's, such as 503 and SlowDown.
    Status(u16, &'static str),
    /// It is answered with this status and this body.
    Body(u16, &'static str),
    /// The connection is reset without an answer.
    Reset,
    /// The connection breaks after so many bytes of the body.
    Cut(u64),
    /// The body ends in order after so many bytes, though more were announced.
    Short(u64),
    /// The answer says that it holds only the first half of the range, and does.
    Narrow,
    /// After so many bytes of the body nothing more comes.
    Stall(u64),
    /// The answer comes late.
    Late(Duration),
    /// The object is replaced just before the answer is made.
    Replace(Object),
    /// The connection breaks after so many bytes of the body, and the object is replaced.
    CutAndReplace(u64, Object),
}
