//! Archives that Python's tarfile writes, archives made by hand, and noise.
#![allow(clippy::unwrap_used)]

use crate::layout::{Layout, ParsedRecord};
use fodder_testing::skip;
use proptest::prelude::*;
use std::{fs, process::Command};

/// A member with a ustar header.
pub(crate) fn member(name: &str, kind: u8, data: &[u8]) -> Vec<u8> {
    let mut block = vec![0u8; 512];
    block[..name.len()].copy_from_slice(name.as_bytes());
    block[124..135].copy_from_slice(format!("{:011o}", data.len()).as_bytes());
    block[156] = kind;
    block[257..263].copy_from_slice(b"ustar\0");
    sum(&mut block);
    block.extend_from_slice(data);
    block.resize(block.len().next_multiple_of(512), 0);
    block
}

fn sum(block: &mut [u8]) {
    block[148..156].fill(b' ');
    let sum: u32 = block[..512].iter().map(|byte| u32::from(*byte)).sum();
    block[148..155].copy_from_slice(format!("{sum:06o}\0").as_bytes());
}

fn archive(members: &[Vec<u8>]) -> Vec<u8> {
    let mut bytes = members.concat();
    bytes.resize(bytes.len() + 1024, 0);
    bytes
}

fn samples(bytes: &[u8]) -> Vec<ParsedRecord> {
    Layout::Tar.records("shard.tar", bytes).unwrap()
}

fn keys(bytes: &[u8]) -> Vec<String> {
    samples(bytes).into_iter().map(|sample| sample.key).collect()
}

fn fault(bytes: &[u8]) -> String {
    Layout::Tar.records("dir/shard.tar", bytes).unwrap_err().to_string()
}

#[test]
fn consecutive_files_of_one_key_are_one_sample() {
    let bytes = archive(&[
        member("./", b'5', b""),
        member("a/1.jpg", b'0', &[1; 700]),
        member("a/1.cls", b'0', b" 42\n"),
        member("a/1.seg.png", b'0', &[2; 512]),
        member("b.x/2.txt", b'0', b""),
        member("b.x/2.cls", b'0', b"-1"),
        member("a/1.jpg", b'0', b"again"),
    ]);
    let samples = samples(&bytes);
    let found: Vec<_> = samples.iter().map(|s| (s.key.as_str(), s.range.clone(), s.label)).collect();
    assert_eq!(
        found,
        [
            ("a/1", 512..512 + 512 + 1024 + 1024 + 1024, Some(42)),
            ("b.x/2", 4096..4096 + 512 + 1024, None),
            ("a/1", 5632..5632 + 1024, None),
        ]
    );
}

#[test]
fn what_webdataset_skips_is_no_sample() {
    let bytes = archive(&[
        member("README", b'0', b"no dot"),
        member("__meta__/x.json", b'0', b"{}"),
        member("1.jpg", b'0', b"1"),
        member("1.link", b'2', b""),
        member("nothing", b'0', b"in the middle"),
        member("1.txt", b'0', b"1"),
        member(".hidden", b'0', b""),
        member("d.d/.hidden", b'0', b""),
        member("d/.hidden", b'0', b""),
        member("__init__.py", b'0', b""),
        member("dir.jpg/", 0, b""),
    ]);
    assert_eq!(keys(&bytes), ["1", "d/", "__init__"]);
    assert_eq!(samples(&bytes)[0].range.end - samples(&bytes)[0].range.start, 1024 + 512 + 1024 + 1024);
}

#[test]
fn long_names_and_pax_headers_belong_to_the_sample() {
    let long = format!("{}/key.jpg", "d".repeat(300));
    let bytes = archive(&[
        member("g", b'g', b"19 comment=nothing\n"),
        member("././@LongLink", b'L', format!("{long}\0").as_bytes()),
        member("short", b'0', b"x"),
        member("pax", b'x', b"18 path=other.jpg\n"),
        member("ignored", b'0', b"y"),
    ]);
    let samples = samples(&bytes);
    assert_eq!(samples[0].key, long.strip_suffix(".jpg").unwrap());
    assert_eq!(samples[0].range, 1024..1024 + 1024 + 1024);
    assert_eq!((samples[1].key.as_str(), samples[1].range.clone()), ("other", 3072..5120));
}

#[test]
fn sizes_in_base_256_and_pax_are_understood() {
    let mut big = member("a.bin", b'0', &[7; 600]);
    big[124..136].fill(0);
    big[124] = 0x80;
    big[134..136].copy_from_slice(&600u16.to_be_bytes());
    sum(&mut big);
    let mut by_pax = member("b.bin", b'0', &[7; 600]);
    by_pax[124..136].copy_from_slice(b"00000000000\0");
    sum(&mut by_pax);
    let bytes = archive(&[big, member("p", b'x', b"12 size=600\n"), by_pax, member("c.bin", b'0', b"")]);
    assert_eq!(keys(&bytes), ["a", "b", "c"]);
}

#[test]
fn sparse_files_are_stepped_over() {
    let mut sparse = member("s.bin", b'S', b"");
    sparse[257..265].copy_from_slice(b"ustar  \0");
    sparse[482] = 1;
    sparse[124..135].copy_from_slice(format!("{:011o}", 100).as_bytes());
    sum(&mut sparse);
    let (mut more, last) = (vec![0u8; 512], vec![0u8; 512]);
    more[504] = 1;
    let data = vec![9u8; 512];
    let bytes = archive(&[sparse, more, last, data, member("t.bin", b'0', b"t")]);
    assert_eq!(samples(&bytes).iter().map(|s| s.range.clone()).collect::<Vec<_>>(), [0..2048, 2048..3072]);
}

#[test]
fn an_archive_may_end_without_zeros_or_padding() {
    let members = [member("1.jpg", b'0', b"1"), member("2.jpg", b'0', b"22")].concat();
    assert_eq!(keys(&members), ["1", "2"]);
    assert_eq!(samples(&members[..members.len() - 510])[1].range, 1024..1538);
    assert_eq!(keys(&[]), Vec::<String>::new());
    assert_eq!(keys(&[0; 512]), Vec::<String>::new());
}

#[test]
fn damage_is_named_by_sample_and_offset() {
    let mut bytes =
        archive(&[member("1.jpg", b'0', b"1"), member("2.jpg", b'0', &[2; 600]), member("3.jpg", b'0', b"")]);
    assert_eq!(
        fault(&bytes[..1024 + 512 + 599]),
        "dir/shard.tar: sample 1 at byte 1024: the archive ends before the 600 bytes of this member: it is truncated"
    );
    assert!(fault(&bytes[..1024 + 100]).contains("sample 1 at byte 1024"));
    bytes[1024 + 1536 + 3] ^= 1;
    let flipped = fault(&bytes);
    assert!(flipped.contains("sample 2 at byte 2560") && flipped.contains("checksum"), "{flipped}");
    assert!(fault(&[0x1f, 0x8b].repeat(300)).contains("gzip"));
    assert!(fault(&member("L", b'L', b"name")).contains("long name"));
    assert!(fault(&archive(&[member("p", b'x', b"99 path=x\n")])).contains("pax"));
}

#[test]
fn archives_of_pythons_tarfile_are_understood() {
    const WRITE: &str = r#"
import io, json, sys, tarfile
top = sys.argv[1]
names = ['a/%d.%s' % (n, e) for n in range(30) for e in ('jpg', 'cls')]
names += ['b' * 90 + '/' + 'c' * 98 + '.jpg', 'd' * 300 + '/x.jpg', 'd' * 300 + '/x.txt', 'é/ü.png', 'e/' * 80 + 'f.png']
expected = {}
for name, kind in (('ustar', tarfile.USTAR_FORMAT), ('gnu', tarfile.GNU_FORMAT), ('pax', tarfile.PAX_FORMAT)):
    samples = []
    with tarfile.open('%s/%s.tar' % (top, name), 'w', format=kind) as tar:
        for n, path in enumerate(names):
            data = str(n // 2).encode() if path.endswith('cls') else bytes([n % 251]) * (n * 37)
            info = tarfile.TarInfo(path)
            info.size, info.mtime = len(data), (1.5 if kind == tarfile.PAX_FORMAT else 1)
            try:
                tar.addfile(info, io.BytesIO(data))
            except ValueError:
                continue
            key, _, suffix = path.rpartition('/')[2].partition('.')
            key = path[:len(path) - len(suffix) - 1]
            if not samples or samples[-1][0] != key:
                samples.append([key, None, []])
            if suffix == 'cls':
                samples[-1][1] = n // 2
            samples[-1][2].append([path, len(data)])
    expected[name] = samples
print(json.dumps(expected))
"#;
    const READ: &str = r#"
import io, json, sys, tarfile
data = open(sys.argv[1], 'rb').read()
members = []
for start, end in json.loads(sys.argv[2]):
    with tarfile.open(fileobj=io.BytesIO(data[start:end])) as tar:
        members.append([[member.name, member.size] for member in tar])
print(json.dumps(members))
"#;
    let python = |code: &str, arguments: &[&str]| {
        let output = Command::new("python3").args(["-X", "utf8", "-c", code]).args(arguments).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        output.stdout
    };
    if Command::new("python3").arg("--version").output().is_err() {
        skip!("python3 is not installed");
    }
    type Expected = std::collections::BTreeMap<String, Vec<(String, Option<u32>, Vec<(String, u64)>)>>;
    let top = tempfile::tempdir().unwrap();
    let expected: Expected = serde_json::from_slice(&python(WRITE, &[top.path().to_str().unwrap()])).unwrap();
    assert_eq!(expected.len(), 3);
    for (format, wanted) in expected {
        let path = top.path().join(format!("{format}.tar"));
        let found = samples(&fs::read(&path).unwrap());
        let ours: Vec<_> = found.iter().map(|sample| (sample.key.clone(), sample.label)).collect();
        assert_eq!(ours, wanted.iter().map(|(key, label, _)| (key.clone(), *label)).collect::<Vec<_>>(), "{format}");
        // Each item is itself an archive with exactly the sample's files.
        let ranges: Vec<_> = found.iter().map(|sample| (sample.range.start, sample.range.end)).collect();
        let ranges = serde_json::to_string(&ranges).unwrap();
        let members: Vec<Vec<(String, u64)>> =
            serde_json::from_slice(&python(READ, &[path.to_str().unwrap(), &ranges])).unwrap();
        assert_eq!(members, wanted.into_iter().map(|(_, _, members)| members).collect::<Vec<_>>(), "{format}");
    }
}

proptest! {
    #[test]
    fn arbitrary_bytes_are_samples_or_an_error(bytes in prop::collection::vec(any::<u8>(), 0..2000)) {
        let _ = Layout::Tar.records("f", &bytes);
    }

    #[test]
    fn arbitrary_headers_are_samples_or_an_error(
        headers in prop::collection::vec(
            ("[a./_]{0,12}", prop::sample::select(b"0\x00157LKxgSDVM".to_vec()),
             prop::collection::vec(any::<u8>(), 0..40), any::<Option<[u8; 12]>>()),
            0..8,
        ),
        cut in 0usize..4096,
    ) {
        let members: Vec<Vec<u8>> = headers.into_iter().map(|(name, kind, data, size)| {
            let mut bytes = member(&name, kind, &data);
            if let Some(size) = size {
                bytes[124..136].copy_from_slice(&size);
                sum(&mut bytes);
            }
            bytes
        }).collect();
        let bytes = archive(&members);
        for bytes in [&bytes[..], &bytes[..cut.min(bytes.len())]] {
            if let Ok(records) = Layout::Tar.records("f", bytes) {
                let mut end = 0;
                for record in records {
                    prop_assert!(record.range.start >= end && record.range.end <= bytes.len() as u64);
                    prop_assert!(!record.range.is_empty());
                    end = record.range.end;
                }
            }
        }
    }
}
