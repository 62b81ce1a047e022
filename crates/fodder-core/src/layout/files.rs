//! `files`: a file is a sample. Which files, in which order, of which class: torchvision's `ImageFolder`, exactly.
//!
//! Knows names only. Names compare by their UTF-8 bytes, which is Python's order of `str`.

use std::cmp::Ordering;

/// torchvision's `IMG_EXTENSIONS`.
const IMAGE_EXTENSIONS: [&str; 9] = [".jpg", ".jpeg", ".png", ".ppm", ".bmp", ".pgm", ".tif", ".tiff", ".webp"];

/// Whether torchvision takes a file of this name for an image. A name that is nothing but an extension counts too.
pub(crate) fn is_image(path: &str) -> bool {
    let bytes = path.as_bytes();
    IMAGE_EXTENSIONS.iter().any(|extension| {
        bytes.len() >= extension.len()
            && bytes[bytes.len() - extension.len()..].eq_ignore_ascii_case(extension.as_bytes())
    })
}

/// The class of a file: its top-level directory. None for a file at the top level.
pub(crate) fn class(path: &str) -> Option<&str> {
    path.split_once('/').map(|(class, _)| class)
}

/// A file's directory and its name in it.
pub(crate) fn split(path: &str) -> (&str, &str) {
    path.rsplit_once('/').unwrap_or(("", path))
}

/// The order of directories in a class tree: classes by name, then `sorted(os.walk(class))`, which compares whole
/// directory paths as texts.
pub(crate) fn compare_directories(a: &str, b: &str) -> Ordering {
    let class = |directory: &str| directory.find('/').unwrap_or(directory.len());
    a[..class(a)].cmp(&b[..class(b)]).then_with(|| a.cmp(b))
}

/// The order of items in a class tree: by directory, then by name.
pub(crate) fn compare_items(a: &str, b: &str) -> Ordering {
    let ((a_directory, a_name), (b_directory, b_name)) = (split(a), split(b));
    compare_directories(a_directory, b_directory).then_with(|| a_name.cmp(b_name))
}
