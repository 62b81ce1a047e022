//! ImageFolder order and labels, against Python walking the same tree by torchvision's rules.

use super::*;
use fodder_testing::skip;
use std::process::Command;

/// torchvision's rules, on the real file system: classes are the directories at the top; in each, `sorted(os.walk)`,
/// then sorted names with an image's extension.
const WALK: &str = r#"
import json, os, sys
top = sys.argv[1]
kinds = ('.jpg', '.jpeg', '.png', '.ppm', '.bmp', '.pgm', '.tif', '.tiff', '.webp')
classes = sorted(entry.name for entry in os.scandir(top) if entry.is_dir())
samples = []
for label, name in enumerate(classes):
    for root, _, files in sorted(os.walk(os.path.join(top, name), followlinks=True)):
        for file in sorted(files):
            if file.lower().endswith(kinds):
                samples.append((os.path.relpath(os.path.join(root, file), top), label))
print(json.dumps([classes, samples]))
"#;

const ODD_TREES: [&[&str]; 5] = [
    &["cat/1.jpg", "cat/10.jpg", "cat/2.JPG", "dog/b.png", "dog/a.webp", "README.md", "preview.png"],
    &["a/x.jpg", "a-b/x.jpg", "a/b/x.jpg", "a/b-c/x.jpg", "a/b.jpg", "a/b0/x.jpg", "a.d/q.tiff", "a/z.txt", "a/c/.jpg"],
    &[
        "Ä/ö.jpg",
        "A/é.jpeg",
        "A/e\u{301}.jpeg",
        "中/文.bmp",
        "\u{1F600}/x.PnG",
        "\u{FB01}/x.pgm",
        "z/\u{10000}.jpg",
        "z/\u{FFFD}.jpg",
    ],
    &["empty/notes.txt", "full/deep/er/1.ppm", "full/deep/0.ppm", "full/9.ppm", "zempty/x", "m/jpg", "m/x.jpg.bak"],
    &["train/n02/a b.JPEG", "train/n01/a.JPEG", "val/n01/a.JPEG", ".hidden/x.jpg", "val/n01/K.jpg", "val/ n/\t.jpg"],
];

#[test]
fn items_and_labels_are_torchvisions() {
    if Command::new("python3").arg("--version").output().is_err() {
        skip!("python3 is not installed");
    }
    for tree in ODD_TREES {
        let (top, dir, source) = (scratch(), scratch(), Memory::default());
        for path in tree {
            let file = top.path().join(path);
            fs::create_dir_all(file.parent().unwrap()).unwrap();
            fs::write(file, b"x").unwrap();
            source.put_size(path, "v", 1);
        }
        let walk = Command::new("python3").args(["-X", "utf8", "-c", WALK]).arg(top.path()).output().unwrap();
        assert!(walk.status.success(), "{}", String::from_utf8_lossy(&walk.stderr));
        let (classes, samples): (Vec<String>, Vec<(String, u32)>) = serde_json::from_slice(&walk.stdout).unwrap();
        let catalog = build(dir.path(), "files", &source).unwrap();
        let snapshot = catalog.current();
        assert_eq!(snapshot.classes(), classes);
        let label = |id| snapshot.item(id).unwrap().label.unwrap();
        let ours: Vec<_> = (0..snapshot.len()).map(|id| (snapshot.item_name(id).unwrap(), label(id))).collect();
        assert_eq!(ours, samples);
        for path in tree {
            assert!(snapshot.lookup(path).is_some(), "{path} is still read by path");
        }
    }
}

#[test]
fn images_outside_the_classes_are_reported() {
    let (dir, source) = (scratch(), Memory::default());
    ["cat/1.jpg", "loose.png"].iter().for_each(|path| source.put_size(path, "v", 1));
    let snapshot = build(dir.path(), "files", &source).unwrap().current();
    assert!(snapshot.problems()[0].starts_with("1 images lie outside"), "{:?}", snapshot.problems());
    assert!(snapshot.items_of(snapshot.lookup("loose.png").unwrap()).is_empty());
}

#[test]
fn without_images_in_directories_every_file_is_an_item_in_path_order() {
    for tree in [&["b.jpg", "a.jpg", "a/notes.txt"][..], &["x/1.wav", "x/0.wav", "top"], &["only.bin"]] {
        let (dir, source) = (scratch(), Memory::default());
        tree.iter().for_each(|path| source.put_size(path, "v", 1));
        let snapshot = build(dir.path(), "files", &source).unwrap().current();
        let mut sorted = tree.to_vec();
        sorted.sort_unstable();
        assert_eq!(names(&snapshot), sorted);
        assert!(snapshot.classes().is_empty() && snapshot.item(0).unwrap().label.is_none());
    }
}
