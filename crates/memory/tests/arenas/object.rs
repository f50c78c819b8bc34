//! Objects in arenas, with the operations and checks that the tests in this directory use.

use std::collections::BTreeMap;
use std::path::Path;

use undercroft_memory::{Error, Offset, Options, Pool, Report, Segment, ShardSet, Transaction};

/// The maximum number of objects in a shard.
pub(crate) const SLOTS: usize = 5;

/// The length and mark of each block of each object, keyed by shard and slot.
pub(crate) type Content = BTreeMap<(usize, usize), Vec<(u64, u64)>>;

pub(crate) fn both() -> ShardSet {
    ShardSet::first(2)
}

pub(crate) fn create(path: &Path) -> Segment {
    let options = Options {
        capacity: Some(8 << 20),
        shards: Some(2),
        ring: None,
    };
    Segment::create(path, &options).expect("a new store")
}

/// An object: an arena with a chain of blocks, whose location is recorded in a slot.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Object {
    pub(crate) pool: Pool,
    slot: usize,
}

impl Object {
    /// Creates an object in a free slot.
    pub(crate) fn new(
        transaction: &mut Transaction<'_>,
        shard: usize,
        slot: usize,
    ) -> Result<Object, Error> {
        let pool = transaction.create_arena(shard)?;
        transaction.set_root(shard, slot * 2, pool.arena())?;
        Ok(Object { pool, slot })
    }

    pub(crate) fn at(transaction: &Transaction<'_>, shard: usize, slot: usize) -> Option<Object> {
        let arena = transaction.view().root(shard, slot * 2);
        let pool = Pool::new(shard, arena);
        (arena != 0).then_some(Object { pool, slot })
    }

    fn shard(self) -> usize {
        self.pool.shard()
    }

    fn first(self, transaction: &Transaction<'_>) -> Offset {
        transaction.view().root(self.shard(), self.slot * 2 + 1)
    }

    /// Adds a block at the front.
    pub(crate) fn push(
        self,
        transaction: &mut Transaction<'_>,
        length: u64,
        mark: u64,
    ) -> Result<(), Error> {
        let next = self.first(transaction);
        let at = transaction.allocate(self.pool, length)?;
        assert!(transaction.block_size(self.pool, at)? >= length);
        transaction.fill(at, &mark.to_le_bytes().repeat((length / 8) as usize))?;
        transaction.fill_word(at, next)?;
        transaction.fill_word(at + 8, length)?;
        transaction.set_root(self.shard(), self.slot * 2 + 1, at)
    }

    /// Frees the block at the front. Returns false if the object has no block.
    pub(crate) fn pop(self, transaction: &mut Transaction<'_>) -> Result<bool, Error> {
        let first = self.first(transaction);
        if first == 0 {
            return Ok(false);
        }
        let next = transaction.view().word(first)?;
        transaction.set_root(self.shard(), self.slot * 2 + 1, next)?;
        transaction.free(self.pool, first);
        Ok(true)
    }

    /// Writes a new mark to the block at the front. Returns false if the object has no block.
    pub(crate) fn overwrite(
        self,
        transaction: &mut Transaction<'_>,
        mark: u64,
    ) -> Result<bool, Error> {
        let first = self.first(transaction);
        if first == 0 {
            return Ok(false);
        }
        let length = transaction.view().word(first + 8)?;
        // Write a word, then a range far from the block's start, and then the entire block.
        let end = first + length;
        transaction.store(self.shard(), first + 16, mark)?;
        for (start, end) in [(end - length / 16 * 8, end), (first + 16, end)] {
            let marks = mark.to_le_bytes().repeat(((end - start) / 8) as usize);
            transaction.write(self.shard(), start.max(first + 16), &marks)?;
        }
        Ok(true)
    }

    /// Transfers the object to a free slot of another shard.
    pub(crate) fn transfer(
        self,
        transaction: &mut Transaction<'_>,
        to: usize,
        slot: usize,
    ) -> Result<Object, Error> {
        let first = self.first(transaction);
        let pool = transaction.transfer_arena(self.pool, to)?;
        transaction.set_root(self.shard(), self.slot * 2, 0)?;
        transaction.set_root(self.shard(), self.slot * 2 + 1, 0)?;
        transaction.set_root(to, slot * 2, pool.arena())?;
        transaction.set_root(to, slot * 2 + 1, first)?;
        Ok(Object { pool, slot })
    }

    /// Frees the object and all its blocks.
    pub(crate) fn bury(self, transaction: &mut Transaction<'_>) -> Result<(), Error> {
        transaction.bury_arena(self.pool);
        transaction.set_root(self.shard(), self.slot * 2, 0)?;
        transaction.set_root(self.shard(), self.slot * 2 + 1, 0)
    }
}

/// Runs a structural check. Returns its report and the content of the objects that it found.
pub(crate) fn inspect(segment: &Segment) -> (Report, Content) {
    let mut content = Content::new();
    let report = segment
        .check(|shard, view, reach, report| {
            for slot in 0..SLOTS {
                let arena = view.root(shard, slot * 2);
                if arena == 0 {
                    continue;
                }
                reach(arena);
                let mut blocks = Vec::new();
                let mut bytes = 4096;
                let mut at = view.root(shard, slot * 2 + 1);
                while at != 0 && blocks.len() < 10_000 {
                    reach(at);
                    let Ok([next, length, mark]) = view.words::<3>(at) else {
                        report.problem(|| format!("no block at {at:#x}"));
                        break;
                    };
                    let mut words = Vec::new();
                    let read = view.append_to(at, length, &mut words);
                    if read.is_err()
                        || words[16..] != mark.to_le_bytes().repeat(words.len() / 8 - 2)
                    {
                        report.problem(|| format!("a torn block in slot {slot} of {shard}"));
                    }
                    blocks.push((length, mark));
                    bytes += length;
                    at = next;
                }
                if view.arena_bytes(arena).is_ok_and(|arena| arena < bytes) {
                    report.problem(|| format!("the arena at {arena:#x} is too small"));
                }
                content.insert((shard, slot), blocks);
            }
        })
        .expect("a check");
    (report, content)
}

/// Returns the content of the objects. The store must be consistent.
pub(crate) fn content(segment: &Segment) -> Content {
    let (report, content) = inspect(segment);
    assert_eq!(report.problems, Vec::<String>::new());
    content
}

/// Frees all objects and returns all memory to the heap. The store must then be empty.
pub(crate) fn empty(segment: &Segment) {
    segment
        .write(both(), |transaction| {
            for shard in 0..2 {
                for slot in 0..SLOTS {
                    if let Some(object) = Object::at(transaction, shard, slot) {
                        object.bury(transaction)?;
                    }
                }
            }
            Ok::<_, Error>(())
        })
        .expect("frees");
    assert_eq!(segment.statistics().used, 0);
    for shard in 0..2 {
        while segment.give_back(shard).expect("a return") {}
    }
    assert!(content(segment).is_empty());
    assert_eq!(segment.granted_bytes(), 0, "every page is free again");
}
