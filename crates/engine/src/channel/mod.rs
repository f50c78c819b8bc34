//! Channels: bounded queues of messages between processes. Only `lib.rs` uses it.
//!
//! The messages are a list, at one end of which producers add and at the other end of which consumers take, each in a
//! transaction that looks at the list's length, and at the key that says that the channel is closed. Who finds it full,
//! or empty, waits at the list ([`Look`]) and tries again: nothing is handed to who may be dead.
//!
//! A consumer can take a message and *hold* it: in the same transaction it goes to a list of that consumer, and a
//! sorted set names him. When he is done with it he removes it; when he is dead somebody else [puts
//! back](Store::recall) what he held, to where it came from. A process in this store is named by a seat of its own, so
//! that everybody knows whether it lives; a client of a server by a number, and the time until which it is believed to
//! live.
//!
//! - `hold`: messages that consumers hold.

mod hold;

use undercroft_memory::{ShardSet, removing};

use crate::error::Error;
use crate::handle::reader::Reader;
use crate::handle::store::Store;
use crate::structures::ranges::Ranges;
use crate::transaction::writer::Expiry;
use crate::types::list::End;
use crate::waiting::{Look, Looked};

/// The keys of a channel, all in one slot of a Redis Cluster.
#[derive(Clone, Debug)]
pub struct Channel {
    /// The list of its messages.
    items: Vec<u8>,
    /// A string that is there once it is closed.
    closed: Vec<u8>,
    /// The sorted set of the consumers that may hold messages.
    consumers: Vec<u8>,
    /// What the keys of what they hold begin with.
    held: Vec<u8>,
}

/// What became of messages that were to be added.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sent {
    /// So many of them were added, at least one: there was no room for more.
    Some(usize),
    /// None, as there is no room.
    Full,
    /// None, as it is closed.
    Closed,
}

/// What was received.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Received {
    /// Messages, at least one.
    Some,
    /// None, as there is none now.
    Empty,
    /// None, and there will be none: it is closed.
    Closed,
    /// None: the one with this number, from 0, among the first ones is not accepted.
    Refused(usize),
}

/// Why a transaction of a channel is undone.
enum Undone {
    Full,
    Refused(usize),
    Failed(Error),
}

impl From<Error> for Undone {
    fn from(error: Error) -> Undone {
        Undone::Failed(error)
    }
}

impl Channel {
    /// The channel with a name.
    pub fn new(name: &[u8]) -> Channel {
        let items = [b"undercroft:channel:{", name, b"}"].concat();
        let with = |what: &[u8]| [&items, what].concat();
        Channel {
            closed: with(b":closed"),
            consumers: with(b":consumers"),
            held: with(b":held:"),
            items,
        }
    }

    /// The keys that clients [look](Look) at who wait.
    pub fn looked_at(&self) -> [&[u8]; 2] {
        [&self.items, &self.closed]
    }
}

impl Store {
    /// Adds messages to a channel, in their order, as many as there is room for where it has `most` at most.
    /// O(messages).
    ///
    /// # Errors
    /// Those of a change; no memory.
    ///
    /// ```
    /// # use undercroft_engine::{Options, Ranges, Store};
    /// # use undercroft_engine::channels::{Channel, Received, Sent};
    /// # let directory = tempfile::tempdir_in("/dev/shm").unwrap();
    /// # let path = directory.path().join("store");
    /// let store = Store::open_or_create(&path, &Options::default())?;
    /// let jobs = Channel::new(b"jobs");
    /// assert_eq!(store.send(0, &jobs, 2, &[b"one", b"two", b"three"])?, Sent::Some(2));
    /// assert_eq!(store.send(0, &jobs, 2, &[b"three"])?, Sent::Full);
    /// let mut out = Ranges::new();
    /// assert_eq!(store.receive(0, &jobs, 1, &|_| true, &mut out)?, Received::Some);
    /// assert_eq!(out.get(0), b"one");
    /// # Ok::<(), undercroft_engine::Error>(())
    /// ```
    pub fn send(
        &self,
        database: usize,
        channel: &Channel,
        most: u64,
        values: &[&[u8]],
    ) -> Result<Sent, Error> {
        let (items, closed) = (self.key(&channel.items), self.key(&channel.closed));
        if let Err(error) = self.check_memory_for(values.iter().map(|value| value.len()).sum()) {
            return self.closed_or(database, channel, error);
        }
        let sent = self.write(self.shards_of([&items, &closed]), |writer| {
            if writer.find(database, &closed)?.is_some() {
                return Ok(Sent::Closed);
            }
            if let [_] = values {
                // Looked up once: one too many is rare, and undone.
                let length = writer.list_push(database, &items, End::Right, values, false)?;
                return match length <= most {
                    true => Ok(Sent::Some(1)),
                    false => Err(Undone::Full),
                };
            }
            let length = writer.list_length(database, &items)?;
            let room = usize::try_from(most.saturating_sub(length)).unwrap_or(usize::MAX);
            let count = values.len().min(room);
            if count == 0 {
                return Err(Undone::Full);
            }
            writer.list_push(database, &items, End::Right, &values[..count], false)?;
            Ok(Sent::Some(count))
        });
        match sent {
            Ok(sent) => {
                self.touch_written(&items);
                Ok(sent)
            }
            Err(Undone::Failed(error)) => self.closed_or(database, channel, error),
            Err(_) => Ok(Sent::Full),
        }
    }

    /// The outcome of a `send` that failed: on a closed channel, an error for lack of memory is that it is closed.
    #[cold]
    fn closed_or(&self, database: usize, channel: &Channel, error: Error) -> Result<Sent, Error> {
        let is_full = error.is_out_of_memory() || matches!(error, Error::MaxMemory);
        match is_full && self.exists(database, &[&channel.closed])? > 0 {
            true => Ok(Sent::Closed),
            false => Err(error),
        }
    }

    /// Takes up to so many messages out of a channel, and fills `out` with them. Where one of them is not accepted,
    /// which is told by its bytes, all stay where they are. O(messages).
    ///
    /// # Errors
    /// Those of a change.
    pub fn receive(
        &self,
        database: usize,
        channel: &Channel,
        count: u64,
        accepts: &(impl Fn(&[u8]) -> bool + Sync),
        out: &mut Ranges,
    ) -> Result<Received, Error> {
        let items = self.key(&channel.items);
        let _removing = removing();
        let received = self.write_into(ShardSet::one(items.shard), out, |writer, out| {
            writer.list_pop(database, &items, End::Left, count, out)?;
            match out.iter().position(|item| !accepts(item)) {
                Some(refused) => Err(Undone::Refused(refused)),
                None => Ok(()),
            }
        });
        match received {
            Ok(()) if !out.is_empty() => {
                self.touch_written(&items);
                Ok(Received::Some)
            }
            Ok(()) => self.nothing_there(database, channel),
            Err(Undone::Failed(error)) => Err(error),
            Err(Undone::Refused(refused)) => Ok(Received::Refused(refused)),
            Err(Undone::Full) => Ok(Received::Empty),
        }
    }

    /// Closes a channel for all processes: clients that wait at it look again. O(1).
    ///
    /// It succeeds in a full store, as removals do: consumers take what is left and then learn that it is the end.
    ///
    /// # Errors
    /// Those of a change.
    pub fn close_channel(&self, database: usize, channel: &Channel) -> Result<(), Error> {
        let closed = self.key(&channel.closed);
        let _removing = removing();
        self.write(ShardSet::one(closed.shard), |writer| {
            writer.set(database, &closed, b"1", Expiry::Never)
        })?;
        self.touch_written(&closed);
        Ok(())
    }

    /// Why nothing was received.
    fn nothing_there(&self, database: usize, channel: &Channel) -> Result<Received, Error> {
        Ok(match self.look_at_channel(database, channel, Look::Item)? {
            Looked::Closed => Received::Closed,
            Looked::Nothing | Looked::Something => Received::Empty,
        })
    }

    /// [`look_at_channel`](Self::look_at_channel) without waiting for anybody: nothing, too, where that cannot be told
    /// now. For who looks again in a moment.
    pub fn glance_at_channel(&self, database: usize, channel: &Channel, look: Look) -> Looked {
        let keys = channel.looked_at();
        let hashed = keys.map(|key| self.key(key));
        let found = self.segment.try_read(self.shards_of(&hashed), |view| {
            Reader { store: self, view }.look(database, &keys, look)
        });
        found.and_then(Result::ok).unwrap_or(Looked::Nothing)
    }

    /// Whether a channel has what a client looks for. O(1).
    ///
    /// # Errors
    /// Those of a read.
    pub fn look_at_channel(
        &self,
        database: usize,
        channel: &Channel,
        look: Look,
    ) -> Result<Looked, Error> {
        let keys = channel.looked_at();
        let hashed = keys.map(|key| self.key(key));
        self.read(self.shards_of(&hashed), |reader| {
            reader.look(database, &keys, look)
        })
    }
}
