//! A set of shards.

/// A set of shards as a bit set, iterated in ascending order, which is the lock order (W7).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ShardSet(u64);

impl ShardSet {
    /// The empty set.
    pub const EMPTY: ShardSet = ShardSet(0);

    /// Returns the set that contains one shard.
    #[inline(always)]
    pub fn one(shard: usize) -> ShardSet {
        ShardSet(1 << shard)
    }

    /// Returns the set of the first `count` shards.
    pub fn first(count: usize) -> ShardSet {
        ShardSet(u64::MAX >> (64 - count))
    }

    /// Creates a set from bits, ignoring bits at position `count` and above.
    pub(crate) fn from_bits(bits: u64, count: usize) -> ShardSet {
        ShardSet(bits & Self::first(count).0)
    }

    /// Adds a shard.
    #[inline(always)]
    pub fn insert(&mut self, shard: usize) {
        self.0 |= 1 << shard;
    }

    /// Returns the union of two sets.
    pub fn union(self, other: ShardSet) -> ShardSet {
        ShardSet(self.0 | other.0)
    }

    /// Returns true if the shard is in the set.
    #[inline(always)]
    pub fn contains(self, shard: usize) -> bool {
        self.0 >> shard & 1 == 1
    }

    /// Returns true if this set contains every shard of `other`.
    pub fn includes(self, other: ShardSet) -> bool {
        other.0 & !self.0 == 0
    }

    /// Returns true if the set is empty.
    pub fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Returns the only shard of the set, or `None` if the set does not contain exactly one shard.
    #[inline(always)]
    pub fn single(self) -> Option<usize> {
        self.0
            .is_power_of_two()
            .then(|| self.0.trailing_zeros() as usize)
    }

    /// Returns the number of shards in the set.
    pub fn len(self) -> usize {
        self.0.count_ones() as usize
    }

    /// Returns the set as bits.
    #[inline(always)]
    pub(crate) fn bits(self) -> u64 {
        self.0
    }

    /// Iterates over the shards in ascending order.
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
