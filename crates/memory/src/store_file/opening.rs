//! Creates and opens store files.
//!
//! A store is built in an unnamed file and linked into place when complete, so a process that opens
//! the path sees either a complete store or none. A file that is not a store in this build's format
//! is rejected and never modified.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use crate::error::Error;
use crate::mapped::layout::{
    EXTENT, EXTENTS_MAX, HEAP_LOG_RESERVED, Layout, PAGE, SHARDS_MAX, control, header, shard, slot,
};
use crate::mapped::map::Map;
use crate::mapped::mapping::Mapping;
use crate::mapped::platform;
use crate::processes::process::{Process, SPARE_SLOTS};
use crate::processes::user_marks;
use crate::segment::Segment;
use crate::segment::settings::Setting;
use crate::store_file::{header_page, recovery, syncer};

/// The default for [`Options::capacity`].
const CAPACITY: u64 = 64 << 30;
/// The size of the smallest allowed heap in bytes.
const CAPACITY_MIN: u64 = 8 * EXTENT;
/// The default for [`Options::ring`], if the store is large enough.
const RING: u64 = 16 << 20;
/// The minimum number of heap bytes per shard. A shard with less is not worth its fixed cost.
const CAPACITY_PER_SHARD: u64 = 4 << 20;

/// Options for creating a store. They cannot be changed later.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// The size of the heap's address space in bytes. Uses no memory until it is written. Default:
    /// 64 GiB, or the size of the file system if that is less. [`capacity_made`] returns the actual
    /// capacity of a store.
    pub capacity: Option<u64>,
    /// The number of shards, rounded up to a power of two, at most 64. Default: four for each core,
    /// or fewer in a small store.
    pub shards: Option<usize>,
    /// The size in bytes of the ring for messages between processes, rounded up to a power of two
    /// from 64 KiB to 4 GiB. Uses no memory until messages are published. A message may fill up to
    /// a quarter of the ring. Default: 16 MiB, or an eighth of a small store's capacity.
    pub ring: Option<u64>,
}

/// Initial settings of a store. They take effect before any other process can see the store, and
/// can be changed later.
#[derive(Clone, Copy, Debug, Default)]
pub struct Initially<'a> {
    /// The limit on the total size of allocated blocks, in bytes. 0 means no limit.
    pub max_memory: u64,
    /// Whether `max_memory` is only a default, which is capped at five eighths of the file system.
    pub max_memory_is_default: bool,
    /// Settings that differ from their defaults.
    pub settings: &'a [(Setting, u64)],
}

impl Segment {
    /// Creates a store. Returns an [`Error::Io`] that contains [`io::ErrorKind::AlreadyExists`] if
    /// the path exists.
    pub fn create(path: &Path, options: &Options) -> Result<Segment, Error> {
        Segment::create_so(path, options, Initially::default())
    }

    /// Creates a store with initial settings. See [`create`](Self::create).
    pub fn create_so(
        path: &Path,
        options: &Options,
        initially: Initially<'_>,
    ) -> Result<Segment, Error> {
        check_capacity(options)?;
        let path = absolute(path)?;
        let directory = path.parent().unwrap_or(Path::new("/"));
        let fail = |doing| {
            let path = path.clone();
            move |source| Error::Io {
                doing,
                path,
                source,
            }
        };
        let file =
            platform::create_unnamed(directory).map_err(fail("creating an unnamed file for"))?;
        refuse_file_system(&file, &path)?;
        let space =
            platform::file_system_size(&file).map_err(fail("checking the free space at"))?;
        let capacity = options
            .capacity
            .unwrap_or(CAPACITY.min(space))
            .max(CAPACITY_MIN);
        let ring_size = options.ring.unwrap_or(RING.min(capacity / 8));
        let shards = shard_count(options.shards, capacity);
        let layout = Layout::new(shards, capacity, ring_size);
        file.set_len(layout.file_length)
            .map_err(fail("setting the length of"))?;
        let map = Map::shared(&file, layout.file_length, true).map_err(fail("mapping"))?;
        let mapping = Mapping::new(map, layout, true);
        populate(&file, &mapping).map_err(fail("allocating memory for"))?;
        for index in 0..layout.shards {
            let base = layout.shard(index);
            mapping.store(base + shard::LOG_RESERVED, shard::LOG_RESERVED_MIN);
            mapping.store(base + shard::LOG_BACKED, shard::LOG_RESERVED_MIN);
            mapping.store(base + shard::HINT_BITS, shard::HINT_BITS_MIN);
        }
        mapping.store(control::WRITING, 1);
        let most = match initially.max_memory_is_default {
            // Five eighths, because with only a quarter of the space left free, large values found
            // no contiguous free memory.
            true => space / 8 * 5,
            false => u64::MAX,
        };
        mapping.store(control::MAX_MEMORY, initially.max_memory.min(most));
        for (setting, value) in initially.settings {
            mapping.store(*setting as u64, *value);
        }
        let boot = this_boot(&file).map_err(fail("reading the boot id to create"))?;
        let page = header_page::new(&layout, boot).map_err(fail("getting random bytes for"))?;
        mapping.copy_from(0, &page);
        platform::link(&file, &path).map_err(fail("creating"))?;
        // Open the store by its path: the kernel reports a mapping of a file that was opened
        // unnamed as deleted, even after the file is linked.
        Segment::open(&path, true)
    }

    /// Opens an existing store, either read-only or for reading and writing.
    ///
    /// # Errors
    /// Returns [`Error::Unclean`] if the store was changed during another boot or on another
    /// machine and not [synced](Segment::sync).
    pub fn open(path: &Path, write: bool) -> Result<Segment, Error> {
        open_as(path, write, Visibility::Shared)
    }

    /// Opens a store that [`open`](Self::open) rejects as unclean, to salvage its readable data.
    /// Changes are visible only in this process, and the file is never modified.
    pub fn open_unclean(path: &Path) -> Result<Segment, Error> {
        open_as(path, true, Visibility::Private)
    }

    /// Opens a store, or creates it if the path does not exist.
    pub fn open_or_create(
        path: &Path,
        options: &Options,
        initially: Initially<'_>,
    ) -> Result<Segment, Error> {
        let missing = |error: &Error| matches!(error, Error::Io { source, .. } if source.kind() == io::ErrorKind::NotFound);
        let taken = |error: &Error| matches!(error, Error::Io { source, .. } if source.kind() == io::ErrorKind::AlreadyExists);
        match Segment::open(path, true) {
            Err(error) if missing(&error) => match Segment::create_so(path, options, initially) {
                Err(error) if taken(&error) => Segment::open(path, true),
                result => result,
            },
            result => result,
        }
    }
}

/// Returns the actual capacity of a store for a requested number of bytes: a multiple of the extent
/// size, and no less than the minimum.
pub fn capacity_made(asked: u64) -> u64 {
    Layout::extents(asked) * EXTENT
}

/// Rejects an impossible capacity instead of adjusting it, because the capacity can never be
/// changed later.
fn check_capacity(options: &Options) -> Result<(), Error> {
    let allowed = (CAPACITY_MIN, EXTENTS_MAX * EXTENT);
    match options.capacity {
        Some(asked) if !(allowed.0..=allowed.1).contains(&asked) => {
            Err(Error::Capacity { asked, allowed })
        }
        _ => Ok(()),
    }
}

pub(crate) fn absolute(path: &Path) -> Result<PathBuf, Error> {
    let fail = |source| Error::Io {
        doing: "finding the directory of",
        path: path.into(),
        source,
    };
    let name = path.file_name().ok_or_else(|| {
        fail(io::Error::new(
            io::ErrorKind::InvalidInput,
            "expected a path that ends in a file name",
        ))
    })?;
    let directory = match path.parent() {
        Some(parent) if parent != Path::new("") => parent,
        _ => Path::new("."),
    };
    Ok(directory.canonicalize().map_err(fail)?.join(name))
}

/// Returns the path of a file next to the store.
pub(crate) fn with_suffix(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    name.into()
}

/// Which processes see the writes through a handle.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Visibility {
    /// The writes are visible to all processes.
    Shared,
    /// The writes are visible only through this handle, and are lost when it is closed.
    Private,
}

/// Returns the boot identifier for the header. If the system reports none, any value is valid for a
/// file in memory, because the file does not outlive its boot.
pub(crate) fn this_boot(file: &File) -> io::Result<u64> {
    match header_page::boot() {
        Some(boot) => Ok(boot),
        None if platform::is_in_memory(file)? => Ok(u64::MAX),
        None => Err(io::ErrorKind::NotFound.into()),
    }
}

/// Acquires the shared lock for this process's pid namespace. The open file description of `file`
/// is mapped, so the lock lasts until the last process that inherited the mapping ends. Returns the
/// namespace, or 0 if it could not be locked.
fn share_namespace(file: &File, namespace: u32) -> io::Result<u32> {
    let locked =
        namespace != 0 && platform::share_byte(file, slot::NAMESPACES + u64::from(namespace))?;
    Ok(if locked { namespace } else { 0 })
}

pub(crate) fn refuse_file_system(file: &File, path: &Path) -> Result<(), Error> {
    match platform::unsuitable_file_system(file) {
        Ok(None) => Ok(()),
        Ok(Some(name)) => Err(Error::NotAStore {
            path: path.into(),
            reason: format!(
                "it is on {name}, which does not share memory between processes; move it to tmpfs \
                 or a local disk"
            ),
        }),
        Err(source) => Err(Error::Io {
            doing: "reading the file system type of",
            path: path.into(),
            source,
        }),
    }
}

fn shard_count(wanted: Option<usize>, capacity: u64) -> usize {
    match wanted {
        Some(count) => count.clamp(1, SHARDS_MAX).next_power_of_two(),
        None => {
            let cores = std::thread::available_parallelism().map_or(1, |cores| cores.get());
            let fitting = (capacity / CAPACITY_PER_SHARD).max(1);
            let fitting = 1 << fitting.ilog2().min(6);
            (cores * 4)
                .next_power_of_two()
                .clamp(1, SHARDS_MAX)
                .min(fitting)
        }
    }
}

/// Backs the parts of the file that every store needs with memory.
pub(crate) fn populate(file: &File, mapping: &Mapping) -> io::Result<()> {
    let layout = *mapping.layout();
    let mut ranges = vec![
        (0, 2 * PAGE),
        (slot::TABLE, SPARE_SLOTS * slot::STRIDE),
        (layout.heap_log, HEAP_LOG_RESERVED),
        (layout.ring, PAGE),
    ];
    for index in 0..layout.shards {
        let base = layout.shard(index);
        ranges.push((base, shard::HINTS + (4 << shard::HINT_BITS_MIN)));
        // The WATCH command must be able to use its counters even if the file system is full by
        // then.
        ranges.push((base + shard::CHANGES, 4 * shard::CHANGE_COUNT));
        ranges.push((base + shard::LOG, shard::LOG_RESERVED_MIN));
    }
    for (start, length) in ranges {
        platform::allocate(file, start, length)?;
    }
    Ok(())
}

/// Opens a store whose changes are visible either to all processes or only to this handle.
fn open_as(path: &Path, write: bool, visibility: Visibility) -> Result<Segment, Error> {
    let path = absolute(path)?;
    let fail = |doing| {
        let path = path.clone();
        move |source| Error::Io {
            doing,
            path,
            source,
        }
    };
    let refuse = |reason: String| Error::NotAStore {
        path: path.clone(),
        reason,
    };
    let file = platform::open(&path, write).map_err(|error| match error.raw_os_error() {
        Some(libc::ELOOP) => refuse("expected a regular file, found a symlink".into()),
        _ => fail("opening")(error),
    })?;
    let status = platform::status(&file).map_err(fail("reading the status of"))?;
    if !status.regular {
        return Err(refuse("expected a regular file".into()));
    }
    if status.owner != platform::effective_user() {
        return Err(refuse(format!(
            "expected a file that belongs to user {}, found user {}",
            platform::effective_user(),
            status.owner
        )));
    }
    refuse_file_system(&file, &path)?;
    let mut page = vec![0; PAGE as usize];
    if status.length < PAGE {
        return Err(refuse(format!(
            "expected at least {PAGE} bytes, found {}",
            status.length
        )));
    }
    file.read_exact_at(&mut page, 0)
        .map_err(fail("reading the header of"))?;
    let (layout, hash_key) = header_page::parse(&page, status.length).map_err(refuse)?;
    let boot = this_boot(&file).map_err(fail("reading the boot id to open"))?;
    let map = match visibility {
        Visibility::Shared => {
            let at = header::UNSYNCED as usize;
            let changed = u64::from_le_bytes(page[at..at + 8].try_into().expect("8 bytes"));
            if changed != 0 && changed != boot {
                return Err(Error::Unclean { path });
            }
            Map::shared(&file, layout.file_length, write)
        }
        Visibility::Private => Map::private(&file, layout.file_length),
    };
    let map = map.map_err(fail("mapping"))?;
    let mine = platform::pid_namespace();
    let namespace = if write {
        share_namespace(&file, mine).map_err(fail("locking"))?
    } else {
        0
    };
    user_marks::mark(&file, mine).map_err(fail("locking"))?;
    let process = Process::new(&path, status.id, mine, namespace)?;
    let mapping = Mapping::new(map, layout, write);
    let mut segment = Segment::new(
        mapping,
        process,
        hash_key,
        boot,
        recovery::recover_slot,
        syncer::start,
    );
    segment.is_alone = visibility == Visibility::Private;
    Ok(segment)
}
