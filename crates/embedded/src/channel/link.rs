use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use undercroft_engine::channels::{Channel, Received, Sent};
use undercroft_engine::lists::End;
use undercroft_engine::waiting::{Answer, Look, Looked, Take, Wanted};
use undercroft_engine::{
    Error, Ranges, Store, coarse_milliseconds, defer_signals, unlimited_patience,
};

use super::waiting::{ChannelPatience, Eagerness};

/// The interval at which a waiting consumer checks for dead consumers that still hold messages.
const RECALL: Duration = Duration::from_secs(1);
/// A producer that finds the channel full first sleeps until one part in `FREE_PART` of the
/// capacity is free, so that it does not wake for every consumed message. After `LULL` it accepts
/// room for one message, because the consumers may be waiting for the producer and leave the
/// remaining messages unread.
const FREE_PART: u64 = 4;
const LULL: Duration = Duration::from_millis(2);

/// The reason why a channel's call failed.
#[derive(Debug)]
pub enum ChannelError {
    /// The channel is closed and, for a consumer, empty.
    Closed,
    /// The first message is a pickle, which only Python reads. It stays in the channel.
    Pickle,
    /// The store refused the call.
    Failed(Error),
}

impl From<Error> for ChannelError {
    fn from(error: Error) -> ChannelError {
        ChannelError::Failed(error)
    }
}

/// The store of a call, the number of its database, and a function that runs a step without the
/// lock of the language's runtime, if it has one.
#[derive(Clone, Copy)]
pub struct ChannelStore<'a> {
    /// The store.
    pub store: &'a Store,
    /// The number of the database.
    pub database: usize,
    /// Runs a step of up to 50 microseconds.
    pub detached: &'a dyn Fn(&mut (dyn FnMut() + Send)),
}

/// The name of a consumer, and the item that it holds.
pub type HeldItem = (Vec<u8>, Ranges);

/// A client's handle to one channel, which all its threads share.
#[derive(Debug)]
pub struct ChannelLink {
    channel: Channel,
    most: u64,
    /// When this handle last checked for dead consumers, in milliseconds.
    recalled: AtomicU64,
    eagerness: Eagerness,
}

impl ChannelLink {
    /// Returns a handle to the channel with a name, whose producer adds a message only while the
    /// channel has fewer than `most`.
    pub fn new(name: &[u8], most: u64) -> ChannelLink {
        ChannelLink {
            channel: Channel::new(name),
            most,
            recalled: AtomicU64::new(0),
            eagerness: Eagerness::new(),
        }
    }

    /// Returns the channel's keys.
    pub fn channel(&self) -> &Channel {
        &self.channel
    }

    /// Returns the condition that a waiting task checks: room for a message, or an available item.
    pub fn look(&self, for_room: bool) -> Look {
        match for_room {
            true => Look::Room(self.most),
            false => Look::Item,
        }
    }

    /// Waits until an item or room may be available, depending on `look`. Returns false on timeout.
    fn wait(
        &self,
        at: ChannelStore<'_>,
        look: Look,
        longest: Duration,
        patience: &ChannelPatience,
    ) -> Result<bool, Error> {
        let Some(left) = patience.left() else {
            return Ok(false);
        };
        let mut is_there = false;
        (at.detached)(&mut || {
            is_there = self.eagerness.look(|| {
                at.store.glance_at_channel(at.database, &self.channel, look) != Looked::Nothing
            });
        });
        if is_there {
            return Ok(true);
        }
        let wanted = Wanted {
            database: at.database,
            keys: &self.channel.looked_at(),
            take: Take::Look(look),
        };
        let slice = left.min(longest);
        let timeout = (slice < Duration::MAX).then_some(slice);
        match at.store.take_or_wait(&wanted, timeout)? {
            Answer::TimedOut if slice == left => Ok(false),
            _ => Ok(true),
        }
    }

    /// Adds items in order, waiting for room. Returns the number added before the timeout.
    /// O(bytes).
    ///
    /// # Errors
    /// [`ChannelError::Closed`] if no item was added because the channel is closed. Returns the
    /// errors of [`Store::send`].
    pub fn send(
        &self,
        at: ChannelStore<'_>,
        items: &[&[u8]],
        patience: &ChannelPatience,
    ) -> Result<usize, ChannelError> {
        let mut sent = 0;
        // After a timeout, tries once more before returning.
        let mut is_last = false;
        let mut is_first = true;
        while sent < items.len() {
            match (at.store).send(at.database, &self.channel, self.most, &items[sent..])? {
                Sent::Some(count) => {
                    sent += count;
                    is_first = true;
                }
                Sent::Closed if sent > 0 => break,
                Sent::Closed => return Err(ChannelError::Closed),
                Sent::Full if is_last => break,
                Sent::Full => {
                    let (most, longest) = match is_first {
                        true => (self.most - self.most / FREE_PART, LULL),
                        false => (self.most, Duration::MAX),
                    };
                    is_first = false;
                    is_last = !self.wait(at, Look::Room(most), longest, patience)?;
                    if is_last && patience.is_none() {
                        break;
                    }
                }
            }
        }
        Ok(sent)
    }

    /// Calls `receive` until it returns items or refuses one, waiting for the first item. Returns
    /// `None` after the timeout.
    ///
    /// # Errors
    /// [`ChannelError::Closed`] if the channel is closed and empty, and the errors of `receive`.
    pub fn receive<R>(
        &self,
        at: ChannelStore<'_>,
        patience: &ChannelPatience,
        receive: impl Fn() -> Result<(Received, R), Error>,
    ) -> Result<Option<(Received, R)>, ChannelError> {
        let mut is_last = false;
        loop {
            let now = coarse_milliseconds();
            let recalled = self.recalled.load(Ordering::Relaxed);
            if now.wrapping_sub(recalled) >= RECALL.as_millis() as u64 {
                self.recalled.store(now, Ordering::Relaxed);
                at.store.recall(at.database, &self.channel)?;
            }
            match receive()? {
                (Received::Closed, _) => return Err(ChannelError::Closed),
                (Received::Empty, _) if is_last || patience.is_none() => return Ok(None),
                (Received::Empty, _) => {
                    is_last = !self.wait(at, Look::Item, RECALL, patience)?;
                }
                received => return Ok(Some(received)),
            }
        }
    }

    /// Removes one message, or up to `count` messages, waiting for the first.
    ///
    /// # Errors
    /// Returns the errors of [`receive`](Self::receive).
    pub fn take(
        &self,
        at: ChannelStore<'_>,
        count: u64,
        accepts: &(impl Fn(&[u8]) -> bool + Sync),
        patience: &ChannelPatience,
    ) -> Result<Option<(Received, Ranges)>, ChannelError> {
        self.receive(at, patience, || {
            let mut items = Ranges::new();
            let channel = &self.channel;
            let received = (at.store).receive(at.database, channel, count, accepts, &mut items)?;
            Ok((received, items))
        })
    }

    /// Holds one message, waiting for it. Also returns the consumer's name.
    ///
    /// # Errors
    /// Returns the errors of [`receive`](Self::receive).
    pub fn hold(
        &self,
        at: ChannelStore<'_>,
        accepts: &(impl Fn(&[u8]) -> bool + Sync),
        patience: &ChannelPatience,
    ) -> Result<Option<(Received, HeldItem)>, ChannelError> {
        self.receive(at, patience, || {
            let (mut items, channel) = (Ranges::new(), &self.channel);
            let held = (at.store).receive_and_hold(at.database, channel, 1, accepts, &mut items);
            held.map(|(received, consumer)| (received, (consumer, items)))
        })
    }

    /// Puts items back at the front, deferring signals until all items are back.
    ///
    /// # Errors
    /// Returns the errors of a write.
    pub fn put_back(&self, at: ChannelStore<'_>, items: &[&[u8]]) -> Result<(), Error> {
        if items.is_empty() {
            return Ok(());
        }
        let [key, _] = self.channel.looked_at();
        // Push the items in reverse order, because a left push leaves the last item at the front.
        let turned: Vec<&[u8]> = items.iter().rev().copied().collect();
        let _deferred = defer_signals();
        unlimited_patience(|| at.store.list_push(at.database, key, End::Left, &turned)).map(drop)
    }
}
