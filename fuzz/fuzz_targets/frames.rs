//! Frames from a stranger: any bytes are a request that encodes to the same bytes, or a bad frame, never a panic.
#![no_main]

use fodder_api::frames::{Hello, HelloReply, ReplyHead, Request, RequestHead};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    if let Some(head) = bytes.first_chunk() {
        let _ = Hello::decode(head);
        let _ = HelloReply::decode(head);
    }
    if let Some(head) = bytes.first_chunk() {
        let _ = ReplyHead::decode(head);
    }
    let Some((head, body)) = bytes.split_first_chunk::<{ RequestHead::BYTES }>() else { return };
    let Ok(head) = RequestHead::decode(head) else { return };
    if let Ok(request) = Request::decode(head.op, body) {
        let mut again = Vec::new();
        request.encode(head.request, head.handle, &mut again);
        assert_eq!(Request::decode(head.op, &again[RequestHead::BYTES..]).expect("it was one before"), request);
    }
});
