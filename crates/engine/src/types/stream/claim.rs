//! Transfers pending entries to another consumer.

use super::found::StreamEntries;
use super::group::Pending;
use super::id::StreamId;
use super::write::pending_part;
use crate::error::Error;
use crate::structures::key::Key;
use crate::transaction::effect::ChangedPart;
use crate::transaction::writer::Writer;

/// The options of XCLAIM and XAUTOCLAIM.
#[derive(Clone, Copy, Debug)]
pub struct Claim<'c> {
    /// The name of the group.
    pub group: &'c [u8],
    /// The name of the consumer that receives the entries.
    pub consumer: &'c [u8],
    /// The minimum time in milliseconds since the last delivery of an entry. A more recently
    /// delivered entry is not claimed.
    pub idle: u64,
    /// The delivery time to record, in Unix milliseconds.
    pub time: u64,
    /// The delivery count to record, or `None` to increment the current count.
    pub deliveries: Option<u64>,
    /// Whether entries that are not pending are also claimed (FORCE).
    pub force: bool,
    /// Whether only IDs are returned (JUSTID). In this case, the claim does not count as a
    /// delivery.
    pub only_ids: bool,
    /// The minimum value of the group's last delivered ID after the claim (LASTID).
    pub last: StreamId,
}

/// The result of a claim.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Claimed {
    /// The claimed entries, without fields and values if only IDs were requested.
    pub entries: StreamEntries,
    /// The IDs of pending entries that no longer exist in the stream.
    pub gone: Vec<StreamId>,
    /// The ID of the next pending entry to examine, or `None` if no pending entries remain.
    pub next: Option<StreamId>,
    /// The number of pending entries examined, including those that were not claimed.
    pub looked_at: u64,
}

/// The maximum number of pending entries to examine for each entry to claim.
pub(super) const LOOKED_AT: u64 = 10;

impl Writer<'_, '_> {
    /// Claims pending entries for a consumer. Returns `None` if the group does not exist. O(IDs *
    /// log n).
    pub fn stream_claim(
        &mut self,
        database: usize,
        key: &Key<'_>,
        claim: &Claim<'_>,
        ids: &[StreamId],
    ) -> Result<Option<Claimed>, Error> {
        let Some(stream) = self.stream(database, key)? else {
            return Ok(None);
        };
        let Some(mut group) = stream.group(self.view(), claim.group)? else {
            return Ok(None);
        };
        if claim.last > group.last {
            group.set_last(self.transaction, claim.last, group.read)?;
        }
        let (mut claimed, now) = (Claimed::default(), self.now());
        // Create the consumer only when an entry is actually claimed for it.
        let (mut consumer, mut entry) = (None, StreamEntries::new());
        for &id in ids {
            undercroft_memory::Scratch::clear(&mut entry);
            let is_there = stream.append_entry(self.view(), id, &mut entry)?;
            if !is_there {
                group.acknowledge(self.transaction, id)?;
                continue;
            }
            let found = group
                .pending(self.view())?
                .find_key(self.view(), id.words())?;
            let old = match found {
                Some(found) => {
                    let old = Pending::of(found.row);
                    if claim.idle > 0 && now.saturating_sub(old.time) < claim.idle {
                        continue;
                    }
                    old
                }
                None if claim.force => Pending {
                    id,
                    consumer: 0,
                    time: now,
                    deliveries: 1,
                },
                None => continue,
            };
            let more = u64::from(!claim.only_ids);
            let owner = match consumer {
                Some(owner) => owner,
                None => self.consumer(database, key, &group, claim.consumer)?,
            };
            consumer = Some(owner);
            let new = Pending {
                id,
                consumer: owner.at,
                time: claim.time,
                deliveries: claim.deliveries.unwrap_or(old.deliveries + more),
            };
            group.assign(self.transaction, &new)?;
            claimed.entries.take(&entry, claim.only_ids);
        }
        let used = [
            ChangedPart::Group(claim.group),
            ChangedPart::Consumer {
                group: claim.group,
                name: claim.consumer,
            },
        ];
        let pending = ids.iter().map(|id| pending_part(claim.group, *id));
        self.told_parts(database, key, used.into_iter().chain(pending));
        Ok(Some(claimed))
    }

    /// Claims pending entries for a consumer, starting at an ID. Claims at most `count` entries,
    /// including entries that were deleted from the stream. Examines at most `looks` pending
    /// entries. Returns `None` if the group does not exist. O(log n + looks * log n).
    pub fn stream_claim_from(
        &mut self,
        database: usize,
        key: &Key<'_>,
        claim: &Claim<'_>,
        (from, (count, looks)): (StreamId, (u64, u64)),
    ) -> Result<Option<Claimed>, Error> {
        let Some(stream) = self.stream(database, key)? else {
            return Ok(None);
        };
        let Some(group) = stream.group(self.view(), claim.group)? else {
            return Ok(None);
        };
        let (mut claimed, now) = (Claimed::default(), self.now());
        // Load one extra row, because the next call starts at that row.
        let (mut rows, start) = (Vec::new(), from.words());
        group.pending(self.view())?.for_each_from(
            self.view(),
            |key| Ok(key < start),
            |row| {
                rows.push(Pending::of(*row));
                Ok(rows.len() as u64 <= looks)
            },
        )?;
        let (mut left, mut entry, mut consumer) = (count, StreamEntries::new(), None);
        for (looked_at, old) in (0..).zip(&rows) {
            if left == 0 || looked_at == looks {
                claimed.next = Some(old.id);
                break;
            }
            claimed.looked_at = looked_at + 1;
            undercroft_memory::Scratch::clear(&mut entry);
            if !stream.append_entry(self.view(), old.id, &mut entry)? {
                group.acknowledge(self.transaction, old.id)?;
                claimed.gone.push(old.id);
                left -= 1;
                continue;
            }
            if claim.idle > 0 && now.saturating_sub(old.time) < claim.idle {
                continue;
            }
            let owner = match consumer {
                Some(owner) => owner,
                None => self.consumer(database, key, &group, claim.consumer)?,
            };
            consumer = Some(owner);
            let new = Pending {
                id: old.id,
                consumer: owner.at,
                time: now,
                deliveries: old.deliveries + u64::from(!claim.only_ids),
            };
            group.assign(self.transaction, &new)?;
            claimed.entries.take(&entry, claim.only_ids);
            left -= 1;
        }
        let used = [ChangedPart::Consumer {
            group: claim.group,
            name: claim.consumer,
        }];
        let pending = rows.iter().map(|row| pending_part(claim.group, row.id));
        self.told_parts(database, key, used.into_iter().chain(pending));
        Ok(Some(claimed))
    }
}

impl StreamEntries {
    /// Appends the only entry of `other`, or only its ID if `only_id` is set.
    fn take(&mut self, other: &StreamEntries, only_id: bool) {
        if !only_id {
            other.texts(0).for_each(|text| self.texts.push(text));
        }
        self.end_entry(other.id(0));
    }
}
