//! What becomes of keys, as WATCH, waiting clients and followers are told of it.

/// What became of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// It holds something that it did not hold before, or has another deadline.
    Changed,
    /// It was removed, by name or with the last of its elements.
    Removed,
    /// It was removed because it has expired.
    Expired,
    /// It was removed to make room.
    Evicted,
}

impl Effect {
    /// Of a change that may have left nothing of the value.
    #[inline(always)]
    pub(crate) fn of_taking(gone: bool) -> Effect {
        if gone {
            Effect::Removed
        } else {
            Effect::Changed
        }
    }
}

/// A change, as [`Store::follow`](crate::Store::follow) tells of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// What became of a key in a database.
    Key(usize, Box<[u8]>, Effect),
    /// All keys of a database in a shard were removed or exchanged.
    All {
        /// The database.
        database: usize,
        /// The shard.
        shard: usize,
    },
}

/// Is told of changes, in their order.
pub type Follower = Box<dyn FnMut(Change) + Send>;
