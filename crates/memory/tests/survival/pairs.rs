//! The stores of these tests. Each shard contains one block with two words, which are always equal
//! except in the middle of a change.

use std::path::{Path, PathBuf};
use std::time::Duration;

use undercroft_memory::{Error, Options, Segment, ShardSet};

/// The number of shards in each store.
pub(crate) const SHARDS: usize = 4;

/// A lock timeout that is long enough for one or two liveness checks, but short enough for a test.
pub(crate) const IMPATIENT: Duration = Duration::from_millis(300);

/// A store in a separate temporary directory.
pub(crate) struct Store {
    pub(crate) path: PathBuf,
    pub(crate) segment: Segment,
    _directory: tempfile::TempDir,
}

impl Store {
    pub(crate) fn new() -> Store {
        let directory = tempfile::tempdir_in("/dev/shm").expect("a directory in /dev/shm");
        let path = directory.path().join("store");
        let segment = create(&path, 16 << 20);
        Store {
            path,
            segment,
            _directory: directory,
        }
    }

    /// Opens another handle to the store, as another process would.
    pub(crate) fn open(&self, write: bool) -> Segment {
        Segment::open(&self.path, write).expect("the same store")
    }

    /// Checks the structure of the store, and that both words of each pair are equal. Returns the
    /// pairs.
    pub(crate) fn check(&self) -> [u64; SHARDS] {
        check(&self.segment)
    }
}

/// Creates a store whose shards each contain a pair of zeros.
pub(crate) fn create(path: &Path, capacity: u64) -> Segment {
    let options = Options {
        capacity: Some(capacity),
        shards: Some(SHARDS),
        ring: None,
    };
    let segment = Segment::create(path, &options).expect("a new store");
    for shard in 0..SHARDS {
        segment
            .write(ShardSet::one(shard), |transaction| {
                let at = transaction.allocate(shard, 16)?;
                transaction.fill(at, &[0; 16])?;
                transaction.set_root(shard, 0, at)
            })
            .expect("room for a pair");
    }
    segment
}

/// Sets the pairs of all given shards to a mark. Calls `between` when half of the change is made.
pub(crate) fn set(
    segment: &Segment,
    shards: ShardSet,
    mark: u64,
    mut between: impl FnMut(),
) -> Result<(), Error> {
    segment.write(shards, |transaction| {
        for shard in shards.iter() {
            let at = transaction.view().root(shard, 0);
            transaction.store(shard, at, mark)?;
        }
        between();
        for shard in shards.iter() {
            let at = transaction.view().root(shard, 0);
            transaction.store(shard, at + 8, mark)?;
        }
        Ok(())
    })
}

/// Increments the pairs of all given shards by 1.
pub(crate) fn increment(segment: &Segment, shards: ShardSet) -> Result<(), Error> {
    segment.write(shards, |transaction| {
        for shard in shards.iter() {
            let at = transaction.view().root(shard, 0);
            let [first, second] = transaction.view().words(at)?;
            assert_eq!(first, second, "a torn pair");
            transaction.store(shard, at, first + 1)?;
            transaction.store(shard, at + 8, first + 1)?;
        }
        Ok(())
    })
}

/// Reads the pair of a shard and checks that its words are equal.
pub(crate) fn read(segment: &Segment, shard: usize) -> Result<u64, Error> {
    let pair = segment.read(ShardSet::one(shard), |view| {
        Ok::<_, Error>(view.words::<2>(view.root(shard, 0))?)
    });
    pair.map(|[first, second]| {
        assert_eq!(first, second, "a torn pair");
        first
    })
}

/// Reads the pairs of all shards in one consistent read.
pub(crate) fn read_all(segment: &Segment) -> Result<[u64; SHARDS], Error> {
    segment.read(ShardSet::first(SHARDS), |view| {
        let mut pairs = [0; SHARDS];
        for (shard, pair) in pairs.iter_mut().enumerate() {
            let [first, second] = view.words::<2>(view.root(shard, 0))?;
            assert!(first == second || !view.unchanged(), "a torn pair");
            *pair = first;
        }
        Ok::<_, Error>(pairs)
    })
}

/// Checks the structure of the store, and that both words of each pair are equal. Returns the
/// pairs.
pub(crate) fn check(segment: &Segment) -> [u64; SHARDS] {
    let mut pairs = [0; SHARDS];
    let report = segment
        .check(|shard, view, reach, _| {
            let at = view.root(shard, 0);
            reach(at);
            let [first, second] = view.words(at).expect("a pair");
            assert_eq!(first, second, "a torn pair in shard {shard}");
            pairs[shard] = first;
        })
        .expect("a check");
    assert_eq!(report.problems, Vec::<String>::new());
    pairs
}
