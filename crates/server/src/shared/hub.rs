//! Distributes messages from the store to the connections of one thread.
//!
//! Each thread is a single subscriber of the store for all its connections. It reads a message from
//! the store's ring once, encodes the message once, and passes it to every subscribed connection.

use std::collections::HashMap;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::sync::Arc;

use undercroft_engine::messages::{Event, Message, Subscriber, Topic};
use undercroft_engine::{Error, Store};
use undercroft_resp::encode;

/// The maximum number of messages to read from the store's ring before connections get their turns.
const MESSAGES_A_ROUND: usize = 4096;

/// A message encoded in RESP2, with the token of the receiving connection.
pub(crate) type EncodedMessage = (u64, Arc<[u8]>);

/// The subscriptions of all of a thread's connections.
pub(crate) struct Hub {
    subscriber: Subscriber<Arc<Store>>,
    /// The tokens of the subscribers to each topic and name, in subscription order.
    routes: HashMap<(Topic, Vec<u8>), Vec<u64>>,
    /// Messages that have been read from the ring and not yet passed to connections.
    outbox: Vec<EncodedMessage>,
    /// Messages for connections that are currently on another thread, and their total size.
    held: HashMap<u64, PendingMessages>,
    /// Subscriptions that could not be removed from the store because a lock was held. The removal
    /// is retried.
    leftovers: Vec<(Topic, Vec<u8>)>,
    /// The number of messages that were overwritten before this thread read them.
    lost: u64,
}

impl Hub {
    pub(crate) fn new(store: Arc<Store>) -> Hub {
        Hub {
            subscriber: Subscriber::new(store),
            routes: HashMap::new(),
            outbox: Vec::new(),
            held: HashMap::new(),
            leftovers: Vec::new(),
            lost: 0,
        }
    }

    /// Returns whether there can be messages for connections.
    pub(crate) fn is_active(&self) -> bool {
        self.subscriber.is_active() || !self.outbox.is_empty()
    }

    /// Returns a descriptor that becomes readable when messages arrive.
    pub(crate) fn descriptor(&mut self) -> Result<OwnedFd, Error> {
        let descriptor: BorrowedFd<'_> = self.subscriber.descriptor()?;
        descriptor
            .try_clone_to_owned()
            .map_err(|error| Error::Name(error.to_string().into()))
    }

    /// Reads messages from the store's ring. Returns whether there can be more. `rung` indicates
    /// whether the descriptor was readable.
    pub(crate) fn collect(&mut self, rung: bool) -> bool {
        self.take_back();
        for _ in 0..MESSAGES_A_ROUND {
            match self.subscriber.try_next_after(rung) {
                Ok(Some(Event::Message(message))) => {
                    post(&self.routes, &mut self.outbox, message);
                }
                Ok(Some(Event::Lost(count))) => self.lost += count,
                Ok(None) => return false,
                // Either a lock is held, or the store is damaged. In the second case, the next
                // command reports the damage.
                Err(_) => return false,
            }
        }
        true
    }

    fn collect_all(&mut self) {
        // 64 rounds read an entire ring of short messages. The limit ends the loop if other clients
        // publish continuously.
        for _ in 0..64 {
            if !self.collect(false) {
                return;
            }
        }
    }

    /// Subscribes a connection to the names to which it is not subscribed yet, or to none of them
    /// if an error occurs. The connection does not receive messages that were published earlier.
    pub(crate) fn subscribe(
        &mut self,
        token: u64,
        topic: Topic,
        names: &[&[u8]],
    ) -> Result<(), Error> {
        self.collect_all();
        self.subscriber.subscribe(topic, names)?;
        for name in names {
            let route = self.routes.entry((topic, name.to_vec())).or_default();
            route.push(token);
        }
        Ok(())
    }

    /// Ends a connection's subscriptions to `names`. Messages that were published earlier are still
    /// delivered.
    pub(crate) fn unsubscribe(&mut self, token: u64, topic: Topic, names: &[&[u8]]) {
        self.collect_all();
        for name in names {
            let key = (topic, name.to_vec());
            if let Some(route) = self.routes.get_mut(&key) {
                route.retain(|other| *other != token);
                if route.is_empty() {
                    self.routes.remove(&key);
                }
                self.leftovers.push(key);
            }
        }
        self.take_back();
    }

    /// Removes ended subscriptions from the store.
    fn take_back(&mut self) {
        while let Some((topic, name)) = self.leftovers.pop() {
            if self.subscriber.unsubscribe(topic, &[&name]).is_err() {
                self.leftovers.push((topic, name));
                return;
            }
        }
    }

    /// Removes and returns all messages for connections that are on this thread.
    pub(crate) fn take(&mut self) -> Vec<EncodedMessage> {
        let mut parcels = std::mem::take(&mut self.outbox);
        if !self.held.is_empty() {
            parcels.retain(|(token, parcel)| match self.held.get_mut(token) {
                None => true,
                Some(held) => {
                    held.keep(parcel);
                    false
                }
            });
        }
        parcels
    }

    /// Starts holding up to `most` bytes of messages for a connection that moves to another thread.
    pub(crate) fn hold(&mut self, token: u64, most: usize) {
        let held = PendingMessages {
            most,
            ..PendingMessages::default()
        };
        self.held.insert(token, held);
    }

    /// Returns whether a connection is on another thread.
    pub(crate) fn holds(&self, token: u64) -> bool {
        self.held.contains_key(&token)
    }

    /// Returns the messages that were held for a connection that has moved back to this thread.
    /// Returns `None` if the messages exceeded the limit or were lost.
    pub(crate) fn release(&mut self, token: u64) -> Option<Vec<Arc<[u8]>>> {
        let held = self.held.remove(&token).unwrap_or_default();
        (!held.lost).then_some(held.parcels)
    }

    /// Removes and returns the pending messages for one connection.
    pub(crate) fn take_for(&mut self, token: u64) -> Vec<Arc<[u8]>> {
        let held = self.held.get_mut(&token).map(PendingMessages::take);
        let mut mine = held.unwrap_or_default();
        self.outbox.retain(|(to, parcel)| {
            if *to == token {
                mine.push(parcel.clone());
            }
            *to != token
        });
        mine
    }

    /// Returns the number of messages lost since the last call. All connections with subscriptions
    /// have missed messages and must be closed.
    pub(crate) fn take_lost(&mut self) -> u64 {
        if self.lost > 0 {
            let routes = self.routes.values().flatten();
            for token in routes {
                if let Some(held) = self.held.get_mut(token) {
                    held.lose();
                }
            }
        }
        std::mem::take(&mut self.lost)
    }
}

/// Messages that are held for a connection on another thread.
#[derive(Default)]
struct PendingMessages {
    parcels: Vec<Arc<[u8]>>,
    bytes: usize,
    most: usize,
    /// Whether messages have been lost.
    lost: bool,
}

impl PendingMessages {
    fn keep(&mut self, parcel: &Arc<[u8]>) {
        if self.lost {
            return;
        }
        self.bytes += parcel.len();
        self.parcels.push(parcel.clone());
        if self.bytes > self.most {
            self.lose();
        }
    }

    fn lose(&mut self) {
        self.lost = true;
        self.parcels = Vec::new();
    }

    fn take(&mut self) -> Vec<Arc<[u8]>> {
        self.bytes = 0;
        std::mem::take(&mut self.parcels)
    }
}

fn post(
    routes: &HashMap<(Topic, Vec<u8>), Vec<u64>>,
    outbox: &mut Vec<EncodedMessage>,
    message: Message<'_>,
) {
    let mut send = |topic: Topic, name: &[u8], parts: &[&[u8]]| {
        let Some(route) = routes.get(&(topic, name.to_vec())) else {
            return;
        };
        let mut out = Vec::new();
        encode::array(&mut out, parts.len());
        parts.iter().for_each(|part| encode::bulk(&mut out, part));
        let parcel: Arc<[u8]> = out.into();
        outbox.extend(route.iter().map(|token| (*token, parcel.clone())));
    };
    let (channel, payload) = (message.channel, message.payload);
    if message.direct {
        let kind: &[u8] = match message.topic {
            Topic::Shard => b"smessage",
            _ => b"message",
        };
        send(message.topic, channel, &[kind, channel, payload]);
    }
    for pattern in message.patterns {
        let parts: [&[u8]; 4] = [b"pmessage", pattern, channel, payload];
        send(Topic::Pattern, pattern, &parts);
    }
}

/// Appends a message in the receiver's protocol version.
pub(crate) fn append(out: &mut Vec<u8>, parcel: &[u8], resp3: bool) {
    let start = out.len();
    out.extend_from_slice(parcel);
    if resp3 {
        // A RESP3 push differs from a RESP2 array only in its first byte.
        out[start] = b'>';
    }
}
