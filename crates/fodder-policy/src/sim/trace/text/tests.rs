//! Text traces of each form, and what is said of lines that are none.

#![allow(clippy::unwrap_used)]

use super::super::{Choice, Reader, Sizes, Trace};
use crate::Result;
use proptest::prelude::*;

fn read_as(text: &[u8], columns: &str) -> Result<Trace> {
    let columns = (!columns.is_empty()).then(|| columns.parse().unwrap());
    let mut reader = Reader::new(Choice { columns, dataset: None });
    for part in text.chunks(7) {
        reader.feed(part)?;
    }
    reader.finish()
}

fn read(text: &str) -> Result<Trace> {
    read_as(text.as_bytes(), "")
}

fn sizes(trace: &Trace) -> Vec<u32> {
    (0..trace.items).map(|id| trace.sizes.of(id)).collect()
}

#[test]
fn ids_alone_are_a_trace_of_items_of_one_size() {
    let trace = read("42932745\n0xff\n\n# a remark\n42932745\n255").unwrap();
    assert_eq!((trace.requests, trace.items), (vec![0, 1, 0, 1], 2));
    assert!(matches!(trace.sizes, Sizes::One));
}

#[test]
fn columns_are_time_id_and_size_unless_told_otherwise() {
    let expected = (vec![0, 1, 0], vec![512, 4096]);
    let same = |trace: Trace| assert_eq!((trace.requests.clone(), sizes(&trace)), expected);
    same(read("1,77,512\n2,78,4096\n3,77,512\n").unwrap());
    same(read("1 77 512\r\n2 78 4096\r\n3 77 512\r\n").unwrap());
    same(read("1.5, 77, 512, -1\n2.5, 78, 4096, -1\n3.5, 77, 512, -1").unwrap());
    same(read("obj_size\tobj_id\n512\t77\n4096\t78\n512\t77\n").unwrap());
    same(read("version,time,op,size,lbn\n1,33898,2a,512,77\n1,33898,2a,4096,78\n1,33899,2a,512,77\n").unwrap());
    same(read_as(b"a,b,c\n1,512,77\n2,4096,78\n3,512,77", "obj-id-col=3,obj-size-col=2").unwrap());
    same(read_as(b"1,512,77\n2,4096,78\n3,512,77", "obj-id-col=3,obj-size-col=2").unwrap());
}

#[test]
fn an_object_that_grows_is_as_large_as_it_ever_was() {
    assert_eq!(sizes(&read("1,7,10\n2,8,1\n3,7,30\n4,7,20").unwrap()), [30, 1]);
}

#[test]
fn a_trace_of_a_few_bytes_is_read_line_by_line() {
    assert_eq!(read("1\n2\n1").unwrap().requests, [0, 1, 0]);
    assert!(read("1\n2\nx").unwrap_err().to_string().contains("line 3 "));
}

#[test]
fn a_line_that_is_no_request_is_named() {
    let message = |text: &str| read(text).unwrap_err().to_string();
    assert_eq!(message("1\n2\nthree\n4"), "line 3 has no whole number as the id in column 1: \"three\"");
    assert_eq!(message("1,2,3\n\n1,2\n"), "line 3 has no number of bytes below 4 GiB as the size in column 3: \"1,2\"");
    assert_eq!(message("1,2,-3\n"), "line 1 has no number of bytes below 4 GiB as the size in column 3: \"1,2,-3\"");
    assert_eq!(
        message("who knows\n1\n"),
        "line 1 contains neither numbers nor a header with a column obj_id: \"who knows\""
    );
    assert_eq!(message(""), "the trace has no requests");
    assert_eq!(message("obj_id\n"), "the trace has no requests");
    let long = "9".repeat(100);
    assert_eq!(message(&long), format!("line 1 has no whole number as the id in column 1: {:?}…", "9".repeat(60)));
    assert_eq!(
        read_as(b"12\n\xff\xfe\n34343434", "").unwrap_err().to_string(),
        "line 2 is not text: \"\u{fffd}\u{fffd}\""
    );
    let endless = read(&"x".repeat(100_000)).unwrap_err().to_string();
    assert!(endless.starts_with("line 1 is longer than a line of a trace can be: \"xxx"), "{endless}");
}

#[test]
fn a_compressed_trace_is_told_from_junk() {
    let zstd = [0x28, 0xb5, 0x2f, 0xfd, 0, 0, 0, 0, 0];
    assert!(read_as(&zstd, "").unwrap_err().to_string().contains("zstd -d"));
}

proptest! {
    #[test]
    fn junk_is_an_error_and_never_a_panic(junk in prop::collection::vec(any::<u8>(), 0..300)) {
        let _ = read_as(&junk, "");
        let _ = read_as(&junk, "obj-id-col=2,obj-size-col=1");
    }
}
