//! The effects of changes on keys, as reported to WATCH, waiting clients and followers.

/// The effect of a change on a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// The value or the expiry of the key changed.
    Changed,
    /// The key was removed, either explicitly or because its last element was removed.
    Removed,
    /// The key was removed because it had expired.
    Expired,
    /// The key was evicted to free memory.
    Evicted,
}

impl Effect {
    /// Returns the effect of removing elements from a key. `gone` indicates whether this also
    /// removed the key.
    #[inline(always)]
    pub(crate) fn of_taking(gone: bool) -> Effect {
        if gone {
            Effect::Removed
        } else {
            Effect::Changed
        }
    }
}

/// A change to one or more keys, as reported by [`Store::follow`](crate::Store::follow).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// A change to one key, given by its database and name.
    Key(usize, Box<[u8]>, Effect),
    /// All keys of a database in one shard were removed or swapped.
    All {
        /// The number of the database.
        database: usize,
        /// The number of the shard.
        shard: usize,
    },
}

/// A callback that receives the changes of a store handle, in order.
pub type Follower = Box<dyn FnMut(Change) + Send>;
