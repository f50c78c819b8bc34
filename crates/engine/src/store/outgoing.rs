//! The stream of changes that a store sends to its replicas.
//!
//! While a store has a stream, each transaction logs the keys that it changes
//! (`transaction/change_log.rs`). One process at a time, the sender, reads the logs and the values of
//! the changed keys at one moment, writes them as commands, and appends these to the *backlog*, a
//! queue of bytes in the store. The commands of one moment are one transaction, so that replicas see
//! only states that the store had.
//!
//! The same transaction that makes bytes of the backlog part of the stream also drops the changes
//! that they contain from the logs. A sender that is killed therefore loses nothing, and its
//! successor sends nothing twice.

use std::io;
use std::os::unix::fs::MetadataExt;

use undercroft_memory::{ShardSet, View};

use crate::error::Error;
use crate::handle::reader::Reader;
use crate::handle::store::Store;
use crate::store::replication::{REPLICATION_ID, source_text};
use crate::structures::byte_queue::BACKLOG_QUEUE;
use crate::structures::roots::{BACKLOG_SENT, CHANGES_LOST, SOURCE};
use crate::transaction::change_log::{check_changes, complete_changes, log_of, parse_changes};
use crate::transaction::effect::Change;
use crate::transaction::writer::{Expiry, Writer};

/// The key of the stream's record, in the dictionary of the source.
const STREAM: &[u8] = b"stream";

/// The last byte of the record of a stream that Redis 5.0 understands. All other parts of a record have
/// an even length.
const OLD: u8 = b'9';

/// The maximum number of bytes that one transaction appends to the backlog. It limits the time for
/// which the transaction holds a lock.
const APPENDED_AT_ONCE: usize = 256 << 10;

/// The names of a stream and the part of it that is in the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stream {
    /// The replication id of the stream.
    pub id: [u8; REPLICATION_ID],
    /// The id under which the stream was known earlier, and the offset at which that ended.
    pub earlier: Option<([u8; REPLICATION_ID], u64)>,
    /// The inode of the store's file when the stream got its id. A store that was recovered is
    /// another file, and may lack changes that its replicas have received.
    pub file: u64,
    /// Whether Redis 5.0 understands all commands of the stream.
    pub is_old: bool,
    /// The offset of the first byte in the backlog.
    pub start: u64,
    /// The offset after the last byte of the stream.
    pub end: u64,
}

impl Stream {
    fn to_record(self) -> Vec<u8> {
        let mut record = self.id.to_vec();
        record.extend_from_slice(&self.file.to_le_bytes());
        if let Some((id, end)) = self.earlier {
            record.extend_from_slice(&id);
            record.extend_from_slice(&end.to_le_bytes());
        }
        record.extend(self.is_old.then_some(OLD));
        record
    }

    fn of_record(record: &[u8], start: u64, end: u64) -> Option<Stream> {
        let (id, rest) = record.split_first_chunk()?;
        let (file, rest) = rest.split_first_chunk()?;
        let (is_old, rest) = match rest.len() % 2 {
            1 => (true, &rest[..rest.len() - 1]),
            _ => (false, rest),
        };
        let earlier = rest.split_first_chunk().and_then(|(id, rest)| {
            let end = rest.first_chunk()?;
            Some((*id, u64::from_le_bytes(*end)))
        });
        let id = *id;
        Some(Stream {
            id,
            earlier,
            file: u64::from_le_bytes(*file),
            is_old,
            start,
            end,
        })
    }

    /// Returns whether a replica that has received the stream `id` up to `offset` can receive the
    /// rest from the backlog.
    pub fn continues(&self, id: &[u8], offset: u64) -> bool {
        let is_earlier =
            |(earlier, end): ([u8; REPLICATION_ID], u64)| earlier == id && offset <= end;
        let is_known = self.id == id || self.earlier.is_some_and(is_earlier);
        is_known && (self.start..=self.end).contains(&offset)
    }
}

/// The changes of a store up to a moment, as [`Store::changes_after`] returns them.
#[derive(Debug, Default)]
pub struct Changes {
    /// For each shard, the bytes of its log.
    logs: Vec<Vec<u8>>,
    /// The ends of the shards' logs at the moment.
    pub ends: LogEnds,
}

impl Changes {
    /// Iterates over the changes, in the order in which each shard logged them.
    pub fn iter(&self) -> impl Iterator<Item = Change<'_>> {
        let logs = self.logs.iter().enumerate();
        logs.flat_map(|(shard, log)| parse_changes(shard, log))
    }

    /// Returns the number of bytes that the changes take in the logs.
    pub fn length(&self) -> usize {
        self.logs.iter().map(Vec::len).sum()
    }

    fn read(&mut self, view: &View<'_>, shard: usize, from: u64) -> Result<(), Error> {
        let log = log_of(shard);
        let mut bytes = Vec::new();
        if log.exists(view) && log.start(view) <= from {
            log.read(view, from, u64::MAX, &mut bytes)?;
            check_changes(shard, &bytes)?;
        }
        self.logs.push(bytes);
        self.ends.0.push(log.end(view));
        Ok(())
    }
}

/// Positions in the logs of all shards.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LogEnds(Vec<u64>);

impl LogEnds {
    /// Returns whether these are at or after other positions in the same logs.
    pub fn has_reached(&self, other: &LogEnds) -> bool {
        self.0.iter().zip(&other.0).all(|(end, other)| end >= other)
    }
}

impl Store {
    /// Returns the stream of the store's changes, or `None` if changes are not logged, or were lost
    /// because no process sent them for a long time.
    ///
    /// # Errors
    /// Fails if the store is damaged.
    pub fn stream(&self) -> Result<Option<Stream>, Error> {
        let shards = self.all_shards();
        self.read(shards, |reader| {
            let Some(record) = source_text(self, reader, STREAM)? else {
                return Ok(None);
            };
            let view = reader.view();
            let is_complete = shards.iter().all(|shard| log_of(shard).exists(view));
            let (start, end) = (BACKLOG_QUEUE.start(view), view.root(0, BACKLOG_SENT));
            let stream = Stream::of_record(&record, start, end);
            Ok(stream.filter(|_| is_complete && BACKLOG_QUEUE.exists(view)))
        })
    }

    /// Returns the inode of the store's file.
    ///
    /// # Errors
    /// Fails if the file was removed.
    pub fn inode(&self) -> io::Result<u64> {
        Ok(std::fs::metadata(self.path())?.ino())
    }

    /// Returns the offset after the last byte of the last stream that the store had, or 0.
    ///
    /// # Errors
    /// Fails if the store is damaged.
    pub fn last_offset(&self) -> Result<u64, Error> {
        self.read(ShardSet::one(0), |reader| {
            Ok::<_, Error>(reader.view().root(0, BACKLOG_SENT))
        })
    }

    /// Starts to log changes for a stream with an empty backlog, which ends at `stream.end`. Replaces
    /// an earlier stream.
    ///
    /// # Errors
    /// Returns the errors of [`write`](Store::write).
    pub fn begin_stream(&self, stream: &Stream) -> Result<(), Error> {
        let key = self.hidden_key(0, STREAM);
        self.write(self.all_shards(), |writer| {
            writer.remove_stream()?;
            for shard in writer.transaction.shards().iter() {
                log_of(shard).create(writer.transaction, 0)?;
            }
            BACKLOG_QUEUE.create(writer.transaction, stream.end)?;
            writer.transaction.set_root(0, BACKLOG_SENT, stream.end)?;
            writer.set(SOURCE, &key, &stream.to_record(), Expiry::Never)
        })
    }

    /// Gives the stream another id, under which it continues.
    ///
    /// # Errors
    /// Returns the errors of [`write`](Store::write).
    pub fn rename_stream(&self, stream: &Stream) -> Result<(), Error> {
        let key = self.hidden_key(0, STREAM);
        self.write(ShardSet::one(0), |writer| {
            writer.set(SOURCE, &key, &stream.to_record(), Expiry::Never)
        })
    }

    /// Ends the logging of changes, and removes the logs and the backlog.
    ///
    /// # Errors
    /// Returns the errors of [`write`](Store::write).
    pub fn end_stream(&self) -> Result<(), Error> {
        let key = self.hidden_key(0, STREAM);
        self.write(self.all_shards(), |writer| {
            writer.remove_stream()?;
            writer.remove_quietly(SOURCE, &key).map(drop)
        })
    }

    /// Returns the positions of the first changes in the logs.
    ///
    /// # Errors
    /// Fails if the store is damaged.
    pub fn log_starts(&self) -> Result<LogEnds, Error> {
        let shards = self.all_shards();
        self.read(shards, |reader| {
            let start = |shard| log_of(shard).start(reader.view());
            Ok::<_, Error>(LogEnds(shards.iter().map(start).collect()))
        })
    }

    /// Returns the positions after the last changes in the logs. One load for each shard.
    ///
    /// # Errors
    /// Fails if the store is damaged.
    pub fn log_ends(&self) -> Result<LogEnds, Error> {
        let mut ends = LogEnds::default();
        for shard in self.all_shards().iter() {
            ends.0.push(self.read(ShardSet::one(shard), |reader| {
                Ok::<_, Error>(log_of(shard).end(reader.view()))
            })?);
        }
        Ok(ends)
    }

    /// Returns the changes that were logged after `ends`. The values of the keys have changed at
    /// least so far when this returns. O(changes).
    ///
    /// # Errors
    /// Fails if the store is damaged.
    pub fn changes_after(&self, ends: &LogEnds) -> Result<Changes, Error> {
        let mut all = Changes::default();
        for (shard, &from) in ends.0.iter().enumerate() {
            let mut one = self.read(ShardSet::one(shard), |reader| {
                let mut one = Changes::default();
                one.read(reader.view(), shard, from)?;
                Ok::<_, Error>(one)
            })?;
            all.logs.append(&mut one.logs);
            all.ends.0.append(&mut one.ends.0);
        }
        Ok(all)
    }

    /// Returns the first changes that were logged after `ends`: about `most` bytes of each shard's log, but
    /// at least one change, if there is one. The values of the keys have changed at least so far when
    /// this returns. O(log before the changes / 8 KiB + changes).
    ///
    /// # Errors
    /// Fails if the store is damaged.
    pub fn first_changes_after(&self, ends: &LogEnds, most: u64) -> Result<Changes, Error> {
        let mut all = Changes::default();
        for (shard, &from) in ends.0.iter().enumerate() {
            let bytes = self.read(ShardSet::one(shard), |reader| {
                let (view, log) = (reader.view(), log_of(shard));
                let mut bytes = Vec::new();
                if !log.exists(view) || log.start(view) > from {
                    return Ok(bytes);
                }
                let mut length = most;
                loop {
                    bytes.clear();
                    log.read(view, from, length, &mut bytes)?;
                    let complete = complete_changes(shard, &bytes);
                    if complete > 0 || (bytes.len() as u64) < length {
                        // The rest is damaged if it is the end of the log.
                        if (bytes.len() as u64) < length {
                            check_changes(shard, &bytes)?;
                        }
                        bytes.truncate(complete);
                        return Ok::<_, Error>(bytes);
                    }
                    // The first record is longer.
                    length = length.saturating_mul(2);
                }
            })?;
            all.ends.0.push(from + bytes.len() as u64);
            all.logs.push(bytes);
        }
        Ok(all)
    }

    /// Returns the number of bytes that were logged after `ends`. One load for each shard.
    ///
    /// # Errors
    /// Fails if the store is damaged.
    pub fn logged_after(&self, ends: &LogEnds) -> Result<u64, Error> {
        let mut sum = 0;
        for (shard, &end) in ends.0.iter().enumerate() {
            let now = self.read(ShardSet::one(shard), |reader| {
                Ok::<_, Error>(log_of(shard).end(reader.view()))
            })?;
            sum += now.saturating_sub(end);
        }
        Ok(sum)
    }

    /// Calls `look` with the changes that were logged after `ends`, at a moment between two
    /// transactions. All keys that `look` reads have their values of that moment. `look` may run
    /// several times.
    ///
    /// # Errors
    /// Fails if the store is damaged, and returns the errors of `look`.
    pub fn changes_until_now<R>(
        &self,
        ends: &LogEnds,
        look: impl Fn(&Reader<'_, '_>, &Changes) -> Result<R, Error> + Sync,
    ) -> Result<(R, Changes), Error> {
        let shards = self.all_shards();
        self.read(shards, |reader| {
            let mut all = Changes::default();
            for (shard, &from) in ends.0.iter().enumerate() {
                all.read(reader.view(), shard, from)?;
            }
            let result = look(reader, &all)?;
            Ok((result, all))
        })
    }

    /// Appends bytes to the stream, and drops the changes before `ends`, which they contain, from the
    /// logs. Until all bytes are appended, none is part of the stream. O(bytes).
    ///
    /// # Errors
    /// Returns the errors of [`write`](Store::write). The bytes are then no part of the stream.
    pub fn append_to_stream(&self, bytes: &[u8], ends: &LogEnds) -> Result<(), Error> {
        self.discard_unsent()?;
        self.complete_stream(bytes, ends)
    }

    /// Appends bytes to the backlog that are no part of the stream until
    /// [`complete_stream`](Self::complete_stream) makes them one. O(bytes).
    ///
    /// # Errors
    /// Returns the errors of [`write`](Store::write). Some of the bytes are then in the backlog, until
    /// [`discard_unsent`](Self::discard_unsent).
    pub fn append_unsent(&self, bytes: &[u8]) -> Result<(), Error> {
        let mut pieces = bytes.chunks(APPENDED_AT_ONCE);
        pieces.try_for_each(|piece| {
            self.write(ShardSet::one(0), |writer| append_piece(writer, piece))
        })
    }

    /// Appends bytes to those that [`append_unsent`](Self::append_unsent) has appended, makes all of them
    /// part of the stream, and drops the changes before `ends`, which they contain, from the logs.
    /// O(bytes).
    ///
    /// # Errors
    /// Returns the errors of [`write`](Store::write). The bytes are then no part of the stream.
    pub fn complete_stream(&self, bytes: &[u8], ends: &LogEnds) -> Result<(), Error> {
        let whole = bytes.len() - bytes.len() % APPENDED_AT_ONCE;
        let (first, last) = bytes.split_at(whole);
        self.append_unsent(first)?;
        let unfinished = self.write(self.all_shards(), |writer| {
            append_piece(writer, last)?;
            let end = BACKLOG_QUEUE.end(writer.view());
            writer.transaction.set_root(0, BACKLOG_SENT, end)?;
            let mut unfinished = Vec::new();
            for (shard, &end) in ends.0.iter().enumerate() {
                let is_new = log_of(shard).start(writer.view()) != end;
                if is_new && drop_changes(writer, shard, end)? {
                    unfinished.push((shard, end));
                }
            }
            Ok::<_, Error>(unfinished)
        })?;
        // The bytes are part of the stream now. A failure leaves blocks for the next call.
        for (shard, end) in unfinished {
            let shards = ShardSet::one(shard);
            while self
                .write(shards, |writer| drop_changes(writer, shard, end))
                .unwrap_or(false)
            {}
        }
        Ok(())
    }

    /// Removes bytes that a sender has appended to the backlog without making them part of the stream,
    /// because it failed or was killed.
    ///
    /// # Errors
    /// Returns the errors of [`write`](Store::write).
    pub fn discard_unsent(&self) -> Result<(), Error> {
        let is_unsent = self.read(ShardSet::one(0), |reader| {
            let view = reader.view();
            Ok::<_, Error>(BACKLOG_QUEUE.end(view) != view.root(0, BACKLOG_SENT))
        })?;
        if is_unsent {
            self.write(ShardSet::one(0), |writer| {
                let sent = writer.view().root(0, BACKLOG_SENT);
                BACKLOG_QUEUE.drop_after(writer.transaction, sent)
            })?;
        }
        Ok(())
    }

    /// Drops the bytes of the stream before `offset` from the backlog. O(dropped bytes / 16 KiB).
    ///
    /// # Errors
    /// Returns the errors of [`write`](Store::write).
    pub fn trim_backlog(&self, offset: u64) -> Result<(), Error> {
        let drop = |writer: &mut Writer<'_, '_>| {
            let view = writer.view();
            let until = offset.min(view.root(0, BACKLOG_SENT));
            match BACKLOG_QUEUE.exists(view) && BACKLOG_QUEUE.start(view) < until {
                true => BACKLOG_QUEUE.drop_before(writer.transaction, until),
                false => Ok(false),
            }
        };
        while self.write(ShardSet::one(0), drop)? {}
        Ok(())
    }

    /// Appends the bytes of the stream from `offset` on to `out`, at most `most` bytes. Returns false
    /// if the backlog does not contain the offset. O(backlog before the offset / 16 KiB + bytes).
    ///
    /// # Errors
    /// Fails if the store is damaged.
    pub fn read_stream(&self, offset: u64, most: u64, out: &mut Vec<u8>) -> Result<bool, Error> {
        out.clear();
        self.read_into(ShardSet::one(0), out, |reader, out| {
            let view = reader.view();
            let (start, end) = (BACKLOG_QUEUE.start(view), view.root(0, BACKLOG_SENT));
            if !BACKLOG_QUEUE.exists(view) || !(start..=end).contains(&offset) {
                return Ok::<_, Error>(false);
            }
            BACKLOG_QUEUE.read(view, offset, most.min(end - offset), out)?;
            Ok(true)
        })
    }
}

/// Drops the changes before a position from a shard's log. Returns whether blocks remain to be freed.
fn drop_changes(writer: &mut Writer<'_, '_>, shard: usize, end: u64) -> Result<bool, Error> {
    let log = log_of(shard);
    match log.exists(writer.view()) {
        true => log.drop_before(writer.transaction, end),
        false => Ok(false),
    }
}

fn append_piece(writer: &mut Writer<'_, '_>, piece: &[u8]) -> Result<(), Error> {
    for part in piece.chunks(BACKLOG_QUEUE.capacity()) {
        BACKLOG_QUEUE.append(writer.transaction, part)?;
    }
    Ok(())
}

impl Writer<'_, '_> {
    fn remove_stream(&mut self) -> Result<(), Error> {
        for shard in self.transaction.shards().iter() {
            log_of(shard).remove(self.transaction)?;
            self.transaction.set_root(shard, CHANGES_LOST, 0)?;
        }
        // The end of the stream stays, so that the next stream can begin after it.
        BACKLOG_QUEUE.remove(self.transaction)
    }
}
