//! An S3 bucket that only has a listing: millions of objects that are computed, not stored, so that a catalog of any
//! size can be built from what looks like the real thing.

use anyhow::Result;
use std::{
    fmt::Write as _,
    io::{BufRead, BufReader, Write as _},
    net::{SocketAddr, TcpListener, TcpStream},
    thread,
};

/// Objects on a page. S3 gives 1,000; larger pages cost the same for each object, and fewer requests.
const PAGE: u64 = 5_000;

/// Objects of a class, as in ImageNet.
const CLASS: u64 = 1_300;

/// Serves a bucket of `objects` objects below `train/`, each of `size` bytes, until the process ends. Its URI.
pub(crate) fn serve(objects: u64, size: u64) -> Result<String> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let address = listener.local_addr()?;
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            thread::spawn(move || answer(&stream, objects, size));
        }
    });
    Ok(uri(address))
}

fn uri(address: SocketAddr) -> String {
    format!("s3://bucket/train?endpoint=http://{address}")
}

/// Answers the requests of one connection until it ends; whatever is asked, the answer is a page of the listing.
fn answer(stream: &TcpStream, objects: u64, size: u64) -> Result<()> {
    let (mut input, mut output) = (BufReader::new(stream), stream);
    let (mut line, mut page) = (String::new(), String::new());
    loop {
        let mut first = 0;
        for number in 0.. {
            line.clear();
            if input.read_line(&mut line)? == 0 {
                return Ok(());
            }
            if number == 0 {
                first = token(&line);
            }
            if line.trim_end().is_empty() {
                break;
            }
        }
        page.clear();
        write_page(&mut page, first, objects, size)?;
        let head =
            format!("HTTP/1.1 200 OK\r\nContent-Type: application/xml\r\nContent-Length: {}\r\n\r\n", page.len());
        output.write_all(head.as_bytes())?;
        output.write_all(page.as_bytes())?;
    }
}

/// Where the page begins that a request line asks for.
fn token(request: &str) -> u64 {
    let digits = request.split_once("continuation-token=").map_or("", |(_, rest)| rest);
    digits.split(|c: char| !c.is_ascii_digit()).next().and_then(|digits| digits.parse().ok()).unwrap_or(0)
}

fn write_page(page: &mut String, first: u64, objects: u64, size: u64) -> Result<()> {
    let end = objects.min(first + PAGE);
    let more = end < objects;
    write!(page, "<ListBucketResult><IsTruncated>{more}</IsTruncated><KeyCount>{}</KeyCount>", end - first)?;
    if more {
        write!(page, "<NextContinuationToken>{end}</NextContinuationToken>")?;
    }
    for number in first..end {
        let (class, image) = (1_440_764 + number / CLASS * 37, number % CLASS * 13);
        let etag = u128::from(number + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15_F39C_C060_5CED_C835);
        write!(
            page,
            "<Contents><Key>train/n{class:08}/n{class:08}_{image:05}.JPEG</Key>\
             <LastModified>2026-01-02T03:04:05.000Z</LastModified><ETag>&quot;{etag:032x}&quot;</ETag>\
             <Size>{size}</Size><StorageClass>STANDARD</StorageClass></Contents>"
        )?;
    }
    page.push_str("</ListBucketResult>");
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_follow_each_other_to_the_end() -> Result<()> {
        assert_eq!(token("GET /bucket?list-type=2&prefix=train%2F HTTP/1.1\r\n"), 0);
        assert_eq!(token("GET /bucket?continuation-token=5000&list-type=2 HTTP/1.1\r\n"), 5_000);
        let mut page = String::new();
        write_page(&mut page, 5_000, 7_000, 1)?;
        assert_eq!(page.matches("<Key>").count(), 2_000);
        assert!(page.contains("<IsTruncated>false</IsTruncated>") && !page.contains("NextContinuationToken"));
        page.clear();
        write_page(&mut page, 0, 7_000, 1)?;
        assert!(page.contains("<NextContinuationToken>5000</NextContinuationToken>"));
        Ok(())
    }
}
