//! Channels: bounded message queues between processes. Only `lib.rs` uses this module.
//!
//! A channel keeps its messages in a list. Producers push to one end and consumers pop from the
//! other, each in a transaction that checks the length of the list and whether the channel is
//! closed, which a separate key marks. A client that finds the channel full or empty waits for the
//! list to change ([`Look`]) and retries, so no message is ever handed to a client that may be
//! dead.
//!
//! A consumer can receive a message and *hold* it. The receiving transaction moves the message to a
//! list of the consumer's held messages, and adds the consumer to a sorted set. After processing
//! the message, the consumer deletes it. If the consumer dies, another process
//! [returns](Store::recall) its held messages to the channel. A consumer that uses the store
//! directly is identified by one of its process's seats (futex slots in the store), so that every
//! process can check whether it is alive. A consumer that is a client of a server is identified by
//! a number, and counts as alive until the time stored with that number.
//!
//! - `hold`: messages that a consumer holds until it has processed them.

mod hold;

use undercroft_memory::{ShardSet, removing};

use crate::error::Error;
use crate::handle::reader::Reader;
use crate::handle::store::Store;
use crate::structures::ranges::Ranges;
use crate::transaction::writer::Expiry;
use crate::types::list::End;
use crate::waiting::{Look, Looked};

/// A channel's keys, which all map to the same Redis Cluster slot.
#[derive(Clone, Debug)]
pub struct Channel {
    /// The key of the message list.
    items: Vec<u8>,
    /// The key of a string that exists once the channel is closed.
    closed: Vec<u8>,
    /// The key of the sorted set of consumers that may hold messages.
    consumers: Vec<u8>,
    /// The prefix of the keys of held messages. The consumer's name follows the prefix.
    held: Vec<u8>,
    /// The prefix of the keys of objects that messages name. The object's id follows the prefix.
    objects: Vec<u8>,
    /// The key of a list through which clients of servers are woken.
    wake: Vec<u8>,
}

/// The result of sending messages to a channel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sent {
    /// The number of messages that were added, at least 1. Any remaining messages did not fit.
    Some(usize),
    /// No message was added, because the channel is full.
    Full,
    /// No message was added, because the channel is closed.
    Closed,
}

/// The result of receiving messages from a channel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Received {
    /// At least one message was received.
    Some,
    /// No message was received, because the channel is empty.
    Empty,
    /// No message was received and none will arrive, because the channel is closed and empty.
    Closed,
    /// No message was received, because the caller did not accept the message at this index,
    /// counted from 0.
    Refused(usize),
}

/// The reason a channel transaction is rolled back.
enum RollbackReason {
    Full,
    Refused(usize),
    Failed(Error),
}

impl From<Error> for RollbackReason {
    fn from(error: Error) -> RollbackReason {
        RollbackReason::Failed(error)
    }
}

impl Channel {
    /// Returns the channel with the given name.
    pub fn new(name: &[u8]) -> Channel {
        let items = [b"undercroft:channel:{", name, b"}"].concat();
        let with = |what: &[u8]| [&items, what].concat();
        Channel {
            closed: with(b":closed"),
            consumers: with(b":consumers"),
            held: with(b":held:"),
            objects: with(b":object:"),
            wake: with(b":wake"),
            items,
        }
    }

    /// Returns the keys that a waiting client watches (see [`Look`]): the list of messages, and the
    /// key that marks the channel as closed.
    pub fn looked_at(&self) -> [&[u8]; 2] {
        [&self.items, &self.closed]
    }

    /// Returns the prefix of the keys of objects that messages name.
    pub fn object_prefix(&self) -> &[u8] {
        &self.objects
    }
}

impl Store {
    /// Adds messages to a channel, in order, until the channel contains `most` messages.
    /// O(messages).
    ///
    /// # Errors
    /// Returns the errors of [`write`](Self::write), for example if the store is out of memory.
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
                // Push before checking the length, which saves a lookup. If the channel turns out
                // to be full, which is rare, the push is rolled back.
                let length = writer.list_push(database, &items, End::Right, values, false)?;
                return match length <= most {
                    true => Ok(Sent::Some(1)),
                    false => Err(RollbackReason::Full),
                };
            }
            let length = writer.list_length(database, &items)?;
            let room = usize::try_from(most.saturating_sub(length)).unwrap_or(usize::MAX);
            let count = values.len().min(room);
            if count == 0 {
                return Err(RollbackReason::Full);
            }
            writer.list_push(database, &items, End::Right, &values[..count], false)?;
            Ok(Sent::Some(count))
        });
        match sent {
            Ok(sent) => {
                self.touch_written(&items);
                Ok(sent)
            }
            Err(RollbackReason::Failed(error)) => self.closed_or(database, channel, error),
            Err(_) => Ok(Sent::Full),
        }
    }

    /// Returns `Sent::Closed` if a `send` failed because the store is full and the channel is
    /// closed, and otherwise `error`.
    #[cold]
    fn closed_or(&self, database: usize, channel: &Channel, error: Error) -> Result<Sent, Error> {
        let is_full = error.is_out_of_memory() || matches!(error, Error::MaxMemory);
        match is_full && self.exists(database, &[&channel.closed])? > 0 {
            true => Ok(Sent::Closed),
            false => Err(error),
        }
    }

    /// Removes up to `count` messages from a channel and fills `out` with them. If `accepts`
    /// rejects a message, all messages stay in the channel. O(messages).
    ///
    /// # Errors
    /// Returns the errors of [`write`](Self::write).
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
                Some(refused) => Err(RollbackReason::Refused(refused)),
                None => Ok(()),
            }
        });
        match received {
            Ok(()) if !out.is_empty() => {
                self.touch_written(&items);
                Ok(Received::Some)
            }
            Ok(()) => self.nothing_there(database, channel),
            Err(RollbackReason::Failed(error)) => Err(error),
            Err(RollbackReason::Refused(refused)) => Ok(Received::Refused(refused)),
            Err(RollbackReason::Full) => Ok(Received::Empty),
        }
    }

    /// Closes a channel for all processes and wakes all clients that are waiting for a message or
    /// for room. O(1).
    ///
    /// Closing succeeds even if the store is full, as removals do. Consumers receive the remaining
    /// messages before they learn that the channel is closed.
    ///
    /// # Errors
    /// Returns the errors of [`write`](Self::write).
    pub fn close_channel(&self, database: usize, channel: &Channel) -> Result<(), Error> {
        let closed = self.key(&channel.closed);
        let _removing = removing();
        self.write(ShardSet::one(closed.shard), |writer| {
            writer.set(database, &closed, b"1", Expiry::Never)
        })?;
        self.touch_written(&closed);
        Ok(())
    }

    /// Returns the number of messages in a channel, without held messages. O(1).
    ///
    /// # Errors
    /// Returns the errors of [`read`](Self::read).
    pub fn channel_length(&self, database: usize, channel: &Channel) -> Result<u64, Error> {
        self.list_length(database, &channel.items)
    }

    /// Returns whether a channel is closed. O(1).
    ///
    /// # Errors
    /// Returns the errors of [`read`](Self::read).
    pub fn is_channel_closed(&self, database: usize, channel: &Channel) -> Result<bool, Error> {
        Ok(self.exists(database, &[&channel.closed])? > 0)
    }

    /// Returns `Received::Closed` or `Received::Empty`, depending on whether the channel is closed.
    fn nothing_there(&self, database: usize, channel: &Channel) -> Result<Received, Error> {
        Ok(match self.look_at_channel(database, channel, Look::Item)? {
            Looked::Closed => Received::Closed,
            Looked::Nothing | Looked::Something => Received::Empty,
        })
    }

    /// Like [`look_at_channel`](Self::look_at_channel), but never waits for a lock. Returns
    /// `Nothing` if the channel cannot be read now; the caller must then check again soon.
    pub fn glance_at_channel(&self, database: usize, channel: &Channel, look: Look) -> Looked {
        let keys = channel.looked_at();
        let hashed = keys.map(|key| self.key(key));
        let found = self.segment.try_read(self.shards_of(&hashed), |view| {
            Reader { store: self, view }.look(database, &keys, look)
        });
        found.and_then(Result::ok).unwrap_or(Looked::Nothing)
    }

    /// Returns whether a channel meets the condition `look` (it has a message, or room for one),
    /// and whether the channel is closed. O(1).
    ///
    /// # Errors
    /// Returns the errors of [`read`](Self::read).
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
