//! The state of a replica whose source is a cluster: one *lane* for each master, and the lane that each
//! hash slot belongs to.
//!
//! Each lane has its own stream and its own place in it. Root word [`LANES`] and those after it
//! contain the places, one word for each lane in each shard, as [`APPLIED`] does for a single server:
//! the transaction that applies a change stores the place after it, in a shard that it has locked, and
//! the highest word of a lane is the place of its last change. Everything else changes rarely, and is
//! one record in the dictionary of the source.
//!
//! [`APPLIED`]: crate::structures::roots::APPLIED

use std::ops::RangeInclusive;

use crc::{CRC_16_XMODEM, Crc, Table};
use undercroft_memory::ShardSet;

use crate::error::Error;
use crate::handle::reader::Reader;
use crate::handle::store::Store;
use crate::store::flush::empty;
use crate::store::replication::{
    AppliedPosition, ID, LINK, REPLICATION_ID, SourceLink, loading_database, source_text,
};
use crate::structures::roots::{DATABASES, LANES, LANES_MAX, SOURCE, loading};
use crate::transaction::access::Access;
use crate::transaction::writer::{Expiry, Writer};

/// The number of hash slots of a cluster.
pub const SLOTS: usize = 16_384;

/// The key of the record in the dictionary of the source.
const CLUSTER: &[u8] = b"cluster";

/// The owner of a slot that belongs to no lane.
const NO_LANE: u8 = u8::MAX;
const _: () = assert!(LANES_MAX < NO_LANE as usize);

/// The stream of one master of a cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lane {
    /// The number of the lane, below [`Store::LANES_MAX`].
    pub number: u8,
    /// The replication id of the stream.
    pub id: [u8; REPLICATION_ID],
    /// The id of the node that sends the stream.
    pub node: String,
    /// The host of that node.
    pub host: String,
    /// The port of that node.
    pub port: u16,
    /// The place after the last change that was applied.
    pub position: AppliedPosition,
}

/// A cluster whose keys a replica has.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClusterSource {
    /// The lanes, whose data sets the store has.
    pub lanes: Vec<Lane>,
    /// The lane that each slot belongs to. A slot that has no lane has no keys in the store.
    pub owners: SlotOwners,
    /// The slots whose keys are moving from their lane to this other lane.
    pub moving: Vec<(u16, u8)>,
    /// Slots for which a lane has received keys that were ignored, so that its data set must be loaded
    /// again before the slot can belong to it.
    pub doubtful: Vec<(u16, u8)>,
}

/// The lane that each slot of a cluster belongs to.
#[derive(Clone, PartialEq, Eq)]
pub struct SlotOwners(Box<[u8; SLOTS]>);

impl Default for SlotOwners {
    fn default() -> SlotOwners {
        SlotOwners(Box::new([NO_LANE; SLOTS]))
    }
}

impl std::fmt::Debug for SlotOwners {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_list().entries(self.ranges()).finish()
    }
}

impl SlotOwners {
    /// Returns the lane that a slot belongs to.
    pub fn get(&self, slot: u16) -> Option<u8> {
        let lane = *self.0.get(usize::from(slot))?;
        (lane != NO_LANE).then_some(lane)
    }

    /// Sets the lane that a slot belongs to. A slot that does not exist is ignored.
    pub fn set(&mut self, slot: u16, lane: Option<u8>) {
        if let Some(owner) = self.0.get_mut(usize::from(slot)) {
            *owner = lane.unwrap_or(NO_LANE);
        }
    }

    /// Returns the slots of a lane in order. O(number of all slots).
    pub fn of(&self, lane: u8) -> impl Iterator<Item = u16> + '_ {
        let all = self.0.iter().zip(0_u16..);
        all.filter(move |(owner, _)| **owner == lane)
            .map(|(_, slot)| slot)
    }

    /// Returns the ranges of consecutive slots of the same lane, in order.
    pub fn ranges(&self) -> Vec<(RangeInclusive<u16>, u8)> {
        let mut ranges: Vec<(RangeInclusive<u16>, u8)> = Vec::new();
        for (&lane, slot) in self.0.iter().zip(0_u16..) {
            match ranges.last_mut() {
                _ if lane == NO_LANE => {}
                Some((range, last)) if *last == lane && *range.end() + 1 == slot => {
                    *range = *range.start()..=slot;
                }
                _ => ranges.push((slot..=slot, lane)),
            }
        }
        ranges
    }
}

/// Returns the hash slot of a key: the CRC-16 (XMODEM) of the key, or of its hash tag, modulo the
/// number of slots.
pub fn key_slot(key: &[u8]) -> u16 {
    let tag = key.iter().position(|&byte| byte == b'{').and_then(|open| {
        let rest = &key[open + 1..];
        let length = rest.iter().position(|&byte| byte == b'}')?;
        (length > 0).then(|| &rest[..length])
    });
    CHECKSUM.checksum(tag.unwrap_or(key)) % SLOTS as u16
}

static CHECKSUM: Crc<u16, Table<1>> = Crc::<u16, Table<1>>::new(&CRC_16_XMODEM);

/// Reads the numbers and texts of a record. Each text follows its length.
struct Record<'b>(&'b [u8]);

impl<'b> Record<'b> {
    fn bytes(&mut self, length: usize) -> Option<&'b [u8]> {
        let (bytes, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        Some(bytes)
    }

    fn number(&mut self) -> Option<u16> {
        let bytes = self.bytes(2)?.try_into().ok()?;
        Some(u16::from_le_bytes(bytes))
    }

    fn lane(&mut self) -> Option<u8> {
        let number = u8::try_from(self.number()?).ok()?;
        (usize::from(number) < LANES_MAX).then_some(number)
    }

    fn slot(&mut self) -> Option<u16> {
        self.number().filter(|&slot| usize::from(slot) < SLOTS)
    }

    fn text(&mut self) -> Option<String> {
        let length = self.number()?;
        let text = self.bytes(length.into())?;
        Some(String::from_utf8_lossy(text).into_owned())
    }

    fn all<T>(&mut self, item: impl Fn(&mut Self) -> Option<T>) -> Option<Vec<T>> {
        let count = self.number()?;
        (0..count).map(|_| item(self)).collect()
    }
}

impl ClusterSource {
    /// Returns a lane.
    pub fn lane(&self, number: u8) -> Option<&Lane> {
        self.lanes.iter().find(|lane| lane.number == number)
    }

    /// Returns the record, which does not contain the places of the lanes.
    fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        let number = |bytes: &mut Vec<u8>, number: usize| {
            let number = u16::try_from(number).unwrap_or(u16::MAX);
            bytes.extend(number.to_le_bytes());
        };
        number(&mut bytes, self.lanes.len());
        for lane in &self.lanes {
            number(&mut bytes, lane.number.into());
            number(&mut bytes, lane.port.into());
            bytes.extend(lane.id);
            for text in [&lane.node, &lane.host] {
                number(&mut bytes, text.len());
                bytes.extend(text.as_bytes());
            }
        }
        let ranges = self.owners.ranges();
        number(&mut bytes, ranges.len());
        for (range, lane) in ranges {
            number(&mut bytes, (*range.start()).into());
            number(&mut bytes, (*range.end()).into());
            number(&mut bytes, lane.into());
        }
        for slots in [&self.moving, &self.doubtful] {
            number(&mut bytes, slots.len());
            for &(slot, lane) in slots {
                number(&mut bytes, slot.into());
                number(&mut bytes, lane.into());
            }
        }
        bytes
    }

    fn of_bytes(bytes: &[u8]) -> Option<ClusterSource> {
        let mut record = Record(bytes);
        let lanes = record.all(|record| {
            Some(Lane {
                number: record.lane()?,
                port: record.number()?,
                id: record.bytes(REPLICATION_ID)?.try_into().ok()?,
                node: record.text()?,
                host: record.text()?,
                position: AppliedPosition::default(),
            })
        })?;
        let ranges = record.all(|record| Some((record.slot()?, record.slot()?, record.lane()?)))?;
        let (mut owners, mut after) = (SlotOwners::default(), 0);
        for (start, end, lane) in ranges {
            // Each slot is in one range, so that a damaged record does not cause more work than a
            // sound one.
            if start < after || end < start {
                return None;
            }
            after = end + 1;
            (start..=end).for_each(|slot| owners.set(slot, Some(lane)));
        }
        let pair = |record: &mut Record<'_>| Some((record.slot()?, record.lane()?));
        Some(ClusterSource {
            lanes,
            owners,
            moving: record.all(pair)?,
            doubtful: record.all(pair)?,
        })
    }
}

/// Returns the key of the [`SourceLink`] of a lane.
fn link_name(lane: u8) -> Vec<u8> {
    [LINK, &[lane]].concat()
}

impl Store {
    /// The maximum number of lanes.
    pub const LANES_MAX: usize = LANES_MAX;

    /// Returns the cluster whose keys the store has, or `None` if its source is no cluster, or if it
    /// has no complete data set.
    ///
    /// # Errors
    /// Fails if the store is damaged.
    pub fn cluster_source(&self) -> Result<Option<ClusterSource>, Error> {
        let shards = self.all_shards();
        self.read(shards, |reader| {
            let bytes = source_text(self, reader, CLUSTER)?;
            let mut source = bytes.as_deref().and_then(ClusterSource::of_bytes);
            for lane in source.iter_mut().flat_map(|source| &mut source.lanes) {
                let positions = shards
                    .iter()
                    .map(|shard| lane_position_in(reader, shard, lane.number));
                lane.position = positions.max().unwrap_or_default();
            }
            Ok::<_, Error>(source)
        })
    }

    /// Records the lanes and slots of a cluster, and the places of the lanes for which `is_new`
    /// returns true.
    ///
    /// # Errors
    /// Returns the errors of [`write`](Store::write).
    pub fn set_cluster_source(
        &self,
        source: &ClusterSource,
        is_new: impl Fn(u8) -> bool + Sync,
    ) -> Result<(), Error> {
        let shards = match source.lanes.iter().any(|lane| is_new(lane.number)) {
            true => self.all_shards(),
            false => ShardSet::one(0),
        };
        self.write(shards, |writer| writer.set_cluster_source(source, &is_new))
    }

    /// Replaces all keys with those that were loaded, like
    /// [`finish_loading`](Store::finish_loading), and records the cluster that they come from, and the
    /// places of the lanes for which `is_new` returns true, in one transaction.
    ///
    /// # Errors
    /// Returns the errors of [`write`](Store::write).
    pub fn finish_loading_cluster(
        &self,
        source: &ClusterSource,
        is_new: impl Fn(u8) -> bool + Sync,
    ) -> Result<u64, Error> {
        let (shards, databases) = (self.all_shards(), loading().collect::<Vec<usize>>());
        self.write(shards, |writer| {
            for database in 0..DATABASES {
                writer.swap_databases(database, loading_database(database))?;
            }
            let mut replaced = 0;
            for shard in shards.iter() {
                replaced += empty(writer, shard, &databases)?;
            }
            writer.set_cluster_source(source, &is_new)?;
            Ok::<_, Error>(replaced)
        })
    }

    /// Returns the connection of a lane, as the process that follows the cluster last recorded it.
    ///
    /// # Errors
    /// Fails if the store is damaged.
    pub fn lane_link(&self, lane: u8) -> Result<Option<SourceLink>, Error> {
        let name = link_name(lane);
        let bytes = self.read(ShardSet::one(0), |reader| source_text(self, reader, &name))?;
        Ok(bytes.and_then(|bytes| self.current_link(&bytes)))
    }

    /// Records the state of the connection of a lane, for all processes. Must be renewed every second.
    ///
    /// # Errors
    /// Returns the errors of [`write`](Store::write).
    pub fn set_lane_link(&self, lane: u8, link: &SourceLink) -> Result<(), Error> {
        self.set_link(&link_name(lane), link)
    }

    /// Returns whether the store has a complete data set of a cluster.
    pub(super) fn has_cluster(&self) -> Result<bool, Error> {
        let bytes = self.read(ShardSet::one(0), |reader| {
            source_text(self, reader, CLUSTER)
        })?;
        Ok(bytes.is_some())
    }
}

/// Returns the place up to which the changes of a lane are applied in a shard, or a lower one than
/// that of another shard.
pub(super) fn lane_position_in(reader: &Reader<'_, '_>, shard: usize, lane: u8) -> AppliedPosition {
    AppliedPosition::of_word(reader.view().root(shard, LANES + usize::from(lane)))
}

impl Writer<'_, '_> {
    fn set_cluster_source(
        &mut self,
        source: &ClusterSource,
        is_new: &dyn Fn(u8) -> bool,
    ) -> Result<(), Error> {
        let (key, id) = (
            self.store.hidden_key(0, CLUSTER),
            self.store.hidden_key(0, ID),
        );
        self.set(SOURCE, &key, &source.to_bytes(), Expiry::Never)?;
        self.remove_quietly(SOURCE, &id)?;
        for lane in source.lanes.iter().filter(|lane| is_new(lane.number)) {
            // A word of an earlier stream could be higher than all places of this one.
            for shard in self.transaction.shards().iter() {
                let word = lane.position.to_word();
                let place = LANES + usize::from(lane.number);
                self.transaction.set_root(shard, place, word)?;
            }
        }
        Ok(())
    }
}

impl Access<'_> {
    /// Records that all changes before a place in a lane's stream are applied, like
    /// [`note_applied`](Self::note_applied).
    ///
    /// # Errors
    /// Returns the errors of [`Store::write`].
    pub fn note_applied_in(&self, lane: u8, position: AppliedPosition) -> Result<(), Error> {
        self.note_place(LANES + usize::from(lane) % LANES_MAX, position)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_are_those_of_redis() {
        // Replies of CLUSTER KEYSLOT of Redis 7.0.
        for (key, slot) in [
            ("", 0),
            ("foo", 12182),
            ("123456789", 12739),
            ("{foo}bar", 12182),
            ("a{foo}{bar}", 12182),
            ("{}foo", 9500),
            ("foo{}{bar}", 8363),
            ("foo{{bar}}zap", 4015),
            ("{foo", 13308),
        ] {
            assert_eq!(key_slot(key.as_bytes()), slot, "{key}");
        }
    }

    #[test]
    fn record_of_a_cluster_is_read_as_it_was_written() {
        let lane = |number: u8| Lane {
            number,
            id: [b'a' + number; REPLICATION_ID],
            node: format!("node {number}"),
            host: "::1".into(),
            port: 7000 + u16::from(number),
            position: AppliedPosition::default(),
        };
        let mut source = ClusterSource {
            lanes: vec![lane(0), lane(7)],
            moving: vec![(3, 7), (16_383, 0)],
            doubtful: vec![(9, 7)],
            ..ClusterSource::default()
        };
        (0..5000).for_each(|slot| source.owners.set(slot, Some(0)));
        (6000..16_384).for_each(|slot| source.owners.set(slot, Some(7)));
        let bytes = source.to_bytes();
        assert!(bytes.len() < 300, "{}", bytes.len());
        assert_eq!(ClusterSource::of_bytes(&bytes), Some(source.clone()));
        assert_eq!(source.owners.of(0).count(), 5000);
        // The second range precedes two lists, of two pairs and of one.
        let mut twice = source.to_bytes();
        let second = twice.len() - (2 + 2 * 4) - (2 + 4) - 6;
        twice[second..second + 2].copy_from_slice(&0_u16.to_le_bytes());
        assert_eq!(ClusterSource::of_bytes(&twice), None, "two ranges overlap");
        // A record that is cut off, in a damaged store, is no record.
        for length in 0..bytes.len() {
            assert_eq!(ClusterSource::of_bytes(&bytes[..length]), None);
        }
    }
}
