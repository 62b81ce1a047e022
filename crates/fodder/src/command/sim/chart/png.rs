//! Shapes as PNG: lines and dots by the distance of a pixel's middle, text from glyphs drawn beforehand.
//!
//! No font of the system is asked for: a picture is the same on every machine.

use super::shape::{Anchor, DASH, Drawing, Ink, Point, Shape, Size};
use anyhow::Result;
use noto_sans_mono_bitmap::{FontWeight, RasterHeight, get_raster, get_raster_width};

/// Pixels a unit: for screens with small pixels.
const SCALE: f64 = 2.0;

impl Drawing {
    /// The bytes of a PNG file.
    pub(crate) fn to_png(&self) -> Result<Vec<u8>> {
        let mut canvas = Canvas::new((self.width * SCALE) as usize, (self.height * SCALE) as usize);
        self.shapes.iter().for_each(|shape| canvas.draw(shape));
        let mut bytes = Vec::new();
        let mut encoder = ::png::Encoder::new(&mut bytes, canvas.width as u32, canvas.height as u32);
        encoder.set_color(::png::ColorType::Rgb);
        let mut writer = encoder.write_header()?;
        writer.write_image_data(&canvas.pixels)?;
        writer.finish()?;
        Ok(bytes)
    }
}

/// Pixels, three bytes each, white at first.
struct Canvas {
    width: usize,
    height: usize,
    pixels: Vec<u8>,
}

impl Canvas {
    fn new(width: usize, height: usize) -> Self {
        Self { width, height, pixels: vec![0xff; width * height * 3] }
    }

    fn draw(&mut self, shape: &Shape) {
        match shape {
            Shape::Line { points, ink, width, dashed } => {
                let points: Vec<Point> = points.iter().map(|point| scaled(*point)).collect();
                for pair in points.windows(2) {
                    if *dashed {
                        dashes(pair[0], pair[1]).for_each(|(from, to)| self.stroke(from, to, *width, *ink));
                    } else {
                        self.stroke(pair[0], pair[1], *width, *ink);
                    }
                }
            }
            Shape::Dot { at, radius, ink } => self.stroke(scaled(*at), scaled(*at), radius * 2.0, *ink),
            Shape::Text { at, text, anchor, size, upward, ink } => {
                self.write(scaled(*at), text, *anchor, *size, *upward, *ink);
            }
        }
    }

    /// A line with round ends.
    fn stroke(&mut self, from: Point, to: Point, width: f64, ink: Ink) {
        let reach = width * SCALE / 2.0;
        let span = |a: f64, b: f64, end: usize| {
            let (low, high) = (a.min(b) - reach - 1.0, a.max(b) + reach + 2.0);
            (low.max(0.0) as usize)..(high.max(0.0) as usize).min(end)
        };
        for y in span(from.1, to.1, self.height) {
            for x in span(from.0, to.0, self.width) {
                let middle = Point(x as f64 + 0.5, y as f64 + 0.5);
                self.blend(x, y, reach + 0.5 - distance(middle, from, to), ink);
            }
        }
    }

    fn write(&mut self, at: Point, text: &str, anchor: Anchor, size: Size, upward: bool, ink: Ink) {
        let height = match size {
            Size::Label => RasterHeight::Size24,
            Size::Title => RasterHeight::Size32,
        };
        let advance = get_raster_width(FontWeight::Regular, height);
        let length = (advance * text.chars().count()) as f64;
        let start = match anchor {
            Anchor::Start => 0.0,
            Anchor::Middle => -length / 2.0,
            Anchor::End => -length,
        };
        // Glyphs are as high as a line; their baseline lies at four fifths.
        let rise = height.val() as f64 * 0.8;
        for (number, character) in text.chars().enumerate() {
            let glyph = get_raster(character, FontWeight::Regular, height)
                .or_else(|| get_raster('?', FontWeight::Regular, height));
            let Some(glyph) = glyph else { continue };
            for (row, line) in glyph.rows().enumerate() {
                for (column, &covered) in line.iter().enumerate() {
                    let along = start + (number * advance + column) as f64;
                    let down = row as f64 - rise;
                    let (x, y) = if upward { (at.0 + down, at.1 - along) } else { (at.0 + along, at.1 + down) };
                    if x >= 0.0 && y >= 0.0 {
                        self.blend(x as usize, y as usize, f64::from(covered) / 255.0, ink);
                    }
                }
            }
        }
    }

    /// Lays ink over a pixel, as much as it is covered.
    fn blend(&mut self, x: usize, y: usize, covered: f64, Ink(red, green, blue): Ink) {
        if covered <= 0.0 || x >= self.width || y >= self.height {
            return;
        }
        let covered = covered.min(1.0);
        let pixel = &mut self.pixels[(y * self.width + x) * 3..][..3];
        for (old, new) in pixel.iter_mut().zip([red, green, blue]) {
            *old = (f64::from(*old) * (1.0 - covered) + f64::from(new) * covered).round() as u8;
        }
    }
}

fn scaled(Point(x, y): Point) -> Point {
    Point(x * SCALE, y * SCALE)
}

/// How long a step is. `hypot` alone would have the program need a newer glibc than all the rest of it does.
fn length_of(x: f64, y: f64) -> f64 {
    (x * x + y * y).sqrt()
}

/// How far a point is from a line between two others.
fn distance(point: Point, from: Point, to: Point) -> f64 {
    let (dx, dy) = (to.0 - from.0, to.1 - from.1);
    let length = dx * dx + dy * dy;
    let along = if length == 0.0 { 0.0 } else { ((point.0 - from.0) * dx + (point.1 - from.1) * dy) / length };
    let along = along.clamp(0.0, 1.0);
    length_of(point.0 - from.0 - along * dx, point.1 - from.1 - along * dy)
}

/// A line as dashes.
fn dashes(from: Point, to: Point) -> impl Iterator<Item = (Point, Point)> {
    let length = length_of(to.0 - from.0, to.1 - from.1);
    let at = move |along: f64| {
        let share = (along / length).min(1.0);
        Point(from.0 + (to.0 - from.0) * share, from.1 + (to.1 - from.1) * share)
    };
    let dash = DASH * SCALE;
    let count = (length / (2.0 * dash)).ceil() as u32;
    (0..count).map(move |number| f64::from(number) * 2.0 * dash).map(move |start| (at(start), at(start + dash)))
}
