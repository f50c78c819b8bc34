//! Recovery up to an earlier position or time, and reports about a journal's files and records.

use std::path::{Path, PathBuf};

use fastrand::Rng;
use undercroft_memory::{
    Durability, Error, JournalFileKind, JournalRecord, JournalRecordKind, Recovered, RecoveryWatch,
    Segment, Until, journal_files, local_disk, read_journal, verify_journal,
};

use crate::power::seed;
use crate::store::OPTIONS;
use crate::store::{Content, OwnDisk, change, content, create, put};

/// A store whose journal no thread writes on its own, and its moments.
struct Past {
    directory: tempfile::TempDir,
    segment: Segment,
    folder: PathBuf,
    /// The position and the content after each change since the last checkpoint.
    moments: Vec<(u64, Content)>,
}

impl Past {
    fn new() -> Past {
        let directory = tempfile::tempdir_in("/dev/shm").expect("a directory in /dev/shm");
        let mut segment = create(&directory.path().join("store"));
        segment.set_disk(Box::new(OwnDisk(local_disk())));
        let folder = directory.path().join("journal");
        segment
            .begin_journal(&folder, Durability::EverySecond, &OPTIONS)
            .expect("a journal");
        let mut past = Past {
            directory,
            segment,
            folder,
            moments: Vec::new(),
        };
        past.note();
        past
    }

    fn head(&self) -> u64 {
        self.segment.journal().expect("a journal").head
    }

    fn note(&mut self) {
        self.moments.push((self.head(), content(&self.segment)));
    }

    fn change(&mut self, random: &mut Rng, changes: usize) {
        for _ in 0..changes {
            change(&self.segment, random).expect("a change");
            self.note();
            if random.u32(..4) == 0 {
                self.segment.make_durable().expect("a durable journal");
            }
        }
        self.segment.make_durable().expect("a durable journal");
    }

    /// Returns the content at a position: after the last change that ends there or before.
    fn at(&self, position: u64) -> &Content {
        let after = self.moments.partition_point(|(head, _)| *head <= position);
        &self.moments[after - 1].1
    }

    /// Returns the content after the operation during which the journal was at a position.
    fn next_after(&self, position: u64) -> &Content {
        let after = self.moments.partition_point(|(head, _)| *head <= position);
        &self.moments[after.min(self.moments.len() - 1)].1
    }

    fn recover(&self, until: Until) -> Result<Recovered, Error> {
        let path = self.directory.path().join("recovered");
        let _ = std::fs::remove_file(&path);
        Segment::recover_until(&path, &self.folder, until, &RecoveryWatch::default())
    }

    fn records(&self) -> Vec<JournalRecord> {
        let mut records = Vec::new();
        read_journal(&self.folder, &RecoveryWatch::default(), &mut |record| {
            records.push(record.clone());
            true
        })
        .expect("an intact journal");
        records
    }
}

/// Returns the names, lengths and contents of all files in a folder.
fn files(folder: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    let entries = std::fs::read_dir(folder).expect("a folder");
    let mut files: Vec<(PathBuf, Vec<u8>)> = entries
        .map(|entry| {
            let path = entry.expect("a file").path();
            let bytes = std::fs::read(&path).expect("a file");
            (path, bytes)
        })
        .collect();
    files.sort();
    files
}

#[test]
fn store_is_recovered_as_it_was_at_every_position() {
    let mut random = Rng::with_seed(seed());
    let mut past = Past::new();
    past.change(&mut random, 60);
    let before = files(&past.folder);
    let last = past.moments[past.moments.len() - 1].0;
    let mut positions: Vec<u64> = past.moments.iter().map(|(head, _)| *head).collect();
    // Positions inside records, too.
    positions.extend((0..60).map(|_| random.u64(past.moments[0].0..last)));
    for position in positions {
        let recovered = past.recover(Until::Position(position)).expect("a store");
        assert!(recovered.position <= position);
        let found = content(&recovered.segment);
        // An operation may consist of several transactions, the first of which changes the content.
        let is_inside = past.moments.iter().all(|(head, _)| *head != position);
        let is_begun = is_inside && &found == past.next_after(position);
        assert!(
            &found == past.at(position) || is_begun,
            "{position}: {found:?}"
        );
        assert!(recovered.segment.journal().is_none());
        // The store works, and can begin a journal of its own.
        put(&recovered.segment, 0, 0, 400, 1).expect("a change");
    }
    let recovered = past.recover(Until::End).expect("a store");
    assert_eq!(&content(&recovered.segment), past.at(u64::MAX));
    assert!(files(&past.folder) == before, "the folder was changed");
    let folder = past.directory.path().join("another");
    recovered
        .segment
        .begin_journal(&folder, Durability::EverySecond, &OPTIONS)
        .expect("a journal of its own");
}

#[test]
fn recovered_store_is_another_store() {
    let mut past = Past::new();
    past.change(&mut Rng::with_seed(1), 5);
    let recovered = past.recover(Until::End).expect("a store");
    let error = recovered
        .segment
        .begin_journal(&past.folder, Durability::EverySecond, &OPTIONS)
        .expect_err("the folder of the other store");
    assert!(error.to_string().contains("another store"), "{error}");
    let identity = |path: &Path| std::fs::read(path).expect("a store")[..4096].to_vec();
    assert_ne!(
        identity(recovered.segment.path()),
        identity(past.segment.path())
    );
}

#[test]
fn time_selects_the_last_note_that_is_not_later() {
    let mut past = Past::new();
    for number in 0..8 {
        put(&past.segment, 0, number, 400, 1).expect("a change");
        past.note();
        past.segment.make_durable().expect("a durable journal");
        // The clock must go on, so that the notes have different times.
        let now = undercroft_memory::unix_milliseconds();
        while undercroft_memory::unix_milliseconds() == now {
            std::hint::spin_loop();
        }
    }
    let marks: Vec<(u64, u64)> = past
        .records()
        .iter()
        .filter(|record| record.kind == JournalRecordKind::Time)
        .map(|record| (record.after.expect("a time"), record.end))
        .collect();
    assert!(marks.len() >= 8, "{marks:?}");
    for pair in marks.windows(2) {
        let [(time, end), (next, _)] = pair else {
            unreachable!("pairs")
        };
        if next == time {
            continue;
        }
        for asked in [*time, *next - 1] {
            let recovered = past.recover(Until::Time(asked)).expect("a store");
            assert_eq!(recovered.position, *end);
            assert_eq!(&content(&recovered.segment), past.at(*end));
        }
    }
    let (last, _) = marks[marks.len() - 1];
    for asked in [last, last + 1, u64::MAX] {
        let recovered = past.recover(Until::Time(asked)).expect("a store");
        assert_eq!(&content(&recovered.segment), past.at(u64::MAX));
    }
    let error = past.recover(Until::Time(1)).err().expect("no such time");
    assert!(error.to_string().contains("older backup"), "{error}");
}

#[test]
fn position_before_the_oldest_checkpoint_is_refused() {
    let mut past = Past::new();
    past.change(&mut Rng::with_seed(2), 10);
    let before = past.head();
    past.segment.checkpoint().expect("a checkpoint");
    past.change(&mut Rng::with_seed(3), 10);
    let error = past.recover(Until::Position(before - 8)).err();
    let error = error.expect("the records are gone").to_string();
    assert!(
        error.contains(&format!("position {}", before - 8)) && error.contains("older backup"),
        "{error}"
    );
    assert!(!past.directory.path().join("recovered").exists());
    assert_eq!(
        &content(
            &past
                .recover(Until::Position(past.head()))
                .expect("a store")
                .segment
        ),
        past.at(u64::MAX)
    );
}

#[test]
fn damaged_middle_can_be_left_out() {
    let mut past = Past::new();
    for number in 0..10 {
        put(&past.segment, 0, number, 400, 1).expect("a change");
        past.note();
        past.segment.make_durable().expect("a durable journal");
    }
    let records = past.records();
    let transactions = records
        .iter()
        .filter(|record| record.kind == JournalRecordKind::Transaction);
    let damaged = transactions.skip(5).step_by(2).next().expect("a record");
    let files = journal_files(&past.folder).expect("a folder");
    let inside = |file: &&undercroft_memory::JournalFile| {
        file.kind == JournalFileKind::Segment && (file.start..file.end).contains(&damaged.position)
    };
    let file = files.iter().find(inside).expect("its segment");
    let path = past.folder.join(&file.name);
    let mut bytes = std::fs::read(&path).expect("a segment");
    bytes[(4096 + damaged.position - file.start + 60) as usize] ^= 4;
    std::fs::write(&path, bytes).expect("a segment");
    let way = format!("--until {}", damaged.position);
    for until in [
        Until::End,
        Until::Time(u64::MAX),
        Until::Position(past.head()),
    ] {
        let error = past.recover(until).err().expect("damage").to_string();
        assert!(
            error.contains(&file.name) && error.contains(&way),
            "{error}"
        );
    }
    let recovered = past
        .recover(Until::Position(damaged.position))
        .expect("a store");
    assert_eq!(recovered.position, damaged.position);
    assert_eq!(&content(&recovered.segment), past.at(damaged.position));
    let verdict = verify_journal(&past.folder, &RecoveryWatch::default()).expect("a verdict");
    let [damage] = &verdict.damage[..] else {
        panic!("{verdict:?}");
    };
    assert!(
        damage.contains(&file.name) && damage.contains("offset"),
        "{damage}"
    );
    assert_eq!(verdict.end, damaged.position);
}

#[test]
fn every_damaged_byte_of_a_checkpoint_is_found() {
    let mut past = Past::new();
    past.change(&mut Rng::with_seed(4), 10);
    past.segment.checkpoint().expect("a checkpoint");
    let verify = || verify_journal(&past.folder, &RecoveryWatch::default()).expect("a verdict");
    let sound = verify();
    assert_eq!((sound.checkpoints, sound.damage.len()), (1, 0), "{sound:?}");
    let files = journal_files(&past.folder).expect("a folder");
    let file = &files[0];
    assert_eq!(
        (file.kind, &file.problem),
        (JournalFileKind::Checkpoint, &None)
    );
    let path = past.folder.join(&file.name);
    let bytes = std::fs::read(&path).expect("a checkpoint");
    let mut random = Rng::with_seed(seed());
    for _ in 0..50 {
        // The rest of the first page is not used.
        let at = match random.u32(..8) {
            0 => random.usize(..96),
            _ => random.usize(4096..bytes.len()),
        };
        let mut damaged = bytes.clone();
        damaged[at] ^= 1 << random.u32(..8);
        std::fs::write(&path, &damaged).expect("a checkpoint");
        let verdict = verify();
        let text = verdict.damage.join("\n");
        assert!(text.contains(&file.name), "byte {at}: {verdict:?}");
    }
    std::fs::write(&path, &bytes[..bytes.len() - 8]).expect("a checkpoint");
    assert!(verify().damage[0].contains("ends at"), "{:?}", verify());
}

#[test]
fn records_name_ranges_that_were_changed() {
    let past = Past::new();
    let before = past.head();
    put(&past.segment, 2, 0, 800, 1).expect("a change");
    past.segment.make_durable().expect("a durable journal");
    let records = past.records();
    let found = records
        .iter()
        .find(|record| record.position >= before && record.kind == JournalRecordKind::Transaction)
        .expect("the change");
    assert_eq!(found.shards, 1 << 2);
    assert!(found.bytes > 800, "{found:?}");
    let sum: u64 = found.ranges.iter().map(|&(_, length)| length).sum();
    assert_eq!(found.bytes, sum);
}
