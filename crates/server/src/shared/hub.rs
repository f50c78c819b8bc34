//! Messages on their way from the store to the connections of one thread.
//!
//! Each thread is one subscriber of the store, whatever its connections are subscribed to. It takes a message out of
//! the ring once, encodes it once, and hands it to every connection that it is for.

use std::collections::HashMap;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::sync::Arc;

use undercroft_engine::messages::{Event, Message, Subscriber, Topic};
use undercroft_engine::{Error, Store};
use undercroft_resp::encode;

/// Messages taken out of the ring in one round at most; then connections have their turns.
const MESSAGES_A_ROUND: usize = 4096;

/// A message for one connection, by its token, as RESP2 has it.
pub(crate) type Parcel = (u64, Arc<[u8]>);

/// What the connections of one thread are subscribed to.
pub(crate) struct Hub {
    subscriber: Subscriber<Arc<Store>>,
    /// The connections behind each name, in the order in which they subscribed.
    routes: HashMap<(Topic, Vec<u8>), Vec<u64>>,
    /// Messages that were taken out and not yet handed over.
    outbox: Vec<Parcel>,
    /// What came for connections that are not at hand, and bytes of it.
    held: HashMap<u64, Held>,
    /// Subscriptions to be taken back, once the lock that was held can be had.
    leftovers: Vec<(Topic, Vec<u8>)>,
    /// Messages were overwritten before this thread came to them.
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

    /// Whether there may be something to do.
    pub(crate) fn is_active(&self) -> bool {
        self.subscriber.is_active() || !self.outbox.is_empty()
    }

    /// A descriptor that becomes readable when messages come.
    pub(crate) fn descriptor(&mut self) -> Result<OwnedFd, Error> {
        let descriptor: BorrowedFd<'_> = self.subscriber.descriptor()?;
        descriptor
            .try_clone_to_owned()
            .map_err(|error| Error::Name(error.to_string().into()))
    }

    /// Takes messages out of the ring. Returns whether there may be more. `rung` says that the descriptor was readable.
    pub(crate) fn collect(&mut self, rung: bool) -> bool {
        self.take_back();
        for _ in 0..MESSAGES_A_ROUND {
            match self.subscriber.try_next_after(rung) {
                Ok(Some(Event::Message(message))) => {
                    post(&self.routes, &mut self.outbox, message);
                }
                Ok(Some(Event::Lost(count))) => self.lost += count,
                Ok(None) => return false,
                // A lock that cannot be had now; or damage, of which the next command tells.
                Err(_) => return false,
            }
        }
        true
    }

    fn collect_all(&mut self) {
        // As many rounds as a whole ring of short messages takes, should others publish all the time.
        for _ in 0..64 {
            if !self.collect(false) {
                return;
            }
        }
    }

    /// Subscribes a connection to names that it is not subscribed to; to all or none. What was published before is not
    /// for it.
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

    /// Ends subscriptions of a connection. What was published before still goes to it.
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

    /// Tells the store of subscriptions that ended.
    fn take_back(&mut self) {
        while let Some((topic, name)) = self.leftovers.pop() {
            if self.subscriber.unsubscribe(topic, &[&name]).is_err() {
                self.leftovers.push((topic, name));
                return;
            }
        }
    }

    /// All that waits to be handed over.
    pub(crate) fn take(&mut self) -> Vec<Parcel> {
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

    /// Keeps what comes for a connection that is not at hand, up to so many bytes.
    pub(crate) fn hold(&mut self, token: u64, most: usize) {
        let held = Held {
            most,
            ..Held::default()
        };
        self.held.insert(token, held);
    }

    /// The connection is at hand again: what was kept for it. None where there was too much, or where it has missed
    /// something.
    pub(crate) fn release(&mut self, token: u64) -> Option<Vec<Arc<[u8]>>> {
        let held = self.held.remove(&token).unwrap_or_default();
        (!held.lost).then_some(held.parcels)
    }

    /// Of that, what is for one connection.
    pub(crate) fn take_for(&mut self, token: u64) -> Vec<Arc<[u8]>> {
        let held = self.held.get_mut(&token).map(Held::take);
        let mut mine = held.unwrap_or_default();
        self.outbox.retain(|(to, parcel)| {
            if *to == token {
                mine.push(parcel.clone());
            }
            *to != token
        });
        mine
    }

    /// How many messages were lost since this was asked last: their receivers have missed some, and are to be closed.
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

/// Messages for a connection that is not at hand.
#[derive(Default)]
struct Held {
    parcels: Vec<Arc<[u8]>>,
    bytes: usize,
    most: usize,
    /// Some are missing.
    lost: bool,
}

impl Held {
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
    outbox: &mut Vec<Parcel>,
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

/// Appends a message in the protocol of its receiver.
pub(crate) fn append(out: &mut Vec<u8>, parcel: &[u8], resp3: bool) {
    let start = out.len();
    out.extend_from_slice(parcel);
    if resp3 {
        // A push differs from an array in its first byte only.
        out[start] = b'>';
    }
}
