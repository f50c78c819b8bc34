//! Takes snapshots of store files, and creates copies from the snapshots.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::AsFd;
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::Path;

use nix::errno::Errno;
use nix::unistd::{Whence, lseek};

/// The contents of a sparse file: its length, and the ranges that contain data.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Image {
    length: u64,
    /// The number of allocated blocks, which changes when a hole is filled or punched.
    blocks: u64,
    ranges: Vec<(u64, Vec<u8>)>,
}

impl Image {
    /// Reads a file, skipping its holes.
    pub fn read(file: &File) -> io::Result<Image> {
        let mut image = Image::default();
        image.update(file)?;
        Ok(image)
    }

    /// Reads the file again. Returns whether a byte or a hole has changed. Takes time proportional
    /// to the number of data bytes.
    pub fn update(&mut self, file: &File) -> io::Result<bool> {
        let metadata = file.metadata()?;
        let (length, blocks) = (metadata.len(), metadata.blocks());
        let same = self.length == length && self.blocks == blocks;
        if !same {
            (self.length, self.blocks) = (length, blocks);
            self.ranges = data_ranges(file, length)?
                .into_iter()
                .map(|range| (range.start, vec![0; (range.end - range.start) as usize]))
                .collect();
        }
        let mut changed = !same;
        let mut piece = [0; PIECE];
        for (start, bytes) in &mut self.ranges {
            for (index, old) in bytes.chunks_mut(PIECE).enumerate() {
                let new = &mut piece[..old.len()];
                file.read_exact_at(new, *start + (index * PIECE) as u64)?;
                if old != new {
                    old.copy_from_slice(new);
                    changed = true;
                }
            }
        }
        Ok(changed)
    }

    /// Creates a file with these contents, including the holes. The file must not exist.
    pub fn write_to(&self, path: &Path) -> io::Result<()> {
        let mut options = OpenOptions::new();
        let file = options
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(path)?;
        self.write_into(&file)
    }

    /// Gives an existing file these contents, including the holes.
    pub fn write_into(&self, file: &File) -> io::Result<()> {
        file.set_len(0)?;
        file.set_len(self.length)?;
        for (start, bytes) in &self.ranges {
            file.write_all_at(bytes, *start)?;
        }
        Ok(())
    }
}

/// The number of bytes to compare at once, chosen to fit in the CPU cache.
const PIECE: usize = 16 * 1024;

fn data_ranges(file: &File, length: u64) -> io::Result<Vec<std::ops::Range<u64>>> {
    let mut ranges = Vec::new();
    let mut at = 0;
    while at < length {
        let start = match lseek(file.as_fd(), at as i64, Whence::SeekData) {
            Ok(start) => start as u64,
            Err(Errno::ENXIO) => break,
            Err(error) => return Err(error.into()),
        };
        let end = lseek(file.as_fd(), start as i64, Whence::SeekHole)? as u64;
        ranges.push(start..end);
        at = end;
    }
    Ok(ranges)
}

/// Copies a sparse file to a path that does not yet exist.
pub fn copy_store(from: &Path, to: &Path) -> io::Result<()> {
    Image::read(&File::open(from)?)?.write_to(to)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn updates_detect_changed_bytes_and_copies_are_equal() {
        let directory = tempfile::tempdir_in("/dev/shm").expect("a directory in /dev/shm");
        let path = directory.path().join("file");
        let file = File::create_new(&path).expect("a new file");
        file.set_len(1 << 20).expect("room");
        file.write_all_at(b"one", 5000).expect("room");
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .open(&path)
            .expect("the file");
        let mut image = Image::read(&file).expect("an image");
        assert!(!image.update(&file).expect("an image"));
        for (at, name) in [(5000, "a byte of data"), (900_000, "a byte in a hole")] {
            file.write_all_at(b"2", at).expect("room");
            assert!(image.update(&file).expect("an image"), "{name}");
            assert!(!image.update(&file).expect("an image"), "{name}");
        }
        let copy = directory.path().join("copy");
        image.write_to(&copy).expect("a free path");
        let copy = File::open(copy).expect("the copy");
        assert_eq!(Image::read(&copy).expect("an image"), image);
    }
}
