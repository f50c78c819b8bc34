//! The stream operations that embedded clients call most often.

use undercroft_memory::ShardSet;

use super::StreamLimits;
use super::entries::IdRange;
use super::found::StreamEntries;
use super::id::StreamId;
use super::write::{AddedEntry, EntryId, Trim};
use crate::error::Error;
use crate::handle::store::Store;

impl Store {
    /// Appends an entry to a stream; see [`Writer::stream_add`](crate::Writer::stream_add).
    #[expect(
        clippy::too_many_arguments,
        reason = "one parameter for each option of the command"
    )]
    pub fn stream_add(
        &self,
        database: usize,
        key: &[u8],
        id: EntryId,
        texts: &[&[u8]],
        create: bool,
        trim: Option<&Trim>,
        limits: &StreamLimits,
    ) -> Result<AddedEntry, Error> {
        let key = self.key(key);
        self.check_memory_for(texts.iter().map(|text| text.len()).sum())?;
        let added = self.write(ShardSet::one(key.shard), |writer| {
            writer.stream_add(database, &key, id, texts, create, trim, limits)
        })?;
        self.touch_written(&key);
        Ok(added)
    }

    /// Fills `out` with the entries of a stream in a range, or leaves `out` empty if the key does
    /// not exist. Returns whether the key exists. O(log n + entries).
    pub fn stream_range(
        &self,
        database: usize,
        key: &[u8],
        range: IdRange,
        out: &mut StreamEntries,
    ) -> Result<bool, Error> {
        let key = self.key(key);
        let found = self.read_into(ShardSet::one(key.shard), out, |reader, out| {
            let Some(stream) = reader.stream(database, &key)? else {
                return Ok(false);
            };
            stream.range(reader.view(), range, out)?;
            Ok::<_, Error>(true)
        })?;
        self.looked_up(database, &key, found);
        Ok(found)
    }

    /// Returns the number of entries in a stream, or 0 if the key does not exist. O(1).
    pub fn stream_length(&self, database: usize, key: &[u8]) -> Result<u64, Error> {
        let key = self.key(key);
        let length = self.read(ShardSet::one(key.shard), |reader| {
            let stream = reader.stream(database, &key)?;
            Ok::<_, Error>(stream.map(|stream| stream.length()))
        })?;
        self.looked_up(database, &key, length.is_some());
        Ok(length.unwrap_or(0))
    }

    /// Acknowledges pending entries; see
    /// [`Writer::stream_acknowledge`](crate::Writer::stream_acknowledge).
    pub fn stream_acknowledge(
        &self,
        database: usize,
        key: &[u8],
        group: &[u8],
        ids: &[StreamId],
    ) -> Result<Option<u64>, Error> {
        let key = self.key(key);
        self.write(ShardSet::one(key.shard), |writer| {
            writer.stream_acknowledge(database, &key, group, ids)
        })
    }
}
