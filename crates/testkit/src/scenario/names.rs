//! Chooses key names for each shard and bucket of a store whose hash key is known.

use std::sync::LazyLock;

use siphasher::sip::SipHasher13;

use crate::fixture::HASH_KEY;

fn hash(key: &[u8]) -> u64 {
    SipHasher13::new_with_keys(HASH_KEY[0], HASH_KEY[1]).hash(key)
}

/// Returns the shard of a key in a store with two shards.
fn shard(key: &[u8]) -> usize {
    (hash(key) >> 58) as usize & 1
}

/// Key names, grouped by their position in a store with two shards.
struct Names {
    /// The names of keys in each shard.
    shards: [Vec<Vec<u8>>; 2],
    /// The names of keys in shard 0 whose home is bucket 0 of 8.
    crowded: Vec<Vec<u8>>,
    /// The names of keys in shard 0 whose home is not bucket 0.
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

/// Chooses all key names in advance. Choosing them takes more instructions than a change, and would
/// otherwise be part of the first change.
pub fn choose_names() {
    LazyLock::force(&NAMES);
}

/// Returns the name of a key in shard `of`.
pub fn key(of: usize, index: usize) -> Vec<u8> {
    NAMES.shards[of][index].clone()
}

/// Returns the name of a key in shard 0 whose home is bucket 0 of a hash table of 8 buckets.
pub(super) fn crowded(index: usize) -> Vec<u8> {
    NAMES.crowded[index].clone()
}

/// Returns the name of a key in shard 0 whose home is not bucket 0 of a hash table of 8 buckets.
pub(super) fn uncrowded(index: usize) -> Vec<u8> {
    NAMES.uncrowded[index].clone()
}
