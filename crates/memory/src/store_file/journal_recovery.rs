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
use crate::segment::{Segment, counter};
use crate::store_file::opening;
use crate::store_file::replay::{self, Cut, NewStore};
use crate::store_file::{header_page, replay::Replayed};

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
        let folder = &std::path::absolute(folder).map_err(|source| Error::Journal {
            folder: folder.into(),
            source,
        })?;
        let Some(checkpoint) = replay::find_checkpoint(disk, folder)? else {
            return Ok(None);
        };
        let path = opening::absolute(path)?;
        let directory = path.parent().unwrap_or(Path::new("/"));
        let fail = |doing| {
            let path = path.clone();
            move |source| Error::Io {
                doing,
                path,
                source,
            }
        };
        let damaged = |reason| Error::NotAStore {
            path: checkpoint.path.clone(),
            reason,
        };
        let length = header_page::file_length(&checkpoint.page);
        let (layout, _) = header_page::parse(&checkpoint.page, length).map_err(damaged)?;
        let file =
            platform::create_unnamed(directory).map_err(fail("creating an unnamed file for"))?;
        opening::refuse_file_system(&file, &path)?;
        file.set_len(layout.file_length)
            .map_err(fail("setting the length of"))?;
        let map = Map::shared(&file, layout.file_length, true).map_err(fail("mapping"))?;
        let mapping = Mapping::new(map, layout, true);
        opening::populate(&file, &mapping).map_err(fail("allocating memory for"))?;
        let mut store = NewStore::new(&file, &mapping);
        let replayed = replay::replay(disk, folder, &checkpoint, &mut store)?;
        for extent in 0..mapping.load(control::HEAP_HIGH).min(layout.extents) {
            // A retired extent can be recalled, so it needs memory as well.
            let bit = |map: u64| mapping.load(map + extent / 64 * 8) >> (extent % 64) & 1 == 1;
            if bit(layout.reserved_map) || bit(layout.retired_map) {
                let descriptors = layout.descriptor(extent * EXTENT_PAGES);
                store
                    .back(layout.heap + extent * EXTENT, EXTENT)
                    .and_then(|()| store.back(descriptors, EXTENT_PAGES * descriptor::STRIDE))
                    .map_err(fail("allocating memory for"))?;
            }
        }
        let ring = RING.min(layout.redo_capacity);
        store
            .back(layout.redo, redo::DATA + ring)
            .map_err(fail("allocating memory for"))?;
        prepare(&mapping, folder, durability, &replayed);
        mapping.store(control::REDO_SIZE, ring);
        let boot = opening::this_boot(&file).map_err(fail("reading the boot id to create"))?;
        mapping.copy_from(0, &checkpoint.page[..PAGE as usize]);
        mapping.store(header::UNSYNCED, boot);
        // The store gets its name once it is complete, so that no other process uses it before.
        let made = opening::with_suffix(&path, ".recovering");
        let _ = std::fs::remove_file(&made);
        platform::link(&file, &made).map_err(fail("creating"))?;
        let result = finish(&made, disk, &replayed);
        let renamed =
            result.and_then(|()| std::fs::hard_link(&made, &path).map_err(fail("creating")));
        let _ = std::fs::remove_file(&made);
        renamed?;
        let mut segment = Segment::open(&path, true)?;
        segment.set_disk(disk.another_handle());
        Ok(Some(Recovered {
            segment,
            position: replayed.end,
            cut: replayed.cut,
        }))
    }
}

/// Sets the words of a recovered store that are not part of a checkpoint.
fn prepare(mapping: &Mapping, folder: &Path, durability: Option<Durability>, replayed: &Replayed) {
    use std::os::unix::ffi::OsStrExt;
    let layout = *mapping.layout();
    for index in 0..layout.shards {
        let base = layout.shard(index);
        mapping.store(base + shard::LOG_RESERVED, shard::LOG_RESERVED_MIN);
        mapping.store(base + shard::LOG_BACKED, shard::LOG_RESERVED_MIN);
        mapping.store(base + shard::HINT_BITS, shard::HINT_BITS_MIN);
        let marked = mapping.load(base + shard::MARK) != 0;
        counter::set_mark(mapping.word(base + shard::COUNTER), marked);
    }
    let name = folder.as_os_str().as_bytes();
    mapping.store(layout.redo + redo::PATH_LENGTH, name.len() as u64);
    mapping.copy_from(layout.redo + redo::PATH, name);
    let start = replayed.start;
    // The store keeps its mode, which is a part of the checkpoint and of the records.
    let mode = match durability {
        None | Some(Durability::None) => mapping.load(control::JOURNALED).max(1),
        Some(durability) => durability as u64,
    };
    for (word, value) in [
        (control::WRITING, 1),
        (control::GENERATION_BASE, replayed.epoch << 10),
        (control::RETIRED_OWNER, 0),
        (control::REDO_EPOCH, replayed.epoch),
        (control::REDO_SEGMENT, replayed.segment),
        (control::REDO_BEFORE, replayed.end),
        (control::REDO_BEGIN, start),
        (control::REDO_HEAD, start),
        (control::REDO_WRITTEN, start),
        (control::REDO_DURABLE, start),
        (control::JOURNALED, mode),
    ] {
        mapping.store(word, value);
    }
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
