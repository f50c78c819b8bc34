use std::sync::Arc;
use std::time::Duration;

use undercroft_engine::channels::Received;
use undercroft_engine::{Error, defer_signals, unlimited_patience};

use super::item::{ChannelMessage, NAME_ITEM, refuses, short_item};
use super::link::{ChannelError, ChannelLink, ChannelStore};
use super::waiting::ChannelPatience;
use crate::objects::{FoundObject, ObjectHead, new_object_id};
use crate::open_store::OpenStore;

/// The time after which an object expires if its message is not sent, as when the producer dies.
const UNSENT: Duration = Duration::from_secs(60);

/// A value to send.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub enum ChannelValue<'a> {
    /// Bytes.
    Bytes(&'a [u8]),
    /// Text.
    Text(&'a str),
    /// An array in C order.
    Array {
        /// The data type in numpy's notation, such as `<f8`.
        dtype: &'a str,
        /// The length of each dimension.
        shape: &'a [u64],
        /// The bytes of the items.
        items: &'a [u8],
    },
}

/// A channel of bytes, text and arrays. Long values are objects, which are read in the store.
#[derive(Debug)]
pub struct ValueChannel {
    link: ChannelLink,
    /// How long the object of a message that is not received exists.
    ttl: Option<Duration>,
}

/// A message that a consumer holds until it acknowledges or releases the message.
#[derive(Debug)]
pub(super) struct HeldMessage {
    pub(super) message: ChannelMessage,
    consumer: Vec<u8>,
    item: Vec<u8>,
}

/// Runs a step, because these languages have no runtime lock.
fn attached(run: &mut (dyn FnMut() + Send)) {
    run();
}

impl ValueChannel {
    /// Returns a handle to the channel with a name. A producer waits while the channel has `most`
    /// messages. The objects of messages that no consumer receives are freed after `ttl`.
    pub fn new(name: &[u8], most: u64, ttl: Option<Duration>) -> ValueChannel {
        ValueChannel {
            link: ChannelLink::new(name, most),
            ttl,
        }
    }

    fn object_key(&self, id: &[u8]) -> Vec<u8> {
        [self.link.channel().object_prefix(), id].concat()
    }

    fn at<'a>(&self, open: &'a OpenStore, database: usize) -> ChannelStore<'a> {
        ChannelStore {
            store: &open.store,
            database,
            detached: &attached,
        }
    }

    /// Sends a value, waiting for room. Returns false if the channel is still full after the
    /// timeout. The value must have passed [`ChannelValue::check`]. O(bytes).
    ///
    /// # Errors
    /// [`ChannelError::Closed`] if the channel is closed, and the errors of a write.
    pub fn send(
        &self,
        open: &Arc<OpenStore>,
        database: usize,
        value: ChannelValue<'_>,
        patience: &ChannelPatience,
    ) -> Result<bool, ChannelError> {
        let (bytes, is_text) = match value {
            ChannelValue::Bytes(bytes) => (bytes, false),
            ChannelValue::Text(text) => (text.as_bytes(), true),
            ChannelValue::Array { items, .. } => (items, false),
        };
        let at = self.at(open, database);
        if !matches!(value, ChannelValue::Array { .. })
            && let Some(item) = short_item(bytes, is_text)
        {
            return Ok(self.link.send(at, &[&item], patience)? == 1);
        }
        let Ok((head, buffer)) = value.object() else {
            return Err(Error::TooLong.into());
        };
        self.send_object(open, at, (&head, buffer), patience)
    }

    /// Stores an object that expires soon, sends its id, and then sets the object's expiry.
    fn send_object(
        &self,
        open: &Arc<OpenStore>,
        at: ChannelStore<'_>,
        (head, buffer): (&ObjectHead, &[u8]),
        patience: &ChannelPatience,
    ) -> Result<bool, ChannelError> {
        let id = new_object_id();
        let key = self.object_key(&id);
        let item = [&[NAME_ITEM], &id[..]].concat();
        let store = &open.store;
        let delete = || {
            let _deferred = defer_signals();
            // Otherwise the object expires.
            let _ = store.delete(at.database, &[&key]);
        };
        match open.put_object_at(at.database, &key, head, buffer, Some(UNSENT)) {
            Ok(()) => {}
            Err(error) if error.is_out_of_memory() && self.is_closed(open, at.database)? => {
                return Err(ChannelError::Closed);
            }
            Err(error) => return Err(error.into()),
        }
        loop {
            let (slice, is_last) = patience.slice(UNSENT / 2);
            match self.link.send(at, &[&item], &slice) {
                Ok(1..) => break,
                Ok(0) if is_last => {
                    delete();
                    return Ok(false);
                }
                Ok(0) => {
                    let until = store.now().saturating_add(UNSENT.as_millis() as u64);
                    store.expire_at(at.database, &key, until)?;
                }
                Err(error) => {
                    delete();
                    return Err(error);
                }
            }
        }
        match self.ttl {
            None => store.persist(at.database, &key)?,
            Some(ttl) => {
                let ttl = u64::try_from(ttl.as_millis()).unwrap_or(u64::MAX).max(1);
                let until = store.now().saturating_add(ttl).min(i64::MAX as u64);
                store.expire_at(at.database, &key, until)?
            }
        };
        Ok(true)
    }

    /// Removes and returns the first message, waiting for it. Returns `None` after the timeout.
    /// O(1) for messages of at least 32 KiB, otherwise O(bytes).
    ///
    /// # Errors
    /// [`ChannelError::Closed`] if the channel is closed and empty, and [`ChannelError::Pickle`] if
    /// the first message is a pickle, which stays.
    pub fn receive(
        &self,
        open: &Arc<OpenStore>,
        database: usize,
        patience: &ChannelPatience,
    ) -> Result<Option<ChannelMessage>, ChannelError> {
        let at = self.at(open, database);
        let accepts = |item: &[u8]| item.first() != Some(&NAME_ITEM) && !refuses(item);
        match self.link.take(at, 1, &accepts, patience)? {
            None => return Ok(None),
            Some((Received::Some, items)) => {
                return Ok(Some(ChannelMessage::copied(items.get(0))));
            }
            Some(_) => {}
        }
        // Remove the object of the message only while holding the message, so that it is not lost
        // with this process.
        let Some(held) = self.hold_with(open, database, patience, true)? else {
            return Ok(None);
        };
        self.end(open, database, &held, false)?;
        Ok(Some(held.message))
    }

    /// Receives the first message and holds it until [`end`](Self::end). If the process dies, the
    /// message returns to the channel. Returns `None` after the timeout.
    pub(super) fn hold(
        &self,
        open: &Arc<OpenStore>,
        database: usize,
        patience: &ChannelPatience,
    ) -> Result<Option<HeldMessage>, ChannelError> {
        self.hold_with(open, database, patience, false)
    }

    fn hold_with(
        &self,
        open: &Arc<OpenStore>,
        database: usize,
        patience: &ChannelPatience,
        takes_object: bool,
    ) -> Result<Option<HeldMessage>, ChannelError> {
        let at = self.at(open, database);
        loop {
            let held = self.link.hold(at, &|item| !refuses(item), patience)?;
            let (consumer, item) = match held {
                None => return Ok(None),
                Some((Received::Some, (consumer, items))) => (consumer, items.get(0).to_vec()),
                Some(_) => return Err(ChannelError::Pickle),
            };
            let found = match item.split_first() {
                Some((&NAME_ITEM, id)) => match takes_object {
                    true => open.take_object_at(database, &self.object_key(id)),
                    false => open.get_object_at(database, &self.object_key(id)),
                },
                _ => Ok(FoundObject::Foreign),
            };
            let message = match found {
                Ok(FoundObject::Object(object)) => ChannelMessage::in_place(object),
                Ok(FoundObject::Foreign) => ChannelMessage::copied(&item),
                Ok(FoundObject::Nothing) => {
                    // The object has expired, so skip the message.
                    self.end_hold(open, database, &consumer, &item, false)?;
                    continue;
                }
                Err(error) => {
                    // Return the message, and report the first error.
                    let _ = self.end_hold(open, database, &consumer, &item, true);
                    return Err(error.into());
                }
            };
            return Ok(Some(HeldMessage {
                message,
                consumer,
                item,
            }));
        }
    }

    /// Ends the hold on a message: returns the message to the front of the channel, or deletes it.
    /// Returns false if this process no longer held the message.
    ///
    /// # Errors
    /// Returns the errors of a write.
    pub(super) fn end(
        &self,
        open: &OpenStore,
        database: usize,
        held: &HeldMessage,
        goes_back: bool,
    ) -> Result<bool, Error> {
        self.end_hold(open, database, &held.consumer, &held.item, goes_back)
    }

    fn end_hold(
        &self,
        open: &OpenStore,
        database: usize,
        consumer: &[u8],
        item: &[u8],
        goes_back: bool,
    ) -> Result<bool, Error> {
        let (_deferred, channel) = (defer_signals(), self.link.channel());
        unlimited_patience(|| {
            if let (Some((&NAME_ITEM, id)), false) = (item.split_first(), goes_back) {
                // If this process dies before the next line, consumers skip the message.
                open.store.delete(database, &[&self.object_key(id)])?;
            }
            (open.store).end_hold(database, channel, consumer, item, goes_back)
        })
    }

    /// Returns the number of messages, without held messages. O(1).
    ///
    /// # Errors
    /// Returns the errors of a read.
    pub fn length(&self, open: &OpenStore, database: usize) -> Result<u64, Error> {
        open.store.channel_length(database, self.link.channel())
    }

    /// Closes the channel for all processes.
    ///
    /// # Errors
    /// Returns the errors of a write.
    pub fn close(&self, open: &OpenStore, database: usize) -> Result<(), Error> {
        open.store.close_channel(database, self.link.channel())
    }

    /// Returns whether the channel is closed.
    ///
    /// # Errors
    /// Returns the errors of a read.
    pub fn is_closed(&self, open: &OpenStore, database: usize) -> Result<bool, Error> {
        open.store.is_channel_closed(database, self.link.channel())
    }

    /// Deletes all messages with their objects, and opens the channel again. O(messages).
    ///
    /// # Errors
    /// Returns the errors of a write. Some messages may remain.
    pub fn delete(&self, open: &OpenStore, database: usize) -> Result<(), Error> {
        let channel = self.link.channel();
        open.store
            .delete_channel(database, channel, |item| match item.split_first() {
                Some((&NAME_ITEM, id)) => {
                    let deleted = open.store.delete(database, &[&self.object_key(id)]);
                    deleted.map(drop)
                }
                _ => Ok(()),
            })
    }
}

impl<'a> ChannelValue<'a> {
    /// Checks that the value can be sent.
    ///
    /// # Errors
    /// Returns a description of the problem: an array whose bytes do not match its shape, or a text
    /// of 4 GiB.
    pub fn check(&self) -> Result<(), String> {
        match self {
            ChannelValue::Bytes(_) => Ok(()),
            ChannelValue::Text(text) if text.len() < u32::MAX as usize / 2 => Ok(()),
            _ => self.object().map(drop),
        }
    }

    /// Returns the value's item in a channel on a server, which contains the whole value. O(bytes).
    ///
    /// # Errors
    /// Returns the errors of [`check`](Self::check).
    pub fn item(&self) -> Result<Vec<u8>, String> {
        let short = match *self {
            ChannelValue::Bytes(bytes) => short_item(bytes, false),
            ChannelValue::Text(text) => short_item(text.as_bytes(), true),
            ChannelValue::Array { .. } => None,
        };
        match short {
            Some(item) => Ok(item.into_vec()),
            None => self.object().map(|(head, bytes)| head.whole(bytes)),
        }
    }

    fn object(&self) -> Result<(ObjectHead, &'a [u8]), String> {
        match *self {
            ChannelValue::Bytes(bytes) => Ok((ObjectHead::bytes(), bytes)),
            ChannelValue::Text(text) => Ok((ObjectHead::text(text)?, &[])),
            ChannelValue::Array {
                dtype,
                shape,
                items,
            } => Ok((ObjectHead::array(dtype, shape, items.len())?, items)),
        }
    }
}

impl<'a> From<&'a str> for ChannelValue<'a> {
    fn from(text: &'a str) -> ChannelValue<'a> {
        ChannelValue::Text(text)
    }
}

impl<'a> From<&'a String> for ChannelValue<'a> {
    fn from(text: &'a String) -> ChannelValue<'a> {
        ChannelValue::Text(text)
    }
}

impl<'a> From<&'a [u8]> for ChannelValue<'a> {
    fn from(bytes: &'a [u8]) -> ChannelValue<'a> {
        ChannelValue::Bytes(bytes)
    }
}

impl<'a> From<&'a Vec<u8>> for ChannelValue<'a> {
    fn from(bytes: &'a Vec<u8>) -> ChannelValue<'a> {
        ChannelValue::Bytes(bytes)
    }
}

impl<'a, const N: usize> From<&'a [u8; N]> for ChannelValue<'a> {
    fn from(bytes: &'a [u8; N]) -> ChannelValue<'a> {
        ChannelValue::Bytes(bytes)
    }
}
