//! Writes the changes of a store to its stream.

use std::io;

use undercroft_engine::rdb::dump_libraries;
use undercroft_engine::{Error, LogEnds, REPLICATION_ID, Store, Stream};

use super::commands::Commands;
use super::needs::{Needs, Operation, Update};

/// The number of bytes of logged changes that are few enough to read their keys at one moment, while
/// other processes may have to wait.
const FEW: usize = 16 << 10;
/// The maximum number of rounds that read keys in advance. If other processes change keys faster
/// than they can be read, the keys of the last round are read at one moment, however many there are.
const ROUNDS_MAX: usize = 8;

/// The process that sends a store's changes. There must be one at a time for a store.
#[derive(Debug)]
pub struct Sender {
    /// The positions in the change logs up to which the changes are in the stream.
    ends: LogEnds,
    stream: Stream,
    /// Whether a data set was taken since the last changes were sent. It contains some of the next
    /// changes already.
    is_after_data_set: bool,
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
    /// Continues the stream of a store, or begins one. `new_id` returns random replication ids.
    ///
    /// # Errors
    /// Fails if the store cannot be changed.
    pub fn new(store: &Store, new_id: &dyn Fn() -> [u8; REPLICATION_ID]) -> Result<Sender, Error> {
        let file = store.inode().map_err(gone)?;
        let stream = match store.stream()? {
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
            None => begin(store, new_id())?,
        };
        Ok(Sender {
            ends: store.log_starts()?,
            stream,
            // An earlier sender may have.
            is_after_data_set: true,
        })
    }

    /// Returns the stream, as it was after the last call of [`send`](Self::send).
    pub fn stream(&self) -> &Stream {
        &self.stream
    }

    /// Must be called before a data set is taken for a replica, while no changes are sent.
    pub fn expect_data_set(&mut self) {
        self.is_after_data_set = true;
    }

    /// Appends the changes that were made since the last call, as one transaction, followed by the
    /// commands in `after`. O(changed keys and their values).
    ///
    /// # Errors
    /// Fails if the store is damaged or out of memory.
    pub fn send(
        &mut self,
        store: &Store,
        after: &[u8],
        new_id: &dyn Fn() -> [u8; REPLICATION_ID],
    ) -> Result<Sent, Error> {
        let Some(stream) = store.stream()? else {
            return self.restart(store, new_id());
        };
        self.stream = stream;
        if after.is_empty() && !store.has_changes_after(&self.ends)? {
            return Ok(Sent::Nothing);
        }
        let mut needs = Needs::new(self.is_after_data_set);
        let mut ends = self.ends.clone();
        for _ in 0..ROUNDS_MAX {
            let found = store.changes_after(&ends)?;
            if found.length() <= FEW {
                break;
            }
            needs.add(&found);
            needs.read_early(store)?;
            ends = found.ends;
        }
        let (late, found) =
            store.changes_until_now(&ends, |reader, changes| needs.read_late(reader, changes))?;
        needs.merge(late);
        if self.is_after_data_set && needs.has_swaps() {
            // The data set of a replica can be of a moment before or after the swap.
            return self.restart(store, new_id());
        }
        let mut bytes = encode(store, needs)?;
        bytes.extend_from_slice(after);
        store.append_to_stream(&bytes, &found.ends)?;
        self.ends = found.ends;
        self.is_after_data_set = false;
        self.stream.end += bytes.len() as u64;
        Ok(Sent::Changes)
    }

    /// Begins another stream.
    fn restart(&mut self, store: &Store, id: [u8; REPLICATION_ID]) -> Result<Sent, Error> {
        self.stream = begin(store, id)?;
        self.ends = store.log_starts()?;
        Ok(Sent::Restarted)
    }
}

/// Returns the commands for all changes.
fn encode(store: &Store, mut needs: Needs) -> Result<Vec<u8>, Error> {
    let mut commands = Commands::default();
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
    if needs.operations.contains(&Operation::Libraries) {
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
    Ok(commands.into_transaction())
}

fn gone(error: io::Error) -> Error {
    Error::Name(format!("the file of the store cannot be found: {error}").into())
}

/// Begins a stream whose offsets are greater than those of all earlier streams, so that an offset of
/// one stream never is one of another.
fn begin(store: &Store, id: [u8; REPLICATION_ID]) -> Result<Stream, Error> {
    let end = store.last_offset()? + 1;
    let stream = Stream {
        id,
        earlier: None,
        file: store.inode().map_err(gone)?,
        start: end,
        end,
    };
    store.begin_stream(&stream)?;
    Ok(stream)
}
