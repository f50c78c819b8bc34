//! Messages that a consumer holds until it has processed them.

use undercroft_memory::{SeatName, removing};

use super::{Channel, Received, RollbackReason};
use crate::error::Error;
use crate::handle::store::Store;
use crate::structures::ranges::Ranges;
use crate::types::limits::PackedLimits;
use crate::types::list::End;
use crate::types::sorted::{AddRule, Scored};

/// The number of messages that one transaction deletes.
const DELETED_AT_ONCE: u64 = 1000;

/// Returns a consumer's name in the store: `@`, followed by the name of one of its process's seats
/// (futex slots in the store) as 16 hexadecimal digits.
fn name_of(seat: SeatName) -> Vec<u8> {
    format!("@{:016x}", seat.bits()).into_bytes()
}

/// Returns the seat (a process's futex slot) that a consumer's name contains, or `None` for a
/// consumer that is a client of a server.
fn seat_of(name: &[u8]) -> Option<SeatName> {
    let digits = name
        .strip_prefix(b"@")
        .filter(|digits| digits.len() == 16)?;
    let digits = std::str::from_utf8(digits).ok()?;
    u64::from_str_radix(digits, 16)
        .ok()
        .map(SeatName::from_bits)
}

impl Channel {
    /// Returns the key of the list that stores a consumer's held messages.
    fn held_by(&self, consumer: &[u8]) -> Vec<u8> {
        [&self.held, consumer].concat()
    }
}

impl Store {
    /// Removes up to `count` messages from a channel like [`receive`](Self::receive), and records
    /// that this process holds them under the returned consumer name. If the process dies,
    /// [`recall`](Self::recall) returns the messages to the channel. O(messages).
    ///
    /// # Errors
    /// Returns the errors of [`write`](Self::write).
    ///
    /// ```
    /// # use undercroft_engine::{Options, Ranges, Store};
    /// # use undercroft_engine::channels::{Channel, Received, Sent};
    /// # let directory = tempfile::tempdir_in("/dev/shm").unwrap();
    /// # let path = directory.path().join("store");
    /// let store = Store::open_or_create(&path, &Options::default())?;
    /// let jobs = Channel::new(b"jobs");
    /// store.send(0, &jobs, 10, &[b"one"])?;
    /// let mut out = Ranges::new();
    /// let (received, consumer) = store.receive_and_hold(0, &jobs, 1, &|_| true, &mut out)?;
    /// assert_eq!((received, out.get(0)), (Received::Some, &b"one"[..]));
    /// assert!(store.end_hold(0, &jobs, &consumer, b"one", false)?);
    /// assert!(!store.end_hold(0, &jobs, &consumer, b"one", false)?);
    /// # Ok::<(), undercroft_engine::Error>(())
    /// ```
    pub fn receive_and_hold(
        &self,
        database: usize,
        channel: &Channel,
        count: u64,
        accepts: &(impl Fn(&[u8]) -> bool + Sync),
        out: &mut Ranges,
    ) -> Result<(Received, Vec<u8>), Error> {
        let consumer = name_of(self.segment.seat_here(0)?);
        let held = channel.held_by(&consumer);
        let (items, held) = (self.key(&channel.items), self.key(&held));
        let consumers = self.key(&channel.consumers);
        let shards = self.shards_of([&items, &held, &consumers]);
        let _removing = removing();
        let received = self.write_into(shards, out, |writer, out| {
            writer.list_pop(database, &items, End::Left, count, out)?;
            if let Some(refused) = out.iter().position(|item| !accepts(item)) {
                return Err(RollbackReason::Refused(refused));
            }
            if out.is_empty() {
                return Ok(());
            }
            let taken: Vec<&[u8]> = out.iter().collect();
            let length = writer.list_push(database, &held, End::Right, &taken, false)?;
            if length == taken.len() as u64 {
                let known: [(&[u8], f64); 1] = [(&consumer, f64::INFINITY)];
                let (rule, limits) = (AddRule::default(), PackedLimits::SORTED_SET);
                writer.sorted_add(database, &consumers, &known, rule, &limits)?;
            }
            Ok(())
        });
        let received = match received {
            Ok(()) if !out.is_empty() => Received::Some,
            Ok(()) => self.nothing_there(database, channel)?,
            Err(RollbackReason::Failed(error)) => return Err(error),
            Err(RollbackReason::Refused(refused)) => Received::Refused(refused),
            Err(RollbackReason::Full) => Received::Empty,
        };
        Ok((received, consumer))
    }

    /// Ends a consumer's hold on a message. If `goes_back` is true, returns the message to the
    /// front of the channel; otherwise deletes it. Returns false if the consumer no longer held the
    /// message, because another process had recalled it. O(messages that the consumer holds).
    ///
    /// # Errors
    /// Returns the errors of [`write`](Self::write).
    pub fn end_hold(
        &self,
        database: usize,
        channel: &Channel,
        consumer: &[u8],
        item: &[u8],
        goes_back: bool,
    ) -> Result<bool, Error> {
        let held = channel.held_by(consumer);
        let (items, held) = (self.key(&channel.items), self.key(&held));
        let shards = match goes_back {
            true => self.shards_of([&items, &held]),
            false => self.shards_of([&held]),
        };
        let _removing = removing();
        self.write(shards, |writer| {
            let was_held = writer.list_remove(database, &held, 1, item)? > 0;
            if was_held && goes_back {
                writer.list_push(database, &items, End::Left, &[item], false)?;
            }
            Ok(was_held)
        })
    }

    /// Returns the messages held by dead consumers to the front of a channel, in the order in which
    /// each consumer received them. A client of a server counts as dead once its hold has timed
    /// out. Returns the number of recalled messages. O(1) if no consumer has held a message,
    /// otherwise O(consumers + recalled messages).
    ///
    /// # Errors
    /// Returns the errors of [`write`](Self::write).
    pub fn recall(&self, database: usize, channel: &Channel) -> Result<u64, Error> {
        let known = self.known_consumers(database, channel)?;
        let now = self.now() as f64;
        let mut back = 0;
        for (consumer, until) in known.iter() {
            // Check liveness without a lock (W9): a dead process stays dead. An expired hold is
            // checked again under the lock.
            let lives = match seat_of(consumer) {
                Some(seat) => self.segment.seat_lives_now(seat),
                None => until >= now,
            };
            if !lives {
                back += self.put_back_held(database, channel, (consumer, until))?;
            }
        }
        Ok(back)
    }

    /// Deletes all messages of a channel, including held messages, and opens the channel again. Calls
    /// `each` with every message. O(messages).
    ///
    /// # Errors
    /// Returns the errors of [`write`](Self::write). Some messages may remain.
    pub fn delete_channel(
        &self,
        database: usize,
        channel: &Channel,
        mut each: impl FnMut(&[u8]) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let mut lists = vec![channel.items.clone()];
        let known = self.known_consumers(database, channel)?;
        lists.extend(known.iter().map(|(name, _)| channel.held_by(name)));
        let mut items = Ranges::new();
        for list in lists {
            while self.list_pop(database, &list, End::Left, DELETED_AT_ONCE, &mut items)? {
                items.iter().try_for_each(&mut each)?;
                items.clear();
            }
        }
        let keys = [&channel.closed, &channel.consumers, &channel.wake];
        self.delete(database, &keys.map(|key| &key[..])).map(drop)
    }

    /// Returns the consumers that may hold messages of a channel, with the end of their holds.
    fn known_consumers(&self, database: usize, channel: &Channel) -> Result<Scored, Error> {
        let consumers = self.key(&channel.consumers);
        let mut known = Scored::new();
        self.read_into(
            self.shards_of([&consumers]),
            &mut known,
            |reader, known| match reader.sorted_set(database, &consumers)? {
                Some(set) => set.append_all(reader.view(), known),
                None => Ok::<_, Error>(()),
            },
        )?;
        Ok(known)
    }

    fn put_back_held(
        &self,
        database: usize,
        channel: &Channel,
        (consumer, until): (&[u8], f64),
    ) -> Result<u64, Error> {
        let held = channel.held_by(consumer);
        let (items, held) = (self.key(&channel.items), self.key(&held));
        let consumers = self.key(&channel.consumers);
        let _removing = removing();
        self.write(self.shards_of([&items, &held, &consumers]), |writer| {
            let score = match writer.reader().sorted_set(database, &consumers)? {
                Some(set) => set.score(writer.view(), &self.key(consumer))?,
                None => None,
            };
            if score != Some(until) {
                // Another process has already recalled these messages, or the consumer has extended
                // its hold.
                return Ok(0);
            }
            let mut all = Ranges::new();
            writer.list_pop(database, &held, End::Right, u64::MAX, &mut all)?;
            let all: Vec<&[u8]> = all.iter().collect();
            if !all.is_empty() {
                writer.list_push(database, &items, End::Left, &all, false)?;
            }
            writer.sorted_remove(database, &consumers, &[consumer])?;
            Ok::<_, Error>(all.len() as u64)
        })
    }
}
