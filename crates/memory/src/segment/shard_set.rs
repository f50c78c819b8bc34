//! A set of shards.

/// A set of shards, as bits; iterated in ascending order, the lock order (W7).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ShardSet(u64);

impl ShardSet {
    /// No shard.
    pub const EMPTY: ShardSet = ShardSet(0);

    /// One shard.
    #[inline(always)]
    pub fn one(shard: usize) -> ShardSet {
        ShardSet(1 << shard)
    }

    /// The first `count` shards.
    pub fn first(count: usize) -> ShardSet {
        ShardSet(u64::MAX >> (64 - count))
    }

    /// From bits; bits of shards beyond `count` are dropped.
    pub(crate) fn from_bits(bits: u64, count: usize) -> ShardSet {
        ShardSet(bits & Self::first(count).0)
    }

    /// Adds a shard.
    #[inline(always)]
    pub fn insert(&mut self, shard: usize) {
        self.0 |= 1 << shard;
    }

    /// Adds all shards of another set.
    pub fn union(self, other: ShardSet) -> ShardSet {
        ShardSet(self.0 | other.0)
    }

    /// Whether the shard is in the set.
    #[inline(always)]
    pub fn contains(self, shard: usize) -> bool {
        self.0 >> shard & 1 == 1
    }

    /// Whether every shard of `other` is in this set.
    pub fn includes(self, other: ShardSet) -> bool {
        other.0 & !self.0 == 0
    }

    /// Whether there is none.
    pub fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// The shard, where it is just one.
    #[inline(always)]
    pub fn single(self) -> Option<usize> {
        self.0
            .is_power_of_two()
            .then(|| self.0.trailing_zeros() as usize)
    }

    /// Number of shards.
    pub fn len(self) -> usize {
        self.0.count_ones() as usize
    }

    /// As bits.
    #[inline(always)]
    pub(crate) fn bits(self) -> u64 {
        self.0
    }

    /// The shards, ascending.
    #[inline(always)]
    pub fn iter(self) -> impl Iterator<Item = usize> {
        let mut bits = self.0;
        std::iter::from_fn(move || {
            (bits != 0).then(|| {
                let shard = bits.trailing_zeros() as usize;
                bits &= bits - 1;
                shard
            })
        })
    }
}

impl FromIterator<usize> for ShardSet {
    fn from_iter<I: IntoIterator<Item = usize>>(shards: I) -> ShardSet {
        let mut set = ShardSet::EMPTY;
        for shard in shards {
            set.insert(shard);
        }
        set
    }
}
