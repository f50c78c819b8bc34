//! Recovers a store from its journal, when its file is gone or dates from another boot.

use std::path::Path;
use std::sync::atomic::Ordering;

use crate::checkpoints::durability::Durability;
use crate::error::Error;
use crate::heap::step;
use crate::journal::waiting;
use crate::mapped::disk::Disk;
use crate::mapped::layout::{EXTENT, EXTENT_PAGES, PAGE, control, descriptor, header, redo, shard};
use crate::mapped::map::Map;
use crate::mapped::mapping::Mapping;
use crate::mapped::platform;
use crate::recovering::checkpoint_reader::{self, CheckpointReader};
use crate::recovering::new_store::NewStore;
use crate::recovering::record_reader::{Cut, RecordReader};
use crate::recovering::recovery_watch::{Meter, RecoveryProgress, RecoveryWatch};
use crate::recovering::replay::{self, Replayed, Source};
use crate::redo::lag;
use crate::segment::{Segment, counter};
use crate::store_file::{header_page, opening};

/// The size of a recovered store's ring in bytes.
const RING: u64 = 16 << 20;

/// A store that was recovered from its journal.
pub struct Recovered {
    /// The store.
    pub segment: Segment,
    /// The journal position up to which the store's changes were recovered.
    pub position: u64,
    /// The end of the journal that was left out because it was not whole.
    pub cut: Option<Cut>,
}

impl Segment {
    /// Recovers a store from a journal's folder into a new file at `path`, which must not exist.
    /// Returns `None` if the folder contains no complete checkpoint. O(checkpoint and records).
    ///
    /// # Errors
    /// Fails if a file of the journal is damaged, or if it was written by a build with another
    /// layout. Nothing is changed then.
    pub fn recover_from(
        path: &Path,
        folder: &Path,
        durability: Option<Durability>,
        disk: &dyn Disk,
    ) -> Result<Option<Recovered>, Error> {
        let watch = RecoveryWatch::default();
        recover(path, folder, durability, disk, &watch, &|_| ())
    }
}

/// Recovers a store that continues its journal. See [`Segment::recover_from`].
pub(crate) fn recover(
    path: &Path,
    folder: &Path,
    durability: Option<Durability>,
    disk: &dyn Disk,
    watch: &RecoveryWatch<'_>,
    publish: &dyn Fn(RecoveryProgress),
) -> Result<Option<Recovered>, Error> {
    let folder = &std::path::absolute(folder).map_err(|source| Error::Journal {
        folder: folder.into(),
        source,
    })?;
    let source = Source {
        disk,
        folder,
        limit: None,
        publish,
    };
    let starts = checkpoint_reader::starts(disk, folder).map_err(|error| source.fail(error))?;
    let mut newest: Option<(u64, Error)> = None;
    for start in starts {
        match recover_from_checkpoint(path, &source, start, newest.as_ref(), durability, watch) {
            Err(Attempt::Checkpoint(error)) => newest = newest.or(Some((start, error))),
            Err(Attempt::Other(error)) => return Err(error),
            Ok(recovered) => return Ok(Some(recovered)),
        }
    }
    newest.map_or(Ok(None), |(_, error)| Err(error))
}

/// The failure of a recovery from one checkpoint.
pub(crate) enum Attempt {
    /// The checkpoint is damaged, so an older one must be tried.
    Checkpoint(Error),
    Other(Error),
}

fn other(error: Error) -> Attempt {
    Attempt::Other(error)
}

/// Returns whether an error says that a file is damaged or incomplete.
fn is_damage(error: &Error) -> bool {
    matches!(error, Error::Journal { source, .. }
        if source.kind() == std::io::ErrorKind::InvalidData)
}

/// Recovers a store from the checkpoint that starts at a position.
pub(crate) fn recover_from_checkpoint(
    path: &Path,
    source: &Source<'_>,
    start: u64,
    newer: Option<&(u64, Error)>,
    durability: Option<Durability>,
    watch: &RecoveryWatch<'_>,
) -> Result<Recovered, Attempt> {
    let path = opening::absolute(path).map_err(other)?;
    let directory = path.parent().unwrap_or(Path::new("/"));
    let fail = |doing| {
        let path = path.clone();
        move |source| {
            other(Error::Io {
                doing,
                path,
                source,
            })
        }
    };
    let damage = |error: Error| match is_damage(&error) {
        true => Attempt::Checkpoint(error),
        false => Attempt::Other(error),
    };
    let mut checkpoint = CheckpointReader::open(source.disk, source.folder, start)
        .map_err(|error| damage(source.fail(error)))?;
    let length = header_page::file_length(&checkpoint.page);
    let (layout, _) = header_page::parse(&checkpoint.page, length).map_err(|reason| {
        other(Error::NotAStore {
            path: checkpoint.path.clone(),
            reason,
        })
    })?;
    let file = platform::create_unnamed(directory).map_err(fail("creating an unnamed file for"))?;
    opening::refuse_file_system(&file, &path).map_err(other)?;
    file.set_len(layout.file_length)
        .map_err(fail("setting the length of"))?;
    let map = Map::shared(&file, layout.file_length, true).map_err(fail("mapping"))?;
    let mapping = Mapping::new(map, layout, true);
    opening::populate(&file, &mapping).map_err(fail("allocating memory for"))?;
    let mut store = NewStore::new(&file, &mapping);
    let segments = RecordReader::new(source.disk, source.folder, &checkpoint.header, 0).total();
    let segments = segments.map_err(|error| other(source.fail(error)))?;
    let mut meter = Meter::publishing(watch, checkpoint.length + segments, source.publish);
    let end = replay::load(source, &mut checkpoint, &store, &mut meter).map_err(damage)?;
    let newer = newer.map(|(start, error)| (*start, error.to_string()));
    let newer = newer.as_ref();
    let replayed =
        replay::replay(source, &checkpoint, end, newer, &mut store, &mut meter).map_err(other)?;
    back_extents(&store, &mapping).map_err(fail("allocating memory for"))?;
    prepare(&mapping, &replayed);
    if replayed.continuation.is_some() {
        let ring = RING.min(layout.redo_capacity);
        store
            .back(layout.redo, redo::DATA + ring)
            .map_err(fail("allocating memory for"))?;
        continue_journal(&mapping, source.folder, durability, &replayed);
        mapping.store(control::REDO_SIZE, ring);
    }
    let boot = opening::this_boot(&file).map_err(fail("reading the boot id to create"))?;
    let page = match replayed.continuation {
        Some(_) => checkpoint.page,
        None => header_page::with_new_identity(&checkpoint.page),
    };
    mapping.copy_from(0, &page[..PAGE as usize]);
    mapping.store(header::UNSYNCED, boot);
    // After a power cut, a file on a disk must be recognized as a store of another boot.
    mapping.sync(0, PAGE).map_err(fail("writing to the disk"))?;
    // The store gets its name once it is complete, so that no other process uses it before.
    let made = opening::with_suffix(&path, ".recovering");
    let _ = std::fs::remove_file(&made);
    platform::link(&file, &made).map_err(fail("creating"))?;
    let result = finish(&made, source.disk, &replayed).map_err(other);
    let renamed = result.and_then(|()| std::fs::hard_link(&made, &path).map_err(fail("creating")));
    let _ = std::fs::remove_file(&made);
    renamed?;
    let mut segment = Segment::open(&path, true).map_err(other)?;
    segment.set_disk(source.disk.another_handle());
    Ok(Recovered {
        segment,
        position: replayed.end,
        cut: replayed.cut,
    })
}

/// Backs all extents that the store has reserved with memory, in runs that are as long as possible.
fn back_extents(store: &NewStore<'_>, mapping: &Mapping) -> std::io::Result<()> {
    let layout = *mapping.layout();
    let extents = mapping.load(control::HEAP_HIGH).min(layout.extents);
    let is_backed = |extent: u64| {
        // A retired extent can be recalled, so it needs memory as well.
        [layout.reserved_map, layout.retired_map]
            .iter()
            .any(|map| mapping.load(map + extent / 64 * 8) >> (extent % 64) & 1 == 1)
    };
    let mut extent = 0;
    while extent < extents {
        let first = extent;
        while extent < extents && is_backed(extent) {
            extent += 1;
        }
        if extent > first {
            let count = extent - first;
            let descriptors = layout.descriptor(first * EXTENT_PAGES);
            store.back(layout.heap + first * EXTENT, count * EXTENT)?;
            store.back(descriptors, count * EXTENT_PAGES * descriptor::STRIDE)?;
        }
        extent += 1;
    }
    Ok(())
}

/// Sets the words of a recovered store that are not part of a checkpoint, as in a store without a
/// journal.
fn prepare(mapping: &Mapping, replayed: &Replayed) {
    let layout = *mapping.layout();
    for index in 0..layout.shards {
        let base = layout.shard(index);
        mapping.store(base + shard::LOG_RESERVED, shard::LOG_RESERVED_MIN);
        mapping.store(base + shard::LOG_BACKED, shard::LOG_RESERVED_MIN);
        mapping.store(base + shard::HINT_BITS, shard::HINT_BITS_MIN);
        let marked = mapping.load(base + shard::MARK) != 0;
        counter::set_mark(mapping.word(base + shard::COUNTER), marked);
    }
    let epoch = replayed
        .continuation
        .map_or(replayed.epoch + 1, |next| next.epoch);
    for (word, value) in [
        (control::WRITING, 1),
        (control::GENERATION_BASE, epoch << 10),
        (control::RETIRED_OWNER, 0),
    ] {
        mapping.store(word, value);
    }
    if replayed.continuation.is_none() {
        mapping.store(control::JOURNALED, 0);
    }
}

/// Sets the words with which a recovered store continues its journal.
fn continue_journal(
    mapping: &Mapping,
    folder: &Path,
    durability: Option<Durability>,
    replayed: &Replayed,
) {
    use std::os::unix::ffi::OsStrExt;
    let Some(next) = replayed.continuation else {
        return;
    };
    let layout = *mapping.layout();
    let name = folder.as_os_str().as_bytes();
    mapping.store(layout.redo + redo::PATH_LENGTH, name.len() as u64);
    mapping.copy_from(layout.redo + redo::PATH, name);
    // The store keeps its mode, which is a part of the checkpoint and of the records.
    let mode = match durability {
        None | Some(Durability::None) => mapping.load(control::JOURNALED).max(1),
        Some(durability) => durability as u64,
    };
    for (word, value) in [
        (control::REDO_EPOCH, next.epoch),
        (control::REDO_SEGMENT, replayed.segment),
        (control::REDO_BEFORE, replayed.end),
        (control::REDO_BEGIN, next.start),
        (control::REDO_HEAD, next.start),
        (control::REDO_WRITTEN, next.start),
        (control::REDO_DURABLE, next.start),
        (control::JOURNALED, mode),
    ] {
        mapping.store(word, value);
    }
    lag::note(mapping, lag::now());
}

/// Returns the runs of transactions that did not commit to the heap, and completes the returns that
/// were interrupted.
fn finish(path: &Path, disk: &dyn Disk, replayed: &Replayed) -> Result<(), Error> {
    let mut segment = Segment::open(path, true)?;
    segment.set_disk(disk.another_handle());
    crate::segment::place::prepare_to_write(&segment)?;
    for &(index, page) in &replayed.unclaimed {
        if index < segment.shards() {
            step::run(&segment, |heap| heap.take_back(index, page))?;
        }
    }
    let head = segment
        .mapping
        .word(control::REDO_HEAD)
        .load(Ordering::Acquire);
    if head != segment.mapping.load(control::REDO_DURABLE) {
        waiting::until_durable(&segment, head)?;
    }
    Ok(())
}
