//! Journals whose contents are wrong although their checksums are right. Reading them must end with a
//! store or with an error.

use std::fs;
use std::path::{Path, PathBuf};

use fastrand::Rng;
use undercroft_memory::{
    JournalFileKind, JournalRecord, RecoveryWatch, Segment, Until, journal_files, read_journal,
    verify_journal,
};

use crate::power::{repetitions, seed};
use crate::store::{change, create_journaled};

/// The length of a file's header.
const HEADER: u64 = 4096;

/// The files of a small journal: their names and contents.
struct Journal {
    files: Vec<(String, Vec<u8>)>,
    /// The records, and for each one the index of its segment, the segment's start and its epoch.
    records: Vec<(JournalRecord, usize, u64, u64)>,
    /// The index of the checkpoint's file.
    checkpoint: usize,
}

impl Journal {
    fn new(directory: &Path, random: &mut Rng) -> Journal {
        let (segment, folder) = create_journaled(directory);
        for _ in 0..15 {
            change(&segment, random).expect("a change");
        }
        segment.checkpoint().expect("a checkpoint");
        for _ in 0..25 {
            change(&segment, random).expect("a change");
        }
        segment.make_durable().expect("a durable journal");
        let known = journal_files(&folder).expect("a folder");
        let files = known.iter().map(|file| {
            let bytes = fs::read(folder.join(&file.name)).expect("a file");
            (file.name.clone(), bytes)
        });
        let files: Vec<(String, Vec<u8>)> = files.collect();
        let mut records = Vec::new();
        read_journal(&folder, &RecoveryWatch::default(), &mut |record| {
            let place = known.iter().position(|file| {
                file.kind == JournalFileKind::Segment
                    && file.start <= record.position
                    && record.end <= file.end
            });
            // Records that span files are left as they are.
            if let Some(index) = place {
                let file = &known[index];
                records.push((record.clone(), index, file.start, file.epoch));
            }
            true
        })
        .expect("an intact journal");
        let checkpoint = known
            .iter()
            .position(|file| file.kind == JournalFileKind::Checkpoint)
            .expect("a checkpoint");
        drop(segment);
        fs::remove_dir_all(&folder).expect("it exists");
        Journal {
            files,
            records,
            checkpoint,
        }
    }

    /// Writes the journal with some wrong words.
    fn write(&self, folder: &Path, random: &mut Rng) {
        let mut files = self.files.clone();
        for _ in 0..random.usize(1..4) {
            match random.bool() {
                true => self.change_record(&mut files, random),
                false => change_part(&mut files[self.checkpoint].1, random),
            }
        }
        fs::create_dir(folder).expect("a folder");
        for (name, bytes) in files {
            fs::write(folder.join(name), bytes).expect("a file");
        }
    }

    fn change_record(&self, files: &mut [(String, Vec<u8>)], random: &mut Rng) {
        let (record, file, start, epoch) = &self.records[random.usize(..self.records.len())];
        let from = (HEADER + record.position - start) as usize;
        let record = &mut files[*file].1[from..from + (record.end - record.position) as usize];
        // Mostly in the header and in the first entries.
        let words = record.len() / 8;
        let index = match random.bool() {
            true => random.usize(..words.min(10)),
            false => random.usize(..words),
        };
        change_word(&mut record[index * 8..index * 8 + 8], random);
        let seed = crc32c::crc32c(&epoch.to_le_bytes());
        let first = crc32c::crc32c_append(seed, &record[..40]);
        let checksum = u64::from(crc32c::crc32c_append(first, &record[48..]));
        record[40..48].copy_from_slice(&checksum.to_le_bytes());
    }
}

/// Changes a word of a part of a checkpoint.
fn change_part(bytes: &mut [u8], random: &mut Rng) {
    let mut starts = Vec::new();
    let mut at = HEADER as usize;
    // A length may have been changed already.
    while at <= bytes.len() - 24 {
        starts.push(at);
        let length = u64::from_le_bytes(bytes[at + 8..at + 16].try_into().expect("8 bytes"));
        at = at.saturating_add(24).saturating_add(length as usize);
    }
    let part = random.usize(..starts.len());
    let end = starts.get(part + 1).copied().unwrap_or(bytes.len());
    let part = &mut bytes[starts[part]..end.max(starts[part] + 24)];
    let words = part.len() / 8;
    let index = match random.u32(..4) {
        0 => random.usize(..3.min(words)),
        _ => random.usize(..words),
    };
    change_word(&mut part[index * 8..index * 8 + 8], random);
    let checksum = crc32c::crc32c_append(crc32c::crc32c(&part[..16]), &part[24..]);
    part[16..24].copy_from_slice(&u64::from(checksum).to_le_bytes());
}

fn change_word(word: &mut [u8], random: &mut Rng) {
    let old = u64::from_le_bytes((&*word).try_into().expect("8 bytes"));
    let new = match random.u32(..5) {
        0 => old ^ 1 << random.u32(..64),
        1 => old.wrapping_add(8),
        2 => 0,
        3 => u64::MAX,
        _ => random.u64(..),
    };
    word.copy_from_slice(&new.to_le_bytes());
}

#[test]
fn wrong_contents_end_with_a_store_or_an_error() {
    let seed = seed();
    let mut random = Rng::with_seed(seed);
    let directory = tempfile::tempdir_in("/dev/shm").expect("a directory in /dev/shm");
    let journal = Journal::new(directory.path(), &mut random);
    let folder: PathBuf = directory.path().join("changed");
    let path = directory.path().join("recovered");
    let watch = RecoveryWatch::default();
    let mut recovered = 0;
    for _ in 0..150 * repetitions() {
        journal.write(&folder, &mut random);
        verify_journal(&folder, &watch).expect("a verdict");
        let _ = read_journal(&folder, &watch, &mut |_| true);
        if let Ok(found) = Segment::recover_until(&path, &folder, Until::End, &watch) {
            recovered += 1;
            // Whatever is wrong with the store, the check describes it.
            let _ = found.segment.check(|_, _, _, _| ());
            drop(found);
            fs::remove_file(&path).expect("it exists");
        }
        fs::remove_dir_all(&folder).expect("just written");
    }
    println!("{recovered} stores were recovered");
    assert!(recovered > 0, "some wrong words are not noticed");
}
