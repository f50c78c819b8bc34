//! Writes the changes of a store to its stream.

use std::io;

use undercroft_engine::rdb::{RdbVersion, dump_libraries};
use undercroft_engine::{Error, LogEnds, REPLICATION_ID, Store, Stream};

use super::commands::Commands;
use super::needs::{Needs, Operation, Update};
use super::replaced::Replaced;

/// The number of bytes of logged changes that are few enough to read their keys at one moment, while
/// other processes may have to wait.
const FEW: usize = 16 << 10;
/// The maximum number of rounds that read keys in advance. If other processes change keys faster
/// than they can be read, the keys of the last round are read at one moment, however many there are.
const ROUNDS_MAX: usize = 8;
/// The number of bytes of logged changes, and of commands, that are in memory at a time. More changes,
/// as after a time without a sender, are appended to the backlog in pieces.
const PIECE: u64 = 1 << 20;
/// The number of pieces that the values of fewer changes take in memory at most. Changes of larger
/// values are appended in pieces as well, although that sends changed lists and streams completely.
const PIECES_AT_ONCE: u64 = 16;
/// The maximum number of times that values turn out to be too large to be read at once. If other
/// processes change large values faster than they are appended, the last ones are read at once.
const PIECES_AGAIN_MAX: usize = 8;

/// The process that sends a store's changes. There must be one at a time for a store.
#[derive(Debug)]
pub struct Sender {
    /// The positions in the change logs up to which the changes are in the stream.
    ends: LogEnds,
    stream: Stream,
    /// Whether a data set was taken since the last changes were sent. It contains some of the next
    /// changes already.
    is_after_data_set: bool,
    /// The number of bytes of a piece.
    piece: u64,
    /// Whether Redis 5.0 must understand the next changes.
    is_old: bool,
    /// Whether changes of feeds were left out.
    has_feeds: bool,
}

/// The part of the stream's transaction that is in the backlog, but not yet part of the stream.
#[derive(Debug)]
struct Unsent {
    commands: Commands,
    /// The keys that were removed or replaced since the pieces began.
    replaced: Replaced,
    /// The number of bytes in the backlog.
    appended: u64,
}

/// The last changes before a moment, whose keys are in memory.
struct Last {
    needs: Needs,
    /// The positions in the change logs at that moment.
    ends: LogEnds,
}

/// The outcome of a round of [`Sender::send`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sent {
    /// There were no changes.
    Nothing,
    /// Changes were appended to the stream.
    Changes,
    /// Changes were lost, and the stream began anew. All replicas need a data set.
    Restarted,
}

impl Sender {
    /// Continues the stream of a store, or begins one if there is none, or if its replicas have
    /// received commands of another [version](Self::set_version). `new_id` returns random replication ids.
    ///
    /// # Errors
    /// Fails if the store cannot be changed.
    pub fn new(
        store: &Store,
        version: RdbVersion,
        new_id: &dyn Fn() -> [u8; REPLICATION_ID],
    ) -> Result<Sender, Error> {
        let (file, is_old) = (store.inode().map_err(gone)?, version == RdbVersion::V9);
        let stream = match store.stream()?.filter(|stream| stream.is_old == is_old) {
            Some(stream) if stream.file == file => stream,
            Some(stream) => {
                // Replicas may have received changes that the recovered store lacks. Those that have
                // not can continue.
                let renamed = Stream {
                    id: new_id(),
                    earlier: Some((stream.id, stream.end)),
                    file,
                    ..stream
                };
                store.rename_stream(&renamed)?;
                renamed
            }
            None => begin(store, new_id(), is_old)?,
        };
        Ok(Sender {
            ends: store.log_starts()?,
            stream,
            // An earlier sender may have.
            is_after_data_set: true,
            piece: PIECE,
            is_old,
            has_feeds: false,
        })
    }

    /// Sets the number of bytes of logged changes, and of commands, that are in memory at a time. The
    /// memory that [`send`](Self::send) uses is at most about 48 times this, plus three times the largest
    /// value.
    pub fn set_piece(&mut self, bytes: u64) {
        self.piece = bytes;
    }

    /// Chooses the commands of the next changes: those of Redis 7.0, or, for [`RdbVersion::V9`], only
    /// those that Redis 5.0 has. It has no function libraries, and no commands for some parts of streams,
    /// which are sent completely. If the choice changes, the next call of [`send`](Self::send) begins
    /// another stream: replicas must not continue with commands that they do not have, and those of
    /// later versions lack the function libraries.
    pub fn set_version(&mut self, version: RdbVersion) {
        self.is_old = version == RdbVersion::V9;
    }

    /// Returns the stream, as it was after the last call of [`send`](Self::send).
    pub fn stream(&self) -> &Stream {
        &self.stream
    }

    /// Returns whether changes of feeds, which replicas do not know, were left out.
    pub fn has_left_out_feeds(&self) -> bool {
        self.has_feeds
    }

    /// Must be called before a data set is taken for a replica, while no changes are sent.
    pub fn expect_data_set(&mut self) {
        self.is_after_data_set = true;
    }

    /// Appends the changes that were made since the last call, as one transaction, followed by the
    /// commands in `after`. If a transaction in [pieces](Self::set_piece) has more than `most` bytes, or
    /// the store has no room for the changes, begins another stream instead: a replica then needs a data
    /// set in any case. O(changed keys and their values).
    ///
    /// # Errors
    /// Fails if the store is damaged, or has no room for a stream.
    pub fn send(
        &mut self,
        store: &Store,
        (after, most): (&[u8], u64),
        new_id: &dyn Fn() -> [u8; REPLICATION_ID],
    ) -> Result<Sent, Error> {
        match self.append(store, (after, most), new_id) {
            Err(error) if error.is_out_of_memory() => {
                // The backlog must not take the memory that programs need for their keys.
                store.discard_unsent()?;
                self.restart(store, new_id())
            }
            sent => sent,
        }
    }

    fn append(
        &mut self,
        store: &Store,
        (after, most): (&[u8], u64),
        new_id: &dyn Fn() -> [u8; REPLICATION_ID],
    ) -> Result<Sent, Error> {
        let Some(stream) = store.stream()? else {
            return self.restart(store, new_id());
        };
        self.stream = stream;
        if stream.is_old != self.is_old {
            return self.restart(store, new_id());
        }
        let logged = store.logged_after(&self.ends)?;
        if after.is_empty() && logged == 0 {
            return Ok(Sent::Nothing);
        }
        store.discard_unsent()?;
        let mut ends = self.ends.clone();
        let (mut unsent, mut rounds) = (None, 0);
        let mut goes_in_pieces = logged > self.piece;
        let last = loop {
            if goes_in_pieces {
                unsent = match self.append_pieces(store, unsent, &mut ends, most)? {
                    None => return self.restart(store, new_id()),
                    unsent => unsent,
                };
            }
            let room = match rounds < PIECES_AGAIN_MAX {
                true => self.piece.saturating_mul(PIECES_AT_ONCE),
                false => u64::MAX,
            };
            if let Some(last) = self.read_last(store, (ends.clone(), unsent.is_some()), room)? {
                break last;
            }
            goes_in_pieces = true;
            rounds += 1;
        };
        let Last { needs, ends } = last;
        if (self.is_after_data_set || unsent.is_some()) && needs.has_swaps() {
            // The data set of a replica can be of a moment before or after the swap.
            return self.restart(store, new_id());
        }
        let mut appended = 0;
        let mut bytes = match unsent {
            None => {
                let mut commands = self.commands();
                encode(store, needs, &mut commands)?;
                self.has_feeds |= commands.has_feeds;
                commands.into_transaction()
            }
            Some(mut unsent) => {
                encode(store, needs, &mut unsent.commands)?;
                unsent.commands.end_transaction();
                self.has_feeds |= unsent.commands.has_feeds;
                appended = unsent.appended + take(&mut unsent.commands, store)?;
                Vec::new()
            }
        };
        bytes.extend_from_slice(after);
        store.complete_stream(&bytes, &ends)?;
        self.ends = ends;
        self.is_after_data_set = false;
        self.stream.end += appended + bytes.len() as u64;
        Ok(Sent::Changes)
    }

    /// Reads the keys of all changes after the positions in the logs. Returns `None` if their values
    /// need more than `room` bytes. `has_pieces` indicates whether pieces of the transaction were appended.
    fn read_last(
        &self,
        store: &Store,
        (mut ends, has_pieces): (LogEnds, bool),
        room: u64,
    ) -> Result<Option<Last>, Error> {
        // The commands of the pieces contain a part of the next changes already.
        let is_repeated = self.is_after_data_set || has_pieces;
        let mut needs = Needs::new(is_repeated, self.is_old);
        for _ in 0..ROUNDS_MAX {
            let found = store.changes_after(&ends)?;
            if found.length() <= FEW {
                break;
            }
            needs.add(&found);
            if !needs.read_early(store, room)? {
                return Ok(None);
            }
            ends = found.ends;
        }
        let (late, found) = store.changes_until_now(&ends, |reader, changes| {
            needs.read_late(reader, changes, room)
        })?;
        Ok(late.map(|late| {
            needs.merge(late);
            Last {
                needs,
                ends: found.ends,
            }
        }))
    }

    /// Appends the commands for many changes, or changes of large values, to the backlog, and moves
    /// `ends` to the changes after them. Their keys are read one after the other, so they are part of a
    /// transaction that is completed with the keys that have changed meanwhile. Changes that are made
    /// faster than they are appended are left to that end. Continues the transaction of `unsent`, if
    /// there is one. Returns `None` if the replicas need a data set: the transaction is too long, or
    /// databases were swapped or emptied, whose keys have an order.
    fn append_pieces(
        &self,
        store: &Store,
        unsent: Option<Unsent>,
        ends: &mut LogEnds,
        most: u64,
    ) -> Result<Option<Unsent>, Error> {
        let shards = store.all_shards().iter().count() as u64;
        let logged = store.logged_after(ends)?;
        let mut unsent = unsent.unwrap_or_else(|| {
            let mut commands = self.commands();
            commands.begin_transaction();
            Unsent {
                commands,
                replaced: Replaced::new(ends.clone(), logged),
                appended: 0,
            }
        });
        unsent.replaced.look(store, self.piece)?;
        let pieces = (logged / self.piece.max(1)).saturating_add(ROUNDS_MAX as u64);
        for _ in 0..pieces {
            if store.logged_after(ends)? == 0 {
                break;
            }
            let found = store.first_changes_after(ends, self.piece.div_ceil(shards))?;
            let mut needs = Needs::new(true, self.is_old);
            needs.add(&found);
            if needs.has_swaps() || needs.has_emptied() {
                return Ok(None);
            }
            *ends = found.ends;
            let mut is_too_long = false;
            let Unsent {
                commands,
                replaced,
                appended,
            } = &mut unsent;
            let taken = needs.take_each(store, (replaced, self.piece), &mut |needs| {
                encode(store, needs, commands)?;
                if commands.out.len() as u64 >= self.piece {
                    *appended += take(commands, store)?;
                }
                is_too_long = *appended > most;
                match is_too_long {
                    true => Err(Error::Overflow),
                    false => Ok(()),
                }
            });
            if is_too_long {
                return Ok(None);
            }
            taken?;
        }
        Ok(Some(unsent))
    }

    fn commands(&self) -> Commands {
        Commands {
            is_old: self.is_old,
            ..Commands::default()
        }
    }

    /// Begins another stream.
    fn restart(&mut self, store: &Store, id: [u8; REPLICATION_ID]) -> Result<Sent, Error> {
        self.stream = begin(store, id, self.is_old)?;
        self.ends = store.log_starts()?;
        Ok(Sent::Restarted)
    }
}

/// Moves the commands to the backlog. Returns the number of bytes.
fn take(commands: &mut Commands, store: &Store) -> Result<u64, Error> {
    store.append_unsent(&commands.out)?;
    let length = commands.out.len() as u64;
    commands.out.clear();
    Ok(length)
}

/// Adds the commands for all changes.
fn encode(store: &Store, mut needs: Needs, commands: &mut Commands) -> Result<(), Error> {
    for operation in &needs.operations {
        match operation {
            Operation::Swap([one, other]) => {
                commands.select(*one);
                let (one, other) = (one.to_string(), other.to_string());
                commands.add(&["SWAPDB", &one, &other]);
            }
            Operation::Empty(database) => {
                commands.select(*database);
                commands.add(&["FLUSHDB"]);
            }
            Operation::Libraries => {}
        }
    }
    if needs.operations.contains(&Operation::Libraries) && !commands.is_old {
        let (libraries, _) = store.access().libraries()?;
        let texts = libraries.iter().map(|library| &library.text[..]);
        commands.select(0);
        match libraries.is_empty() {
            true => commands.add(&["FUNCTION", "FLUSH", "SYNC"]),
            false => {
                let payload = dump_libraries(texts);
                commands.add(&[&b"FUNCTION"[..], b"RESTORE", &payload, b"FLUSH"]);
            }
        }
    }
    // Each database is selected once.
    needs.keys.sort_by_key(|key| key.database);
    for key in &needs.keys {
        match &key.update {
            Some(Update::Complete(state)) => {
                commands.set(key.database, &key.name, state.as_ref());
            }
            Some(Update::Delta(delta)) => commands.update(key.database, &key.name, delta),
            // Only keys that change later are not read, and these are then read late.
            None => {}
        }
    }
    Ok(())
}

fn gone(error: io::Error) -> Error {
    Error::Name(format!("the file of the store cannot be found: {error}").into())
}

/// Begins a stream whose offsets are greater than those of all earlier streams, so that an offset of
/// one stream never is one of another.
fn begin(store: &Store, id: [u8; REPLICATION_ID], is_old: bool) -> Result<Stream, Error> {
    let end = store.last_offset()? + 1;
    let stream = Stream {
        id,
        earlier: None,
        file: store.inode().map_err(gone)?,
        is_old,
        start: end,
        end,
    };
    store.begin_stream(&stream)?;
    Ok(stream)
}
