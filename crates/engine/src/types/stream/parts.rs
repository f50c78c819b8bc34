//! Splits large deliveries and claims into several changes. If XREADGROUP or XAUTOCLAIM requests
//! many entries, each change is committed separately, so that other writers can acquire the shard's
//! lock in between. The result is the same as that of several commands with a smaller COUNT. Within
//! a transaction, which must be atomic, all entries are delivered or claimed in a single change.

use undercroft_memory::ShardSet;

use super::claim::{Claim, Claimed, LOOKED_AT};
use super::found::StreamEntries;
use super::id::StreamId;
use crate::error::Error;
use crate::handle::store::Store;
use crate::structures::key::Key;
use crate::transaction::access::Access;

/// The maximum number of entries that a single change delivers or claims.
const ENTRIES_AT_ONCE: u64 = 1024;

/// A request to deliver a group's entries to a consumer.
#[derive(Clone, Copy, Debug)]
pub struct Delivery<'d> {
    /// The name of the group.
    pub group: &'d [u8],
    /// The name of the consumer.
    pub consumer: &'d [u8],
    /// The maximum number of entries to deliver.
    pub count: u64,
    /// Whether delivered entries count as acknowledged immediately (NOACK).
    pub acknowledged: bool,
}

impl Delivery<'_> {
    /// Returns the maximum number of entries to deliver in the first change.
    pub fn first_part(&self, access: &Access<'_>) -> u64 {
        match access.is_running() {
            true => self.count,
            false => self.count.min(ENTRIES_AT_ONCE),
        }
    }
}

impl Access<'_> {
    /// Delivers the remaining entries after the first change, whose entries are in `out`. If
    /// `again` is set, delivers entries that are already pending for the consumer, otherwise new
    /// entries. An error ends the delivery but is not reported, because the entries in `out` have
    /// been delivered and must be sent to the consumer. O(entries * log n).
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

    /// Claims pending entries for a consumer, starting at an ID. Claims at most `count` entries,
    /// including entries that were deleted from the stream. Returns `None` if the group does not
    /// exist. If an error occurs after the first change, returns the entries claimed so far. O(log
    /// n + count * log n).
    ///
    /// # Errors
    /// Any error of the first change.
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
    /// Delivers the next entries of a group to a consumer and fills `out` with them. Returns
    /// whether the group exists. O(entries).
    ///
    /// # Errors
    /// Any error of [`write`](Store::write).
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
