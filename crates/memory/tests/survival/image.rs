//! A store's file as data, to be damaged and then used. Whatever the bytes are, every operation
//! must return a result or an error.
//!
//! The fuzz target `store` uses the same code.

use std::fs;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::time::Duration;

use undercroft_memory::layout::{EXTENT, Layout, PAGE, header};
use undercroft_memory::{Error, Offset, Options, Pool, Segment, ShardSet, Transaction, View};

const SHARDS: usize = 2;
const RING: u64 = 64 << 10;
/// The number of roots in each shard that refer to a block.
pub(crate) const ROOTS: usize = 8;
const EXTENTS: u64 = 24;
/// The root that refers to an arena in each shard, and the first root that refers to one of the
/// arena's blocks.
const ARENA: usize = 20;
const IN_ARENA: usize = 21;
/// The number of blocks in a sample's arena.
const ARENA_BLOCKS: usize = 6;
/// Sizes of blocks in bytes: in small and large classes, in slabs of one and several pages, and
/// runs that are shorter and longer than an extent.
const SIZES: [u64; ROOTS] = [16, 72, 600, 3000, 9000, 16_384, 30_000, 150_000];

/// The pages of a store's file that are not all zeros.
#[derive(Clone)]
pub(crate) struct Image {
    length: u64,
    /// Offsets and contents of the pages, in ascending order.
    pub(crate) pages: Vec<(u64, Vec<u8>)>,
    /// The number of pages before the heap.
    control_pages: usize,
}

impl Image {
    /// Reads a store's file, which may be in use by other processes.
    fn of(path: &Path) -> Image {
        let file = fs::File::open(path).expect("a store");
        let length = file.metadata().expect("a store").len();
        let mut pages = Vec::new();
        let mut page = vec![0; PAGE as usize];
        for at in (0..length).step_by(PAGE as usize) {
            file.read_exact_at(&mut page, at).expect("a page");
            if page.iter().any(|&byte| byte != 0) {
                pages.push((at, page.clone()));
            }
        }
        let heap = Layout::new(SHARDS, EXTENTS * EXTENT, RING).heap;
        let control_pages = pages.partition_point(|&(at, _)| at < heap);
        Image {
            length,
            pages,
            control_pages,
        }
    }

    /// Writes the file, leaving holes for zero pages.
    pub(crate) fn write_to(&self, path: &Path) {
        let file = fs::File::create(path).expect("a file");
        file.set_len(self.length).expect("a length");
        for (at, page) in &self.pages {
            file.write_all_at(page, *at).expect("a page");
        }
    }

    /// Sets the length of the file, to simulate truncation.
    pub(crate) fn cut(&mut self, length: u64) {
        self.length = length;
        self.pages.retain(|&(at, _)| at + PAGE <= length);
    }

    /// Returns the number of pages that can be damaged. Pages before the heap come first.
    pub(crate) fn pages(&self) -> usize {
        self.pages.len()
    }

    /// Returns the number of pages before the heap.
    pub(crate) fn control_pages(&self) -> usize {
        self.control_pages
    }

    /// Returns the value of a word in a page.
    pub(crate) fn word(&self, page: usize, word: usize) -> u64 {
        let at = word * 8;
        let bytes = &self.pages[page].1[at..at + 8];
        u64::from_le_bytes(bytes.try_into().expect("eight bytes"))
    }

    /// Sets a word in a page.
    pub(crate) fn set_word(&mut self, page: usize, word: usize, value: u64) {
        let at = word * 8;
        self.pages[page].1[at..at + 8].copy_from_slice(&value.to_le_bytes());
    }

    /// Updates the header's checksum, so that damage in other places is reached.
    pub(crate) fn seal(&mut self) {
        let page = &mut self.pages[0].1;
        let at = header::CHECKSUM as usize;
        let checksum = u64::from(crc32fast::hash(&page[..at]));
        page[at..at + 8].copy_from_slice(&checksum.to_le_bytes());
    }
}

/// Creates consistent stores: one that is idle, and several whose owner died during a transaction,
/// with full logs, granted runs, and runs that are being returned to the heap.
pub(crate) fn samples(directory: &Path) -> Vec<Image> {
    let path = directory.join("sample");
    let options = Options {
        capacity: Some(EXTENTS * EXTENT),
        shards: Some(SHARDS),
        ring: Some(RING),
    };
    let segment = Segment::create(&path, &options).expect("a new store");
    for round in 0..3 {
        for shard in 0..SHARDS {
            for root in 0..ROOTS {
                put(&segment, shard, root, SIZES[(root + round) % ROOTS]).expect("room");
            }
        }
    }
    for shard in 0..SHARDS {
        // One arena is being returned to the heap, and the other remains allocated.
        fill_arena(&segment, shard, &SIZES).expect("room");
        bury_arena(&segment, shard).expect("a free");
        fill_arena(&segment, shard, &SIZES[..ARENA_BLOCKS]).expect("room");
    }
    let mut images = vec![Image::of(&path)];
    for size in [16, 600, 40_000] {
        let dying: Result<(), Error> = segment.write(ShardSet::first(SHARDS), |transaction| {
            for shard in 0..SHARDS {
                for root in 0..4 {
                    let old = transaction.view().root(shard, root);
                    transaction.free(shard, old);
                    let at = transaction.allocate(shard, size + 8 * root as u64)?;
                    transaction.fill_word(at, size)?;
                    transaction.set_root(shard, root, at)?;
                }
                let at = transaction.view().root(shard, 5);
                transaction.write(shard, at + 8, &[3; 500])?;
            }
            change_arena(transaction, 0, 1, size)?;
            images.push(Image::of(&path));
            Err(Error::Interrupted)
        });
        assert!(matches!(dying, Err(Error::Interrupted)));
    }
    drop(segment);
    fs::remove_file(&path).expect("the sample");
    images
}

fn put(segment: &Segment, shard: usize, root: usize, size: u64) -> Result<(), Error> {
    segment.write(ShardSet::one(shard), |transaction| {
        let old = transaction.view().root(shard, root);
        if old != 0 {
            transaction.free(shard, old);
        }
        let at = transaction.allocate(shard, size)?;
        transaction.fill(at, &vec![7; size as usize])?;
        transaction.fill_word(at, size)?;
        transaction.set_root(shard, root, at)
    })
}

fn take(segment: &Segment, shard: usize, root: usize) -> Result<(), Error> {
    segment.write(ShardSet::one(shard), |transaction| {
        let old = transaction.view().root(shard, root);
        transaction.free(shard, old);
        transaction.set_root(shard, root, 0)
    })
}

fn fill_arena(segment: &Segment, shard: usize, sizes: &[u64]) -> Result<(), Error> {
    segment.write(ShardSet::one(shard), |transaction| {
        let pool = transaction.create_arena(shard)?;
        transaction.set_root(shard, ARENA, pool.arena())?;
        for (root, &size) in (IN_ARENA..).zip(sizes) {
            let at = transaction.allocate(pool, size)?;
            transaction.set_root(shard, root, at)?;
        }
        Ok(())
    })
}

fn bury_arena(segment: &Segment, shard: usize) -> Result<(), Error> {
    segment.write(ShardSet::one(shard), |transaction| {
        let arena = transaction.view().root(shard, ARENA);
        transaction.bury_arena(Pool::new(shard, arena));
        Ok(())
    })
}

/// Changes an arena, transfers it, and changes it again.
fn change_arena(
    transaction: &mut Transaction<'_>,
    from: usize,
    to: usize,
    size: u64,
) -> Result<(), Error> {
    let pool = Pool::new(from, transaction.view().root(from, ARENA));
    let block = transaction.view().root(from, IN_ARENA);
    transaction.allocate(pool, size)?;
    transaction.store(from, block, 1)?;
    let moved = transaction.transfer_arena(pool, to)?;
    transaction.store(to, block, 2)?;
    transaction.allocate(moved, size * 3)?;
    transaction.free(moved, block);
    transaction.set_root(from, ARENA, 0)
}

/// Reports every block of a sample's shard as reachable.
pub(crate) fn reach_all(shard: usize, view: &View<'_>, reach: &mut dyn FnMut(Offset)) {
    let arena = ARENA..=ARENA + ARENA_BLOCKS;
    (0..ROOTS)
        .chain(arena)
        .for_each(|root| reach(view.root(shard, root)));
}

/// Reads the block to which a root refers. The first word of the block is its length.
pub(crate) fn get(view: &View<'_>, shard: usize, root: usize) -> Result<(Offset, Vec<u8>), Error> {
    let at = view.root(shard, root);
    let length = view.word(at)?;
    view.recheck()?;
    let mut out = Vec::new();
    view.append_to(at, length, &mut out)?;
    let mut start = [0; 11];
    view.copy_to(at, &mut start)?;
    view.equals(at, &out)?;
    view.words::<2>(at)?;
    Ok((at, out))
}

/// Opens a file and performs every operation on it. Errors are expected, and the results are
/// ignored.
pub(crate) fn use_store(path: &Path) {
    let Ok(segment) = Segment::open(path, true) else {
        return;
    };
    // The timeout is long enough to detect a dead owner.
    segment.set_patience(Duration::from_millis(15));
    if let Ok(read_only) = Segment::open(path, false) {
        read_only.set_patience(Duration::ZERO);
        let _ = read_only.read(ShardSet::one(0), |view| get(view, 0, 0));
        let _ = read_only.statistics();
        let _ = read_only.held_locks();
    }
    let shards = ShardSet::first(segment.shards());
    let last = segment.shards() - 1;
    let _ = segment.statistics();
    let _ = segment.members();
    for shard in [0, last] {
        for root in 0..ROOTS {
            let _ = segment.read(ShardSet::one(shard), |view| get(view, shard, root));
        }
        let _ = segment.grow_hints(shard, 5000);
        segment.set_hint(shard, 4711, segment.hint(shard, 4711) ^ 1);
    }
    let _ = check(&segment);
    for shard in [0, last] {
        for (root, &size) in SIZES.iter().enumerate() {
            let _ = put(&segment, shard, root, size);
            let _ = take(&segment, shard, (root + 3) % ROOTS);
            let _ = put(&segment, shard, (root + 5) % ROOTS, size);
        }
        let _: Result<(), Error> = segment.write(shards, |transaction| {
            let at = transaction.view().root(0, 6);
            let _ = transaction.block_size(0, at);
            let _ = transaction.transfer(at, 0, last);
            let _ = transaction.preserve(0, at, 64);
            let _ = transaction.fill_from(at, at.wrapping_add(64), 64);
            let _ = transaction.fill_zero(at, 64);
            transaction.allocate(last, 50_000)?;
            if shard == 0 {
                return Err(Error::Interrupted);
            }
            Ok(())
        });
    }
    let _ = segment.read(shards, |view| get(view, last, 7));
    let _ = segment.read(shards, |view| {
        Ok::<_, Error>(view.arena_bytes(view.root(0, ARENA))?)
    });
    for (from, to, size) in [(0, last, 16), (last, 0, 70_000)] {
        let _ = segment.write(shards, |transaction| {
            change_arena(transaction, from, to, size)
        });
        let _ = fill_arena(&segment, to, &SIZES);
        let _ = bury_arena(&segment, to);
        let _ = segment.give_back(to);
    }
    let _ = segment.recover();
    let _ = segment.trim(0);
    if let Ok(mut staged) = segment.stage(last, 20_000) {
        staged.fill(8, &[5; 3000]);
    }
    let _ = put(&segment, 0, 0, SIZES[ROOTS - 1]);
    let _ = check(&segment);
    let _ = segment.held_locks();
}

fn check(segment: &Segment) -> Result<(), Error> {
    let report = segment.check(|shard, view, reach, _| {
        for root in 0..ROOTS {
            let _ = get(view, shard, root);
        }
        reach_all(shard, view, reach);
    });
    report.map(drop)
}
