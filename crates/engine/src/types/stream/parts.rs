//! Large deliveries and claims in parts. XREADGROUP and XAUTOCLAIM of many entries are made in several changes, each of
//! which is committed: between two of them other writers get the shard's lock. The result is that of as many commands with
//! a smaller COUNT. Within a transaction there is one change, as all of it is one.

use undercroft_memory::ShardSet;

use super::claim::{Claim, Claimed, LOOKED_AT};
use super::found::StreamEntries;
use super::id::StreamId;
use crate::error::Error;
use crate::handle::store::Store;
use crate::structures::key::Key;
use crate::transaction::access::Access;

/// Entries that one change delivers or claims at most.
const ENTRIES_AT_ONCE: u64 = 1024;

/// Which entries a consumer is given.
#[derive(Clone, Copy, Debug)]
pub struct Delivery<'d> {
    /// The group.
    pub group: &'d [u8],
    /// The consumer.
    pub consumer: &'d [u8],
    /// How many at most.
    pub count: u64,
    /// Whether they count as acknowledged at once.
    pub acknowledged: bool,
}

impl Delivery<'_> {
    /// How many entries the first change delivers.
    pub fn first_part(&self, access: &Access<'_>) -> u64 {
        match access.is_running() {
            true => self.count,
            false => self.count.min(ENTRIES_AT_ONCE),
        }
    }
}

impl Access<'_> {
    /// Delivers the rest, after a first change that filled `out`: new entries, or with `again` more of those that are
    /// pending at the consumer. An error ends it, as `out` was delivered and has to reach the consumer.
    /// O(entries * log n).
    pub fn stream_deliver_rest(
        &self,
        database: usize,
        key: &Key<'_>,
        delivery: &Delivery<'_>,
        again: bool,
        out: &mut StreamEntries,
    ) {
        let (names, mut part) = ((delivery.group, delivery.consumer), StreamEntries::new());
        let mut wanted = delivery.first_part(self);
        let mut more = out.len() as u64 == wanted;
        while more && (out.len() as u64) < delivery.count {
            let Some(&last) = out.ids().last() else {
                return;
            };
            wanted = (delivery.count - out.len() as u64).min(ENTRIES_AT_ONCE);
            let how = (wanted, delivery.acknowledged);
            let done =
                self.write_into(
                    ShardSet::one(key.shard),
                    &mut part,
                    |writer, part| match again {
                        true => {
                            writer.stream_deliver_again(database, key, names, (last, wanted), part)
                        }
                        false => writer.stream_deliver(database, key, names, how, part),
                    },
                );
            more = matches!(done, Ok(true)) && part.len() as u64 == wanted;
            out.append(&part);
        }
    }

    /// Gives the first pending entries from an id on to a consumer, `count` at most, gone ones included. None where there
    /// is no such group. An error after the first change ends it with what was claimed. O(log n + count * log n).
    ///
    /// # Errors
    /// Those of the first change.
    pub fn stream_claim_from(
        &self,
        database: usize,
        key: &Key<'_>,
        claim: &Claim<'_>,
        (from, count): (StreamId, u64),
    ) -> Result<Option<Claimed>, Error> {
        let at_once = match self.is_running() {
            true => count,
            false => count.min(ENTRIES_AT_ONCE),
        };
        let mut looks = count.saturating_mul(LOOKED_AT);
        let part = |from, left: u64, looks: u64| {
            let most = (
                left.min(at_once),
                looks.min(at_once.saturating_mul(LOOKED_AT)),
            );
            self.write(ShardSet::one(key.shard), |writer| {
                writer.stream_claim_from(database, key, claim, (from, most))
            })
        };
        let Some(mut all) = part(from, count, looks)? else {
            return Ok(None);
        };
        looks -= all.looked_at;
        while let Some(next) = all.next {
            let left = count - all.entries.len() as u64 - all.gone.len() as u64;
            if left == 0 || looks == 0 {
                break;
            }
            let Ok(Some(more)) = part(next, left, looks) else {
                break;
            };
            all.entries.append(&more.entries);
            all.gone.extend_from_slice(&more.gone);
            all.next = more.next;
            looks -= more.looked_at;
        }
        Ok(Some(all))
    }
}

impl Store {
    /// Fills `out` with the next entries of a group, which a consumer is given. Returns whether there is such a group.
    /// O(entries).
    ///
    /// # Errors
    /// Those of [`write`](Store::write).
    pub fn stream_deliver(
        &self,
        database: usize,
        key: &[u8],
        delivery: &Delivery<'_>,
        out: &mut StreamEntries,
    ) -> Result<bool, Error> {
        let (key, names) = (self.key(key), (delivery.group, delivery.consumer));
        let how = (delivery.count.min(ENTRIES_AT_ONCE), delivery.acknowledged);
        let found = self.write_into(ShardSet::one(key.shard), out, |writer, out| {
            writer.stream_deliver(database, &key, names, how, out)
        })?;
        if out.len() as u64 == ENTRIES_AT_ONCE {
            let access = self.access();
            access.stream_deliver_rest(database, &key, delivery, false, out);
        }
        self.touch_written(&key);
        Ok(found)
    }
}
