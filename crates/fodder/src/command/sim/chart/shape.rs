//! What a drawing is made of, whatever it becomes.

/// A picture.
#[derive(Debug)]
pub(crate) struct Drawing {
    pub(super) width: f64,
    pub(super) height: f64,
    pub(super) shapes: Vec<Shape>,
}

/// A place, from the left and from the top.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Point(pub(super) f64, pub(super) f64);

/// A colour: red, green, blue.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Ink(pub(super) u8, pub(super) u8, pub(super) u8);

/// How long dashes are, and the gaps between them.
pub(super) const DASH: f64 = 6.0;

/// Something drawn. Later ones lie over earlier ones.
#[derive(Debug)]
pub(super) enum Shape {
    Line {
        points: Vec<Point>,
        ink: Ink,
        width: f64,
        dashed: bool,
    },
    Dot {
        at: Point,
        radius: f64,
        ink: Ink,
    },
    /// Text on a baseline through `at`; `upward` turns it to be read from below.
    Text {
        at: Point,
        text: String,
        anchor: Anchor,
        size: Size,
        upward: bool,
        ink: Ink,
    },
}

/// Which part of a text is at its place.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Anchor {
    Start,
    Middle,
    End,
}

/// How large text is.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Size {
    Label,
    Title,
}
