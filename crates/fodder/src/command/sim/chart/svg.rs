//! Shapes as SVG.

use super::shape::{Anchor, DASH, Drawing, Ink, Point, Shape, Size};
use std::fmt;

impl Drawing {
    /// The text of an SVG file.
    pub(crate) fn to_svg(&self) -> String {
        let (width, height) = (self.width, self.height);
        let shapes: String = self.shapes.iter().map(|shape| format!("{shape}\n")).collect();
        format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"{height}\" \
             viewBox=\"0 0 {width} {height}\" font-family=\"sans-serif\">\n\
             <rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n{shapes}</svg>\n"
        )
    }
}

impl fmt::Display for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Line { points, ink, width, dashed } => {
                let points: Vec<String> = points.iter().map(|Point(x, y)| format!("{x:.1},{y:.1}")).collect();
                let dash = if *dashed { format!(" stroke-dasharray=\"{DASH}\"") } else { String::new() };
                write!(f, "<polyline points=\"{}\" fill=\"none\" stroke=\"{ink}\" ", points.join(" "))?;
                write!(f, "stroke-width=\"{width}\" stroke-linejoin=\"round\"{dash}/>")
            }
            Self::Dot { at: Point(x, y), radius, ink } => {
                write!(f, "<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"{radius:.1}\" fill=\"{ink}\"/>")
            }
            Self::Text { at: Point(x, y), text, anchor, size, upward, ink } => {
                let turn = if *upward { format!(" transform=\"rotate(-90 {x:.1} {y:.1})\"") } else { String::new() };
                let size = match size {
                    Size::Label => 13,
                    Size::Title => 16,
                };
                write!(f, "<text x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"{anchor}\" font-size=\"{size}\" ")?;
                write!(f, "fill=\"{ink}\"{turn}>{}</text>", escaped(text))
            }
        }
    }
}

impl fmt::Display for Ink {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "#{:02x}{:02x}{:02x}", self.0, self.1, self.2)
    }
}

impl fmt::Display for Anchor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Start => "start",
            Self::Middle => "middle",
            Self::End => "end",
        })
    }
}

/// Text that cannot be taken for marks, nor for characters that XML does not have.
fn escaped(text: &str) -> String {
    let escape = |c: char| match c {
        '<' => "&lt;".into(),
        '>' => "&gt;".into(),
        '&' => "&amp;".into(),
        '"' => "&quot;".into(),
        c if c.is_control() => "\u{fffd}".into(),
        c => c.to_string(),
    };
    text.chars().map(escape).collect::<Vec<String>>().concat()
}
