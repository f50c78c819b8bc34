//! Damaged, missing and foreign files of a journal, and the end that a power cut tore (J7).

use std::path::PathBuf;

use undercroft_memory::{Cut, Error, local_disk};

use crate::history::{History, MARK, Moment, SEGMENT};
use crate::recording_disk::RecordingDisk;
use crate::store::{content, create_journaled, put, recover};

/// The length of a file's header.
const HEADER: u64 = 4096;

/// Returns a store whose journal has three segments, and the moment after each of its changes.
/// Every change is durable on its own.
fn several_segments() -> (History, Vec<Moment>) {
    let history = History::journaled();
    let mut moments = vec![history.last_moment()];
    for number in 0..12 {
        put(&history.segment, 0, number, 14_000, number as u64 + 1).expect("a change");
        history.note();
        history.segment.make_durable().expect("a durable journal");
        history.note_durable();
        moments.push(history.last_moment());
    }
    (history, moments)
}

/// Returns the path of the segment that contains a position, and the position's offset in it.
fn place(history: &History, position: u64) -> (PathBuf, u64) {
    let start = position / SEGMENT * SEGMENT;
    let path = history.folder.join(format!("{start:016x}.segment"));
    (path, HEADER + position - start)
}

/// Returns the message with which recovery fails.
fn refusal(history: &mut History, disk: &RecordingDisk) -> String {
    match history.recover(disk) {
        Err(error @ Error::Journal { .. }) => error.to_string(),
        Err(error) => panic!("expected an error of the journal, got {error}"),
        Ok(_) => panic!("expected an error, got a store"),
    }
}

#[test]
fn damage_before_a_durable_record_names_file_and_offset() {
    let (mut history, moments) = several_segments();
    // The last two records may be the torn end: no record after them says that they were durable.
    for moment in &moments[..moments.len() - 3] {
        for inside in [0, 8, 40, 5_000] {
            let disk = history.disk.image(&mut |_| 0);
            // A mark of the time comes first; the record follows it.
            let position = moment.head + inside;
            let (path, offset) = place(&history, position);
            disk.edit(&path, |bytes| bytes[offset as usize] ^= 0x10);
            let message = refusal(&mut history, &disk);
            let (at, _) = place(&history, moment.head);
            let name = at
                .file_name()
                .and_then(|name| name.to_str())
                .expect("a name");
            assert!(message.contains(name), "{position}: {message}");
            assert!(message.contains("offset"), "{position}: {message}");
        }
    }
}

#[test]
fn damage_at_the_end_of_a_segment_is_an_error_although_no_mark_follows() {
    let history = History::journaled();
    put(&history.segment, 0, 0, 40_000, 1).expect("a change");
    put(&history.segment, 0, 1, 20_000, 2).expect("a change");
    let last = history.segment.journal().expect("a journal").head;
    put(&history.segment, 0, 2, 20_000, 3).expect("a change");
    history.segment.make_durable().expect("a durable journal");
    let mut history = history;
    let (path, offset) = place(&history, last - 8);
    let disk = history.disk.image(&mut |_| 0);
    disk.edit(&path, |bytes| bytes[offset as usize] ^= 1);
    assert!(refusal(&mut history, &disk).contains("is damaged at offset"));
}

#[test]
fn torn_record_over_several_segments_is_cut() {
    let mut history = History::journaled();
    put(&history.segment, 0, 0, 64, 1).expect("a change");
    history.note();
    let end = history.last_moment();
    put(&history.segment, 0, 1, 200_000, 2).expect("a change");
    history.note();
    let head = history.last_moment().head;
    history.segment.make_durable().expect("a durable journal");
    let (path, offset) = place(&history, head - 8);
    let disk = history.disk.image(&mut |_| 0);
    // The power was cut before the sync of the last segment.
    disk.edit(&path, |bytes| {
        bytes[HEADER as usize..=offset as usize].fill(0)
    });
    let recovered = history
        .recover(&disk)
        .expect("a store")
        .expect("a checkpoint");
    assert_eq!(content(&recovered.segment), end.content);
    assert!(recovered.cut.is_some_and(|cut| cut.bytes > 64_000));
}

#[test]
fn torn_end_is_cut_and_reported() {
    let (mut history, moments) = several_segments();
    let [.., before, last] = &moments[..] else {
        panic!("expected two moments");
    };
    // Each sync begins with a mark, which the next mark declares durable.
    let durable = before.head + MARK;
    type Tear = fn(&mut [u8]);
    let tears: [(&str, Tear); 4] = [
        ("zeros", |end| end.fill(0)),
        ("garbage", |end| end.fill(0xa5)),
        ("half a page", |end| end[2_048..].fill(0)),
        ("a lost sector", |end| end[512..1_024].fill(0)),
    ];
    for (name, tear) in tears {
        let disk = history.disk.image(&mut |_| 0);
        let (path, offset) = place(&history, durable);
        disk.edit(&path, |bytes| {
            let end = offset + last.head + MARK - durable;
            tear(&mut bytes[offset as usize..end as usize]);
        });
        let recovered = history.recover(&disk).expect(name).expect("a checkpoint");
        assert_eq!(content(&recovered.segment), before.content, "{name}");
        let at = recovered.position;
        assert!(at >= durable && at < last.head, "{name}");
        match recovered.cut {
            None => assert_eq!(name, "zeros"),
            Some(Cut { at: cut, bytes }) => {
                assert_eq!(cut, at, "{name}");
                assert!(
                    bytes > 0 && at + bytes <= last.head + MARK,
                    "{name}: {bytes} bytes"
                );
            }
        }
        assert_eq!(recovered.cut.is_none(), name == "zeros", "{name}");
    }
}

#[test]
fn missing_segment_is_an_error() {
    let (mut history, moments) = several_segments();
    let (path, _) = place(&history, moments[6].head);
    assert!(moments.last().expect("a moment").head / SEGMENT > moments[6].head / SEGMENT);
    let disk = history.disk.image(&mut |_| 0);
    undercroft_memory::Disk::remove(&disk, &path).expect("a removal");
    let message = refusal(&mut history, &disk);
    let name = path
        .file_name()
        .and_then(|name| name.to_str())
        .expect("a name");
    assert!(message.contains(name), "{message}");
}

#[test]
fn segment_of_another_store_or_position_is_an_error() {
    let (mut history, moments) = several_segments();
    let (other, _) = several_segments();
    let position = moments[5].head;
    let (path, _) = place(&history, position);
    let (foreign, _) = place(&other, position);
    let foreign = other.disk.bytes(&foreign);
    let (shifted, _) = place(&history, position - SEGMENT);
    let shifted = history.disk.bytes(&shifted);
    for bytes in [foreign, shifted] {
        let disk = history.disk.image(&mut |_| 0);
        disk.edit(&path, |contents| *contents = bytes);
        let message = refusal(&mut history, &disk);
        assert!(message.contains("of another store"), "{message}");
    }
}

/// Changes a word of a file's header, and its checksum.
fn edit_header(bytes: &mut [u8], index: usize, change: impl FnOnce(u64) -> u64) {
    const WORDS: usize = 11;
    let range = index * 8..index * 8 + 8;
    let word = u64::from_le_bytes(bytes[range.clone()].try_into().expect("8 bytes"));
    bytes[range].copy_from_slice(&change(word).to_le_bytes());
    let checksum = u64::from(crc32c::crc32c(&bytes[..WORDS * 8]));
    bytes[WORDS * 8..WORDS * 8 + 8].copy_from_slice(&checksum.to_le_bytes());
}

#[test]
fn files_of_another_build_are_refused() {
    let (mut history, moments) = several_segments();
    let (segment, _) = place(&history, moments[5].head);
    let names = history.disk.files();
    let checkpoint = names
        .iter()
        .find(|path| path.extension().is_some_and(|end| end == "checkpoint"));
    let checkpoint = checkpoint.expect("a checkpoint").clone();
    for path in [segment, checkpoint] {
        for (index, expected) in [(1, "expected journal version"), (2, "expected layout")] {
            let disk = history.disk.image(&mut |_| 0);
            disk.edit(&path, |bytes| edit_header(bytes, index, |word| word + 1));
            let message = refusal(&mut history, &disk);
            let name = path
                .file_name()
                .and_then(|name| name.to_str())
                .expect("a name");
            assert!(message.contains(expected), "{message}");
            assert!(message.contains(name), "{message}");
        }
        let disk = history.disk.image(&mut |_| 0);
        disk.edit(&path, |bytes| bytes[48] ^= 1);
        let message = refusal(&mut history, &disk);
        assert!(message.contains("its header is damaged"), "{message}");
    }
}

#[test]
fn records_of_another_epoch_are_not_valid() {
    const EPOCH: usize = 6;
    let mut history = History::journaled();
    let expected = history.last();
    put(&history.segment, 0, 0, 64, 1).expect("a change");
    history.segment.make_durable().expect("a durable journal");
    let disk = history.disk.image(&mut |_| 0);
    for path in disk.files() {
        disk.edit(&path, |bytes| edit_header(bytes, EPOCH, |epoch| epoch + 1));
    }
    let recovered = history
        .recover(&disk)
        .expect("a store")
        .expect("a checkpoint");
    assert_eq!(content(&recovered.segment), expected);
    assert!(recovered.cut.is_some());
}

#[test]
fn older_checkpoint_replaces_a_damaged_one_only_if_it_loses_nothing() {
    let mut history = History::journaled();
    put(&history.segment, 0, 0, 64, 1).expect("a change");
    history.note();
    history.segment.make_durable().expect("a durable journal");
    // The power is cut after the new checkpoint got its name, before the old files are removed.
    let copies = std::sync::Arc::new(std::sync::Mutex::new(None));
    let (disk, taken) = (history.disk.clone(), copies.clone());
    history.disk.set_hook(move |(kind, _)| {
        if kind == "remove" {
            taken
                .lock()
                .expect("no panic")
                .get_or_insert_with(|| disk.image(&mut |_| 0));
        }
    });
    history.segment.checkpoint().expect("a checkpoint");
    history.disk.remove_hook();
    let disk = copies.lock().expect("no panic").take().expect("a removal");
    let mut checkpoints = disk.files();
    checkpoints.retain(|path| path.extension().is_some_and(|end| end == "checkpoint"));
    assert_eq!(checkpoints.len(), 2);
    disk.edit(&checkpoints[1], |bytes| bytes[5_000] ^= 1);
    let recovered = history
        .recover(&disk)
        .expect("a store")
        .expect("a checkpoint");
    assert_eq!(content(&recovered.segment), history.last());
    let (segment, _) = place(&history, SEGMENT);
    undercroft_memory::Disk::remove(&disk, &segment).expect("a removal");
    let message = refusal(&mut history, &disk);
    let name = checkpoints[1]
        .file_name()
        .and_then(|name| name.to_str())
        .expect("a name");
    assert!(message.contains(name), "{message}");
}

#[test]
fn removed_or_read_only_folder_stops_the_journal() {
    let directory = tempfile::tempdir_in("/dev/shm").expect("a directory in /dev/shm");
    let (segment, folder) = create_journaled(directory.path());
    put(&segment, 0, 0, 64, 1).expect("a change");
    segment.make_durable().expect("a durable journal");
    // A file in place of the folder fails every operation, also those of a privileged user.
    let hidden = directory.path().join("hidden");
    std::fs::rename(&folder, &hidden).expect("a renamed folder");
    std::fs::write(&folder, b"").expect("a file");
    put(&segment, 0, 0, 64, 2).expect("a change");
    let expected = content(&segment);
    for _ in 0..2 {
        let result = segment.make_durable();
        assert!(matches!(result, Err(Error::Journal { .. })), "{result:?}");
        let result = put(&segment, 0, 0, 64, 3);
        assert!(matches!(result, Err(Error::Journal { .. })), "{result:?}");
        let result = segment.checkpoint();
        assert!(matches!(result, Err(Error::Journal { .. })), "{result:?}");
    }
    let recovered = recover(directory.path(), &folder, &*local_disk());
    assert!(matches!(recovered, Err(Error::Journal { .. })));
    std::fs::remove_file(&folder).expect("a removal");
    std::fs::rename(&hidden, &folder).expect("a renamed folder");
    segment.checkpoint().expect("a checkpoint");
    let recovered = recover(directory.path(), &folder, &*local_disk()).expect("a store");
    assert_eq!(content(&recovered.segment), expected);
}

/// A damaged word must not make a store write files elsewhere, such as in the working directory.
#[test]
fn store_that_is_journaled_only_by_damage_writes_no_file() {
    use std::os::unix::fs::FileExt;
    let directory = tempfile::tempdir_in("/dev/shm").expect("a directory in /dev/shm");
    let path = directory.path().join("store");
    let segment = crate::store::create(&path);
    let word = undercroft_memory::layout::control::JOURNALED;
    let file = std::fs::File::options().write(true).open(&path);
    file.and_then(|file| file.write_all_at(&1_u64.to_le_bytes(), word))
        .expect("the control page");
    let before = std::fs::read_dir(".").expect("a directory").count();
    segment.set_patience(std::time::Duration::from_millis(10));
    assert!(crate::store::put(&segment, 0, 0, 64, 1).is_err());
    assert!(segment.checkpoint().is_err());
    assert_eq!(std::fs::read_dir(".").expect("a directory").count(), before);
}
