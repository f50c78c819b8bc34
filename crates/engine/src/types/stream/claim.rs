//! Giving pending entries to another consumer.

use super::found::StreamEntries;
use super::group::Pending;
use super::id::StreamId;
use crate::error::Error;
use crate::structures::key::Key;
use crate::transaction::writer::Writer;

/// How entries are claimed.
#[derive(Clone, Copy, Debug)]
pub struct Claim<'c> {
    /// The group.
    pub group: &'c [u8],
    /// The consumer that gets them.
    pub consumer: &'c [u8],
    /// Only what was delivered so many milliseconds ago, or longer.
    pub idle: u64,
    /// When they were delivered, Unix milliseconds, as is noted now.
    pub time: u64,
    /// How often they were, as is noted now; else once more.
    pub deliveries: Option<u64>,
    /// Also what is pending at nobody.
    pub force: bool,
    /// Only ids are given, and that is not counted as a delivery.
    pub only_ids: bool,
    /// At least up to here the group has been given entries.
    pub last: StreamId,
}

/// What was claimed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Claimed {
    /// The entries; only their ids where these were asked for.
    pub entries: StreamEntries,
    /// Those that were pending and are gone.
    pub gone: Vec<StreamId>,
    /// The next pending entry, where there is one.
    pub next: Option<StreamId>,
    /// Pending entries that were looked at, those left alone included.
    pub looked_at: u64,
}

/// Pending entries that are looked at for each one that may be claimed.
pub(super) const LOOKED_AT: u64 = 10;

impl Writer<'_, '_> {
    /// Gives pending entries to a consumer. None where there is no such group. O(ids * log n).
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
        // A consumer that gets nothing is not made.
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
        self.told_only(database, key);
        Ok(Some(claimed))
    }

    /// Gives the first pending entries from an id on to a consumer, `count` at most, gone ones included, and looks at
    /// `looks` at most. None where there is no such group. O(log n + looks * log n).
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
        // One more, which is the next one.
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
        self.told_only(database, key);
        Ok(Some(claimed))
    }
}

impl StreamEntries {
    /// Adds the only entry of others, or its id only.
    fn take(&mut self, other: &StreamEntries, only_id: bool) {
        if !only_id {
            other.texts(0).for_each(|text| self.texts.push(text));
        }
        self.end_entry(other.id(0));
    }
}
