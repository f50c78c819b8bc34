//! Bringing keys into the processor's caches ahead of their use.

use smallvec::SmallVec;
use undercroft_memory::{Fault, ShardSet, View};

use crate::dictionary::{first_candidate, home_word};
use crate::error::Error;
use crate::roots::Root;
use crate::store::{Key, Store};

/// Keys warmed together: enough to keep the processor's loads in flight.
const TOGETHER: usize = 16;
/// Bytes of an entry from which on it lies in a second cache line, wherever it starts.
const NEXT_LINE: u64 = 64;

impl Store {
    /// Looks at where keys lie, so that commands on them soon find it in the processor's caches. One command waits
    /// for memory several times, one after the other: for its bucket, its entry, its hint. Here the loads of many
    /// keys run at the same time. Changes nothing and answers nothing; gives up where a shard is locked for longer
    /// than the store's patience. O(keys).
    pub fn warm(&self, database: usize, keys: &[&[u8]]) {
        for keys in keys.chunks(TOGETHER) {
            let keys: SmallVec<[Key<'_>; TOGETHER]> =
                keys.iter().map(|bytes| self.key(bytes)).collect();
            let mut seen = 0;
            let buckets = keys.iter().try_for_each(|key| {
                seen ^= u64::from(self.segment.hint(key.shard, key.hash));
                seen ^= self.look(key, |view| home_word(view, root(database, key), key))?;
                Ok::<_, Error>(())
            });
            // Only now, when the buckets are on their way, what they refer to.
            let entries = keys.iter().try_for_each(|key| {
                seen ^= self.look(key, |view| {
                    let at = first_candidate(view, root(database, key), key)?;
                    Ok(match at {
                        0 => 0,
                        at => view.word(at)? ^ view.word(at + NEXT_LINE).unwrap_or(0),
                    })
                })?;
                Ok::<_, Error>(())
            });
            // The loads are the purpose: they must not be left out for want of a use.
            std::hint::black_box(seen);
            // Whatever is wrong with the store is for the commands to tell.
            if buckets.and(entries).is_err() {
                return;
            }
        }
    }

    #[inline(always)]
    fn look(
        &self,
        key: &Key<'_>,
        load: impl Fn(&View<'_>) -> Result<u64, Fault>,
    ) -> Result<u64, Error> {
        self.read(ShardSet::one(key.shard), |reader| Ok(load(reader.view())?))
    }
}

#[inline(always)]
fn root(database: usize, key: &Key<'_>) -> Root {
    Root {
        shard: key.shard,
        database,
    }
}
