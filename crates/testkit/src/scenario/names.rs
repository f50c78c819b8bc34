//! Names for keys, by where they lie in a store whose hash key is known.

use std::sync::LazyLock;

use siphasher::sip::SipHasher13;

use crate::fixture::HASH_KEY;

fn hash(key: &[u8]) -> u64 {
    SipHasher13::new_with_keys(HASH_KEY[0], HASH_KEY[1]).hash(key)
}

/// The shard of a key in a store of two.
fn shard(key: &[u8]) -> usize {
    (hash(key) >> 58) as usize & 1
}

/// Names for keys, by where they lie in a store of two shards.
struct Names {
    /// Of each shard.
    shards: [Vec<Vec<u8>>; 2],
    /// Of shard 0, with bucket 0 of 8 as their home.
    crowded: Vec<Vec<u8>>,
    /// Of shard 0, with another.
    uncrowded: Vec<Vec<u8>>,
}

static NAMES: LazyLock<Names> = LazyLock::new(|| Names {
    shards: [0, 1].map(|of| names("key", 400, |key| shard(key) == of)),
    crowded: names("crowded", 20, |key| shard(key) == 0 && hash(key) & 7 == 0),
    uncrowded: names("uncrowded", 50, |key| shard(key) == 0 && hash(key) & 7 != 0),
});

fn names(prefix: &str, count: usize, wanted: impl Fn(&[u8]) -> bool) -> Vec<Vec<u8>> {
    (0_u32..)
        .map(|number| format!("{prefix}:{number}").into_bytes())
        .filter(|key| wanted(key))
        .take(count)
        .collect()
}

/// Chooses the names of all keys, which would otherwise be part of the first
/// change and takes more instructions than that.
pub fn choose_names() {
    LazyLock::force(&NAMES);
}

/// A key of one of the two shards.
pub fn key(of: usize, index: usize) -> Vec<u8> {
    NAMES.shards[of][index].clone()
}

/// A key of shard 0 whose home is bucket 0 in a table of 8.
pub(super) fn crowded(index: usize) -> Vec<u8> {
    NAMES.crowded[index].clone()
}

/// A key of shard 0 whose home is some other bucket.
pub(super) fn uncrowded(index: usize) -> Vec<u8> {
    NAMES.uncrowded[index].clone()
}
