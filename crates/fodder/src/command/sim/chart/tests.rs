//! Pictures are whole and hold what they should.

#![allow(clippy::unwrap_used)]

use super::*;
use fodder_policy::{Policy, sim::Tally};
use std::time::Duration;

fn outcomes(sizes: &[f64]) -> Vec<Outcome> {
    let outcome = |contender, share: f64| {
        let hits = if contender == Contender::Policy(Policy::Lru) { share * 500.0 } else { share * 900.0 };
        let tally = Tally { requests: 1_000, hits: hits as u64, bytes: 1_000, hit_bytes: 0 };
        Outcome { contender, cached: share, tally, bound: share, sized: false, requests: 1_000, time: Duration::ZERO }
    };
    let contenders = [Contender::Policy(Policy::Lru), Contender::Policy(Policy::Minio), Contender::Belady];
    contenders.iter().flat_map(|&contender| sizes.iter().map(move |&share| outcome(contender, share))).collect()
}

#[test]
fn a_picture_has_axes_a_line_for_everyone_and_their_names() {
    let svg = chart("a <b> & c", &outcomes(&[0.1, 0.2, 0.4])).to_svg();
    for text in
        [">hit ratio<", ">cache size (share of all items)<", ">lru<", ">minio<", ">belady<", ">bound<", ">40 %<"]
    {
        assert_eq!(svg.matches(text).count(), 1, "{text} in {svg}");
    }
    assert!(svg.contains(">a &lt;b&gt; &amp; c<"));
    assert_eq!(svg.matches("stroke-dasharray").count(), 2, "Belady and its legend");
    assert!(svg.starts_with("<svg") && svg.ends_with("</svg>\n") && !svg.contains("NaN"));
}

#[test]
fn policies_that_do_alike_share_a_line() {
    let mut outcomes = outcomes(&[0.1, 0.2]);
    let sieve = Contender::Policy(Policy::Sieve);
    let minio = outcomes[2..4].to_vec();
    outcomes.splice(4..4, minio.into_iter().map(|outcome| Outcome { contender: sieve, ..outcome }));
    let curves = curves(&outcomes);
    let names: Vec<&[&str]> = curves.iter().map(|curve| &*curve.names).collect();
    assert_eq!(names, [&["bound"][..], &["lru"], &["minio", "sieve"], &["belady"]]);
}

#[test]
fn a_png_shows_every_colour() {
    let bytes = chart("title", &outcomes(&[0.2])).to_png().unwrap();
    let mut reader = png_reader(&bytes);
    let mut pixels = vec![0; reader.output_buffer_size().unwrap()];
    let info = reader.next_frame(&mut pixels).unwrap();
    assert_eq!((info.width, info.height), (1_720, 1_040));
    for ink in [COLOURS[0], COLOURS[1], BLACK, BOUND] {
        let pixel = [ink.0, ink.1, ink.2];
        assert!(pixels.chunks_exact(3).any(|seen| seen == pixel), "no pixel has {ink:?}");
    }
}

fn png_reader(bytes: &[u8]) -> ::png::Reader<std::io::Cursor<&[u8]>> {
    ::png::Decoder::new(std::io::Cursor::new(bytes)).read_info().unwrap()
}

#[test]
fn nothing_to_draw_is_still_a_picture() {
    assert!(chart("", &[]).to_svg().contains("hit ratio"));
    assert!(chart("", &outcomes(&[1e-9])).to_png().is_ok());
}
