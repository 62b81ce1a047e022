//! The picture: hit ratio against cache size, a line a policy, with Belady's optimum and the bound.
//!
//! It decides what is drawn where, as shapes; how shapes become SVG or PNG is below it.

mod png;
mod scale;
mod shape;
mod svg;

pub(super) use shape::Drawing;

use super::race::Outcome;
use fodder_policy::sim::study::Contender;
use scale::Scale;
use shape::{Anchor, Ink, Point, Shape, Size};

const WIDTH: f64 = 860.0;
const HEIGHT: f64 = 520.0;
/// Where the axes are.
const LEFT: f64 = 80.0;
const RIGHT: f64 = 680.0;
const TOP: f64 = 60.0;
const BOTTOM: f64 = 450.0;

const BLACK: Ink = Ink(0x20, 0x20, 0x20);
const GREY: Ink = Ink(0x70, 0x70, 0x70);
const GRID: Ink = Ink(0xe4, 0xe4, 0xe4);
/// Wide and pale, under everything else: a policy that reaches the bound runs along its middle.
const BOUND: Ink = Ink(0xcc, 0xcc, 0xcc);
/// Told apart also by those who do not see all colours (Okabe and Ito), then darker ones.
const COLOURS: [Ink; 11] = [
    Ink(0x00, 0x72, 0xb2),
    Ink(0xd5, 0x5e, 0x00),
    Ink(0x00, 0x9e, 0x73),
    Ink(0xcc, 0x79, 0xa7),
    Ink(0xe6, 0x9f, 0x00),
    Ink(0x56, 0xb4, 0xe9),
    Ink(0x7a, 0x4b, 0x9a),
    Ink(0x8c, 0x56, 0x4b),
    Ink(0xb0, 0xa8, 0x00),
    Ink(0x2f, 0x4f, 0x4f),
    Ink(0xa0, 0x10, 0x30),
];

/// Where two curves are never further apart than this, they cannot be told apart.
const ALIKE: f64 = 0.001;

/// One line of the chart.
struct Curve {
    /// Whose it is: of several, where they do alike.
    names: Vec<&'static str>,
    /// Share cached and hit ratio, ascending.
    points: Vec<(f64, f64)>,
    pen: Pen,
}

/// How a curve is drawn.
#[derive(Clone, Copy)]
struct Pen {
    ink: Ink,
    width: f64,
    dashed: bool,
    dots: bool,
}

/// Draws outcomes.
pub(super) fn chart(title: &str, outcomes: &[Outcome]) -> Drawing {
    let curves = curves(outcomes);
    let all = || curves.iter().flat_map(|curve| &curve.points);
    let x = Scale::new(all().map(|point| point.0).fold(0.0, f64::max), LEFT, RIGHT);
    let y = Scale::new(all().map(|point| point.1).fold(0.0, f64::max), BOTTOM, TOP);
    let mut shapes = axes(title, &x, &y);
    curves.iter().for_each(|curve| shapes.extend(draw(curve, &x, &y)));
    shapes.extend(legend(&curves));
    Drawing { width: WIDTH, height: HEIGHT, shapes }
}

/// The bound first and Belady last, so that policies which reach them are seen between the two.
fn curves(outcomes: &[Outcome]) -> Vec<Curve> {
    let points = |of: &[Outcome], value: fn(&Outcome) -> f64| of.iter().map(|o| (o.cached, value(o))).collect();
    let mut curves: Vec<Curve> = Vec::new();
    for policy in outcomes.chunk_by(|a, b| a.contender == b.contender) {
        if curves.is_empty() {
            let pen = Pen { ink: BOUND, width: 8.0, dashed: false, dots: false };
            curves.push(Curve { names: vec!["bound"], points: points(policy, |outcome| outcome.bound), pen });
        }
        let name = policy[0].contender.name();
        let points: Vec<(f64, f64)> = points(policy, |outcome| outcome.tally.hit_ratio());
        let is_policy = policy[0].contender != Contender::Belady;
        if is_policy && let Some(same) = curves[1..].iter_mut().find(|curve| alike(&curve.points, &points)) {
            same.names.push(name);
            continue;
        }
        let ink = if is_policy { COLOURS[(curves.len() - 1) % COLOURS.len()] } else { BLACK };
        let width = if is_policy { 2.2 } else { 1.6 };
        curves.push(Curve { names: vec![name], points, pen: Pen { ink, width, dashed: !is_policy, dots: is_policy } });
    }
    curves
}

fn alike(a: &[(f64, f64)], b: &[(f64, f64)]) -> bool {
    a.iter().zip(b).all(|(a, b)| (a.1 - b.1).abs() <= ALIKE)
}

fn axes(title: &str, x: &Scale, y: &Scale) -> Vec<Shape> {
    let line = |from, to, ink| Shape::Line { points: vec![from, to], ink, width: 1.0, dashed: false };
    let mut shapes = Vec::new();
    for (value, at) in y.ticks() {
        shapes.push(line(Point(LEFT, at), Point(RIGHT, at), GRID));
        shapes.push(label(Point(LEFT - 8.0, at + 4.0), y.write(value), Anchor::End));
    }
    for (value, at) in x.ticks() {
        shapes.push(line(Point(at, BOTTOM), Point(at, BOTTOM + 5.0), GREY));
        shapes.push(label(Point(at, BOTTOM + 20.0), super::table::percent(value), Anchor::Middle));
    }
    shapes.push(line(Point(LEFT, BOTTOM), Point(RIGHT, BOTTOM), GREY));
    shapes.push(line(Point(LEFT, TOP), Point(LEFT, BOTTOM), GREY));
    let below = Point((LEFT + RIGHT) / 2.0, BOTTOM + 46.0);
    shapes.push(label(below, "cache size (share of all items)".into(), Anchor::Middle));
    let text =
        |at, text: &str, anchor, size, upward| Shape::Text { at, text: text.into(), anchor, size, upward, ink: BLACK };
    shapes.push(text(Point(28.0, (TOP + BOTTOM) / 2.0), "hit ratio", Anchor::Middle, Size::Label, true));
    shapes.push(text(Point(LEFT, TOP - 28.0), title, Anchor::Start, Size::Title, false));
    shapes
}

fn draw(curve: &Curve, x: &Scale, y: &Scale) -> Vec<Shape> {
    let points: Vec<Point> = curve.points.iter().map(|&(cached, ratio)| Point(x.at(cached), y.at(ratio))).collect();
    let Pen { ink, width, dashed, dots } = curve.pen;
    // A single size is a point, and has to be seen nevertheless.
    let dotted = if dots || points.len() == 1 { points.clone() } else { Vec::new() };
    let dots = dotted.into_iter().map(|at| Shape::Dot { at, radius: width * 1.4, ink });
    [Shape::Line { points, ink, width, dashed }].into_iter().chain(dots).collect()
}

/// Names beside the chart, the highest curve first.
fn legend(curves: &[Curve]) -> Vec<Shape> {
    let height = |curve: &Curve| curve.points.iter().map(|point| point.1).sum::<f64>();
    let mut sorted: Vec<&Curve> = curves.iter().collect();
    sorted.sort_by(|a, b| height(b).total_cmp(&height(a)));
    let mut shapes = Vec::new();
    let mut at = TOP + 10.0;
    for curve in sorted {
        let (points, Pen { ink, width, dashed, .. }) =
            (vec![Point(RIGHT + 24.0, at), Point(RIGHT + 58.0, at)], curve.pen);
        shapes.push(Shape::Line { points, ink, width, dashed });
        for (number, name) in curve.names.iter().enumerate() {
            let text = if number == 0 { (*name).into() } else { format!("= {name}") };
            shapes.push(label(Point(RIGHT + 68.0, at + 4.0), text, Anchor::Start));
            at += 22.0;
        }
    }
    shapes
}

fn label(at: Point, text: String, anchor: Anchor) -> Shape {
    Shape::Text { at, text, anchor, size: Size::Label, upward: false, ink: BLACK }
}

#[cfg(test)]
mod tests;
