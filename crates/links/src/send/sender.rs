//! Writes the changes of a store to its stream.

use std::collections::BTreeMap;
use std::io;

use undercroft_engine::changes::Change;
use undercroft_engine::rdb::dump_libraries;
use undercroft_engine::{Error, LogEnds, REPLICATION_ID, Store, Stream};

use super::commands::Commands;
use super::needs::{Need, Needs, Update};

/// The number of changes that are few enough to read their keys at one moment, while other processes
/// may have to wait.
const FEW: usize = 256;
/// The maximum number of rounds that read keys in advance. If other processes change keys faster
/// than they can be read, the keys of the last round are read at one moment, however many there are.
const ROUNDS_MAX: usize = 4;

/// The updates of changed keys, given by their databases and names.
type States = BTreeMap<(usize, Box<[u8]>), Update>;

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
        let (mut early, mut ends) = (States::new(), self.ends.clone());
        let mut all = Vec::new();
        for _ in 0..ROUNDS_MAX {
            let found = store.changes_after(&ends)?;
            let needs = Needs::of(&found.changes, self.is_after_data_set);
            if needs.complete().count() <= FEW {
                break;
            }
            for (database, key) in needs.complete() {
                let shards = store.shards_of([&store.key(key)]);
                let state = store.read(shards, |reader| reader.state(database, key))?;
                early.insert((database, key.into()), Update::Complete(state));
            }
            ends = found.ends;
            all.extend(found.changes);
        }
        let (updates, found) = store.changes_until_now(&ends, |reader, changes| {
            let late = Needs::of(changes, self.is_after_data_set);
            let mut needs = Needs::of(all.iter().chain(changes), self.is_after_data_set);
            needs.0.retain(|name, need| {
                let is_early = matches!(need, Need::Complete) && !late.0.contains_key(name);
                !is_early || needs_swap(&all, changes)
            });
            needs.read(reader)
        })?;
        all.extend(found.changes);
        early.extend(updates);
        let states = early;
        let Some(bytes) = self.encode(store, &all, &states)? else {
            return self.restart(store, new_id());
        };
        store.append_to_stream(&[&bytes, after].concat(), &found.ends)?;
        self.ends = found.ends;
        self.is_after_data_set = false;
        self.stream.end += (bytes.len() + after.len()) as u64;
        Ok(Sent::Changes)
    }

    /// Begins another stream.
    fn restart(&mut self, store: &Store, id: [u8; REPLICATION_ID]) -> Result<Sent, Error> {
        self.stream = begin(store, id)?;
        self.ends = store.log_starts()?;
        Ok(Sent::Restarted)
    }

    /// Returns the commands for changes, given the states of all changed keys, or `None` if they
    /// cannot be sent because a data set may already contain a part of them.
    fn encode(
        &self,
        store: &Store,
        changes: &[Change],
        states: &States,
    ) -> Result<Option<Vec<u8>>, Error> {
        let mut commands = Commands::default();
        // A change to complete databases is logged in all shards.
        for change in changes {
            match change {
                Change::Swapped { shard: 0, .. } if self.is_after_data_set => return Ok(None),
                Change::Swapped {
                    databases,
                    shard: 0,
                } => {
                    let [one, other] = databases.map(|database| database.to_string());
                    commands.select(databases[0]);
                    commands.add(&["SWAPDB", &one, &other]);
                }
                Change::Emptied { database, shard: 0 } => {
                    commands.select(*database);
                    commands.add(&["FLUSHDB"]);
                }
                _ => {}
            }
        }
        if changes.contains(&Change::Libraries) {
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
        for ((database, key), update) in states {
            match update {
                Update::Complete(state) => commands.set(*database, key, state.as_ref()),
                Update::Delta(delta) => commands.update(*database, key, delta),
            }
        }
        Ok(Some(commands.into_transaction()))
    }
}

fn gone(error: io::Error) -> Error {
    Error::Name(format!("the file of the store cannot be found: {error}").into())
}

fn begin(store: &Store, id: [u8; REPLICATION_ID]) -> Result<Stream, Error> {
    let stream = Stream {
        id,
        earlier: None,
        file: store.inode().map_err(gone)?,
        start: 0,
        end: 0,
    };
    store.begin_stream(&stream)?;
    Ok(stream)
}

/// Returns whether databases were swapped.
fn needs_swap(before: &[Change], changes: &[Change]) -> bool {
    let is_swap = |change: &Change| matches!(change, Change::Swapped { .. });
    before.iter().chain(changes).any(is_swap)
}
