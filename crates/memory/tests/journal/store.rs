//! A store with a journal, and the operations that the tests apply to it.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

use fastrand::Rng;
use undercroft_memory::{
    Disk, DiskFile, Durability, Error, JournalOptions, LogSavepoint, Offset, Options, Pool,
    Recovered, Segment, Setting, ShardSet,
};

/// The number of roots in each shard that contain the offset of a block. A block's first word is its
/// length, and all its other words are equal.
pub(crate) const ROOTS: usize = 24;
/// The root that contains the offset of an arena, whose note is the offset of a block in it.
const ARENA: usize = 100;
pub(crate) const SHARDS: usize = 4;
/// A small ring and small files, so that the tests use many of them.
pub(crate) const OPTIONS: JournalOptions = JournalOptions {
    ring: Some(1 << 20),
    segment: Some(256 << 10),
};

/// The lengths and the marks of the blocks in each root.
pub(crate) type Content = BTreeMap<(usize, usize), (u64, u64)>;

pub(crate) fn create(path: &Path) -> Segment {
    let options = Options {
        capacity: Some(64 << 20),
        shards: Some(SHARDS),
        ring: None,
    };
    Segment::create(path, &options).expect("a new store")
}

/// Creates a store with a journal in a directory.
pub(crate) fn create_journaled(directory: &Path) -> (Segment, PathBuf) {
    let segment = create(&directory.join("store"));
    let folder = directory.join("store.journal");
    segment
        .begin_journal(&folder, Durability::EverySecond, &OPTIONS)
        .expect("a journal");
    (segment, folder)
}

/// Recovers a store from a folder.
pub(crate) fn recover(
    directory: &Path,
    folder: &Path,
    disk: &dyn Disk,
) -> Result<Recovered, Error> {
    let path = directory.join("recovered");
    let _ = std::fs::remove_file(&path);
    // The tests go on with both stores, which the lock would not allow.
    let _ = std::fs::remove_file(folder.join("undercroft.lock"));
    Segment::recover_from(&path, folder, Some(Durability::EverySecond), disk)
        .map(|recovered| recovered.expect("a checkpoint"))
}

/// Puts a block into a root.
pub(crate) fn put(
    segment: &Segment,
    shard: usize,
    root: usize,
    length: u64,
    mark: u64,
) -> Result<(), Error> {
    segment.write(ShardSet::one(shard), |transaction| {
        let old = transaction.view().root(shard, root);
        if old != 0 {
            transaction.free(shard, old);
        }
        let at = transaction.allocate(shard, length)?;
        transaction.fill(at, &mark.to_le_bytes().repeat((length / 8) as usize))?;
        transaction.fill_word(at, length)?;
        transaction.set_root(shard, root, at)
    })
}

fn length(random: &mut Rng) -> u64 {
    let most = match random.u32(0..20) {
        0 => 200_000,
        1..4 => 9_000,
        _ => 300,
    };
    random.u64(2..most / 8) * 8
}

/// Applies a random operation. Returns its name.
pub(crate) fn change(segment: &Segment, random: &mut Rng) -> Result<&'static str, Error> {
    let (shard, root) = (random.usize(..SHARDS), random.usize(..ROOTS));
    let mark = random.u64(1..);
    Ok(match random.u32(..25) {
        0..10 => {
            put(segment, shard, root, length(random), mark)?;
            "put"
        }
        10..13 => {
            segment.write(ShardSet::one(shard), |transaction| {
                let old = transaction.view().root(shard, root);
                if old != 0 {
                    transaction.free(shard, old);
                }
                transaction.set_root(shard, root, 0)
            })?;
            "clear"
        }
        13..15 => {
            // Changes a block in place.
            segment.write(ShardSet::one(shard), |transaction| {
                let at = transaction.view().root(shard, root);
                if at == 0 {
                    return Ok(());
                }
                let length = transaction.view().word(at)?;
                transaction.write(
                    shard,
                    at + 8,
                    &mark.to_le_bytes().repeat(length as usize / 8 - 1),
                )
            })?;
            "write"
        }
        15..17 => {
            two_shards(segment, random)?;
            "two shards"
        }
        17 => {
            undone_part(segment, shard, root, length(random), mark)?;
            "savepoint"
        }
        18 => {
            // A transaction that fails.
            let length = length(random);
            let failed = segment.write(ShardSet::one(shard), |transaction| {
                let at = transaction.allocate(shard, length)?;
                transaction.fill(at, &[9; 64][..(length as usize).min(64)])?;
                transaction.set_root(shard, root, at)?;
                Err::<(), _>(Error::ReadOnly)
            });
            assert!(matches!(failed, Err(Error::ReadOnly)));
            "failure"
        }
        19 => {
            staged(segment, shard, root, mark)?;
            "staged"
        }
        20 => {
            arena(segment, shard, mark)?;
            "arena"
        }
        21 => {
            segment.give_back(shard)?;
            "give back"
        }
        22 => {
            segment.gather_run(1 << 20)?;
            segment.trim(0)?;
            "trim"
        }
        23 => {
            segment.set_max_memory(mark)?;
            segment.set_setting(Setting::EvictionPolicy, mark % 8)?;
            "settings"
        }
        _ => {
            flush(segment, shard)?;
            "flush"
        }
    })
}

/// Swaps a root of two shards, with copies of their blocks.
fn two_shards(segment: &Segment, random: &mut Rng) -> Result<(), Error> {
    let (mark, long) = (random.u64(1..), length(random));
    let root = random.usize(..ROOTS);
    let pair = [0, 1 + random.usize(..SHARDS - 1)];
    let mut shards = ShardSet::one(pair[0]);
    shards.insert(pair[1]);
    segment.write(shards, |transaction| {
        for shard in pair {
            let old = transaction.view().root(shard, root);
            if old != 0 {
                transaction.free(shard, old);
            }
            let at = transaction.allocate(shard, long)?;
            transaction.fill(at, &mark.to_le_bytes().repeat((long / 8) as usize))?;
            transaction.fill_word(at, long)?;
            transaction.set_root(shard, root, at)?;
        }
        Ok(())
    })
}

/// Puts a block, then undoes another change in the same transaction.
fn undone_part(
    segment: &Segment,
    shard: usize,
    root: usize,
    length: u64,
    mark: u64,
) -> Result<(), Error> {
    segment.write(ShardSet::one(shard), |transaction| {
        let old = transaction.view().root(shard, root);
        if old != 0 {
            transaction.free(shard, old);
        }
        let at = transaction.allocate(shard, length)?;
        transaction.fill(at, &mark.to_le_bytes().repeat((length / 8) as usize))?;
        transaction.fill_word(at, length)?;
        transaction.set_root(shard, root, at)?;
        let savepoint: LogSavepoint = transaction.savepoint();
        let other = transaction.allocate(shard, 100_000)?;
        transaction.fill(other, &[5; 4096])?;
        transaction.set_root(shard, root, other)?;
        transaction.set_root(shard, ROOTS - 1 - root, other)?;
        transaction.roll_back_to(&savepoint)
    })
}

/// Puts a block that is filled without the lock.
fn staged(segment: &Segment, shard: usize, root: usize, mark: u64) -> Result<(), Error> {
    const LENGTH: u64 = 40_000;
    let mut staged = segment.stage(shard, LENGTH)?;
    staged.fill(0, &mark.to_le_bytes().repeat(LENGTH as usize / 8));
    staged.fill(0, &LENGTH.to_le_bytes());
    segment.write(ShardSet::one(shard), |transaction| {
        let old = transaction.view().root(shard, root);
        if old != 0 {
            transaction.free(shard, old);
        }
        let at = transaction.adopt(&staged)?;
        transaction.set_root(shard, root, at)
    })?;
    staged.adopted();
    Ok(())
}

/// Replaces the shard's arena, or moves it to the next shard.
fn arena(segment: &Segment, shard: usize, mark: u64) -> Result<(), Error> {
    segment.write(ShardSet::one(shard), |transaction| {
        let old = transaction.view().root(shard, ARENA);
        if old != 0 {
            transaction.bury_arena(Pool::new(shard, old));
        }
        let pool = transaction.create_arena(shard)?;
        let at = transaction.allocate(pool, 20_000)?;
        transaction.fill(at, &mark.to_le_bytes().repeat(2_500))?;
        transaction.fill_word(at, 20_000)?;
        transaction.set_arena_note(pool, at)?;
        transaction.set_root(shard, ARENA, pool.arena())
    })
}

/// Empties a shard in one step, then frees a part of its memory.
fn flush(segment: &Segment, shard: usize) -> Result<(), Error> {
    segment.write(ShardSet::one(shard), |transaction| {
        if transaction.leave_behind(shard, 1)? {
            for root in (0..ROOTS).chain([ARENA]) {
                transaction.set_root(shard, root, 0)?;
            }
        }
        Ok::<_, Error>(())
    })?;
    segment.free_remains(shard, std::time::Duration::from_secs(1))?;
    Ok(())
}

/// Returns the content reachable from the roots, after checking every block and the store's
/// structure.
pub(crate) fn content(segment: &Segment) -> Content {
    let mut content = Content::new();
    let report = segment
        .check(|shard, view, reach, report| {
            let mut see = |root: usize, at: Offset| {
                reach(at);
                let length = view.word(at).expect("a block");
                let mut words = Vec::new();
                view.append_to(at, length, &mut words).expect("a block");
                if words.len() < 16 || words[8..16].repeat(words.len() / 8 - 1) != words[8..] {
                    report.problem(|| format!("a torn block in root {root} of shard {shard}"));
                }
                let mark = words.get(8..16).map_or(0, |mark| {
                    u64::from_le_bytes(mark.try_into().expect("eight bytes"))
                });
                content.insert((shard, root), (length, mark));
            };
            for root in 0..ROOTS {
                let at = view.root(shard, root);
                if at != 0 {
                    see(root, at);
                }
            }
            let arena = view.root(shard, ARENA);
            if arena != 0 {
                see(ARENA, view.arena_note(arena).expect("an arena"));
                reach(arena);
            }
        })
        .expect("a check");
    assert_eq!(report.problems, Vec::<String>::new());
    content
}

/// The file system of this machine, for a store whose journal no other thread syncs.
pub(crate) struct OwnDisk(pub(crate) Box<dyn Disk>);

impl Disk for OwnDisk {
    fn open(&self, path: &Path, create: bool) -> io::Result<Box<dyn DiskFile>> {
        self.0.open(path, create)
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.0.rename(from, to)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        self.0.remove(path)
    }

    fn list(&self, directory: &Path) -> io::Result<Vec<String>> {
        self.0.list(directory)
    }

    fn sync_directory(&self, directory: &Path) -> io::Result<()> {
        self.0.sync_directory(directory)
    }

    fn create_directory(&self, directory: &Path) -> io::Result<()> {
        self.0.create_directory(directory)
    }

    fn another_handle(&self) -> Box<dyn Disk> {
        Box::new(OwnDisk(self.0.another_handle()))
    }
}
