//! A small dataset of real images: classes as directories, each file a PNG of about 100 KiB.
//!
//! The pixels are a picture under noise, because noise does not compress: the files have the size of photographs.

use anyhow::{Context, Result};
use std::{
    fs::{self, File},
    io::BufWriter,
    path::Path,
};

/// What the images are said to show.
const CLASSES: [&str; 6] = ["barley", "clover", "hay", "maize", "oats", "rye"];
/// Width and height: 182 × 182 × 3 bytes of noise are about 97 KiB.
const SIDE: u32 = 182;

/// Writes `count` images below `dir`, the same ones every time.
pub(super) fn write_dataset(dir: &Path, count: u32) -> Result<()> {
    for class in CLASSES {
        fs::create_dir_all(dir.join(class)).with_context(|| format!("cannot make {}", dir.display()))?;
    }
    for number in 0..count {
        let class = CLASSES[number as usize % CLASSES.len()];
        let path = dir.join(class).join(format!("{class}-{:04}.png", number as usize / CLASSES.len()));
        write_image(&path, number).with_context(|| format!("cannot write {}", path.display()))?;
    }
    Ok(())
}

fn write_image(path: &Path, number: u32) -> Result<()> {
    let mut noise = Noise(u64::from(number) + 1);
    let mut pixels = Vec::with_capacity((SIDE * SIDE * 3) as usize);
    for y in 0..SIDE {
        for x in 0..SIDE {
            let [red, green, blue, _] = noise.next().to_le_bytes();
            let light = ((x + y + number * 7) % 256) as u8;
            pixels.extend([red, green ^ light, blue]);
        }
    }
    let mut encoder = png::Encoder::new(BufWriter::new(File::create(path)?), SIDE, SIDE);
    encoder.set_color(png::ColorType::Rgb);
    encoder.set_compression(png::Compression::Fast);
    let mut writer = encoder.write_header()?;
    writer.write_image_data(&pixels)?;
    writer.finish()?;
    Ok(())
}

/// Numbers without a pattern, the same for the same seed: splitmix64.
pub(super) struct Noise(pub(super) u64);

impl Noise {
    pub(super) fn next(&mut self) -> u32 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((z ^ (z >> 31)) >> 32) as u32
    }

    /// The numbers below `count` in a random order: one epoch.
    pub(super) fn shuffled(&mut self, count: u64) -> Vec<u64> {
        let mut order: Vec<u64> = (0..count).collect();
        for last in (1..order.len()).rev() {
            order.swap(last, self.next() as usize % (last + 1));
        }
        order
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn images_are_real_and_of_the_size_of_photographs() {
        let dir = tempfile::tempdir().unwrap();
        write_dataset(dir.path(), 7).unwrap();
        let first = dir.path().join("barley/barley-0000.png");
        let size = fs::metadata(&first).unwrap().len();
        assert!((80_000..140_000).contains(&size), "{size}");
        let decoder = png::Decoder::new(std::io::BufReader::new(File::open(first).unwrap()));
        let mut reader = decoder.read_info().unwrap();
        let mut pixels = vec![0; reader.output_buffer_size().unwrap()];
        assert_eq!(reader.next_frame(&mut pixels).unwrap().width, SIDE);
        assert!(dir.path().join("barley/barley-0001.png").exists());
    }

    #[test]
    fn a_shuffled_epoch_has_every_number_once() {
        let mut order = Noise(7).shuffled(100);
        assert_ne!(order, (0..100).collect::<Vec<_>>());
        order.sort_unstable();
        assert_eq!(order, (0..100).collect::<Vec<_>>());
    }
}
