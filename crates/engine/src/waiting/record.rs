//! The stored record of one waiting client.
//!
//! ```text
//! | seat | state, take, ends, database | count | number of texts | texts |
//! ```
//!
//! The seat is the futex slot on which the client sleeps. Each text is stored as its length in one
//! word, followed by its bytes. While the client waits, the texts are its keys. Once the client is
//! answered, the texts are the key that the items came from, followed by the items. Each member of
//! a sorted set is followed by its score.

use undercroft_memory::{Fault, SeatName, ShardSet, View};

use super::{Answer, Look, Take, Taken, Wanted};
use crate::error::Error;
use crate::handle::store::Store;
use crate::structures::entry::Entry;
use crate::structures::ranges::Ranges;
use crate::structures::roots::DATABASES;
use crate::types::list::End;
use crate::types::string::text::Text;

/// The id of a client's wait, valid until the client has read its answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Ticket(pub(super) u64);

/// The number of bits in a ticket (the id of a wait) that identify the shard of its record.
const SHARD_BITS: u32 = 6;
/// The position in a ticket (the id of a wait) of the two bits that contain the kind of client.
const KIND_SHIFT: u32 = 62;
/// The kinds of clients. A client takes items, waits for an item without taking it, waits for room,
/// or reads with a consumer group. A client of the last kind is also notified when its stream is
/// gone.
pub(super) const TAKES: usize = 0;
pub(super) const FOR_ITEM: usize = 1;
pub(super) const FOR_ROOM: usize = 2;
pub(super) const OF_GROUP: usize = 3;
const NUMBER_MASK: u64 = (1 << KIND_SHIFT) - 1;

impl Ticket {
    pub(super) fn new(shard: usize, number: u64, take: Take) -> Ticket {
        let kind = match take {
            Take::Look(Look::Item) => FOR_ITEM,
            Take::Look(Look::Room(_)) => FOR_ROOM,
            Take::Deliver { .. } => OF_GROUP,
            _ => TAKES,
        };
        Ticket((kind as u64) << KIND_SHIFT | number << SHARD_BITS & NUMBER_MASK | shard as u64)
    }

    /// Returns the kind of the client. The kind is part of the ticket, so the client's record need
    /// not be read.
    pub(super) fn kind(self) -> usize {
        (self.0 >> KIND_SHIFT) as usize
    }

    /// Returns whether the client waits for a condition without removing items.
    pub(super) fn looks(self) -> bool {
        matches!(self.kind(), FOR_ITEM | FOR_ROOM)
    }

    /// Returns the shard of the ticket's record.
    pub(super) fn home(self) -> usize {
        (self.0 & ((1 << SHARD_BITS) - 1)) as usize
    }

    pub(crate) fn from_bytes(bytes: &[u8]) -> Option<Ticket> {
        Some(Ticket(u64::from_le_bytes(bytes.try_into().ok()?)))
    }
}

const WAITING: u8 = 0;
const TAKEN: u8 = 1;
const WRONG_TYPE: u8 = 2;
const TIMED_OUT: u8 = 3;
const UNBLOCKED: u8 = 4;
const READY: u8 = 5;
const NO_GROUP: u8 = 6;
const NO_STREAM: u8 = 7;

/// The decoded record of a waiting client.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct TicketRecord {
    pub(crate) seat: SeatName,
    pub(super) database: usize,
    pub(super) take: Take,
    state: u8,
    texts: Ranges,
}

impl TicketRecord {
    /// Creates the record of a client that begins to wait.
    pub(super) fn new(seat: SeatName, database: usize, take: Take, keys: &[&[u8]]) -> TicketRecord {
        let mut texts = Ranges::new();
        keys.iter().for_each(|key| texts.push(key));
        TicketRecord {
            seat,
            database,
            take,
            state: WAITING,
            texts,
        }
    }

    /// Returns whether the client has no answer yet.
    pub(super) fn waits(&self) -> bool {
        self.state == WAITING
    }

    /// Returns all keys that the record contains.
    pub(super) fn keys(&self) -> Vec<&[u8]> {
        let named = match self.state {
            WAITING | READY => self.take.keys_among(self.texts.len()),
            TAKEN => 1,
            _ => 0,
        };
        self.texts.iter().take(named).collect()
    }

    /// Returns all texts of the record. While the client waits, the texts are its request.
    pub(super) fn texts(&self) -> Vec<&[u8]> {
        self.texts.iter().collect()
    }

    /// Returns the request that the record was created from.
    pub(super) fn wanted<'w>(&self, texts: &'w [&'w [u8]]) -> Wanted<'w> {
        Wanted {
            database: self.database,
            keys: texts,
            take: self.take,
        }
    }

    /// Returns the keys whose queues contain the ticket as long as its client waits, without
    /// duplicates.
    pub(super) fn queued(&self) -> Vec<&[u8]> {
        let mut keys = self.keys();
        if matches!(self.take, Take::Move { .. }) {
            keys.truncate(1);
        }
        once(keys)
    }

    /// Returns the key that the items in this record belong to until the client reads them. Returns
    /// `None` for a moved item, which is already at its destination, and for entries, which remain
    /// in their stream.
    pub(super) fn source(&self) -> Option<&[u8]> {
        let stays = matches!(self.take, Take::Move { .. }) || self.take.is_of_stream();
        let filled = self.state == TAKEN && !stays;
        self.texts.iter().next().filter(|_| filled)
    }

    /// Returns whether two records contain the same request.
    pub(super) fn asks_as(&self, other: &TicketRecord) -> bool {
        (self.database, self.take, self.state) == (other.database, other.take, other.state)
            && self.texts == other.texts
    }

    /// Returns the shards that ending the wait can change, which are the shard of the record and
    /// the shards of its keys. For an answered stream reader, only the shard of the record changes,
    /// because entries remain in their stream.
    pub(super) fn shards(&self, store: &Store, ticket: Ticket) -> ShardSet {
        if !self.waits() && self.take.is_of_stream() {
            return ShardSet::one(ticket.home());
        }
        let keys = self.keys();
        let keys = keys.iter().map(|key| store.key(key).shard());
        keys.chain([ticket.home()]).collect()
    }

    /// Returns a copy of this record with an answer in place of the request.
    pub(super) fn answered(&self, answer: &Answer) -> TicketRecord {
        let mut texts = Ranges::new();
        let state = match answer {
            Answer::Ready => {
                texts.clone_from(&self.texts);
                READY
            }
            Answer::Taken(taken) => {
                texts.push(&taken.key);
                let mut scores = taken.scores.iter();
                for item in taken.items.iter() {
                    texts.push(item);
                    if let Some(score) = scores.next() {
                        texts.push(&score.to_bits().to_le_bytes());
                    }
                }
                TAKEN
            }
            Answer::WrongType => WRONG_TYPE,
            Answer::NoGroup => NO_GROUP,
            Answer::NoStream => NO_STREAM,
            Answer::TimedOut => TIMED_OUT,
            // A removed file is reported only to the client itself, so this answer is never stored.
            Answer::Unblocked | Answer::Removed(_) => UNBLOCKED,
        };
        TicketRecord {
            state,
            texts,
            ..*self
        }
    }

    /// Returns a copy of this record without an owner, which any process may serve.
    pub(super) fn disowned(&self) -> TicketRecord {
        TicketRecord {
            seat: SeatName::NOBODY,
            ..self.clone()
        }
    }

    /// Returns the answer, or `None` if the client is still waiting.
    pub(super) fn answer(&self) -> Option<Answer> {
        Some(match self.state {
            TAKEN => Answer::Taken(self.taken()),
            WRONG_TYPE => Answer::WrongType,
            NO_GROUP => Answer::NoGroup,
            NO_STREAM => Answer::NoStream,
            TIMED_OUT => Answer::TimedOut,
            UNBLOCKED => Answer::Unblocked,
            READY => Answer::Ready,
            _ => return None,
        })
    }

    fn taken(&self) -> Taken {
        let mut taken = Taken::default();
        let mut texts = self.texts.iter();
        taken.key = texts.next().unwrap_or_default().to_vec();
        while let Some(item) = texts.next() {
            taken.items.push(item);
            if matches!(self.take, Take::Scored { .. }) {
                let bits = texts.next().and_then(|bytes| bytes.try_into().ok());
                let bits = bits.map_or(0, u64::from_le_bytes);
                taken.scores.push(f64::from_bits(bits));
            }
        }
        taken
    }

    pub(super) fn encode(&self) -> Vec<u8> {
        let side = |end| u8::from(end == End::Right);
        let (take, from, to, count) = match self.take {
            Take::Items { end, count } => (0, side(end), 0, count),
            Take::Move { from, to } => (1, side(from), side(to), 1),
            Take::Scored { highest, count } => (2, u8::from(highest), 0, count),
            Take::Entries { count } => (5, 0, 0, count),
            Take::Deliver {
                count,
                acknowledged,
            } => (6, u8::from(acknowledged), 0, count),
            Take::Look(Look::Item) => (3, 0, 0, 1),
            Take::Look(Look::Room(most)) => (4, 0, 0, most),
        };
        let what = [self.state, take, from, to, self.database as u8, 0, 0, 0];
        let words = [
            self.seat.bits(),
            u64::from_le_bytes(what),
            count,
            self.texts.len() as u64,
        ];
        let (texts, ends) = self.texts.parts();
        let mut bytes = Vec::with_capacity(size_of_val(&words) + size_of_val(ends) + texts.len());
        for word in words {
            bytes.extend_from_slice(&word.to_le_bytes());
        }
        for text in self.texts.iter() {
            bytes.extend_from_slice(&(text.len() as u64).to_le_bytes());
            bytes.extend_from_slice(text);
        }
        bytes
    }

    /// Changes the owner of an encoded record, to reuse it for another client with the same
    /// request.
    pub(super) fn hand_to(encoded: &mut [u8], seat: SeatName) {
        if let Some(first) = encoded.first_chunk_mut() {
            *first = seat.bits().to_le_bytes();
        }
    }

    fn decode(mut bytes: &[u8]) -> Option<TicketRecord> {
        let mut word = || {
            let (first, rest) = bytes.split_first_chunk::<8>()?;
            bytes = rest;
            Some(u64::from_le_bytes(*first))
        };
        let (seat, what, count, number) = (word()?, word()?, word()?, word()?);
        let [state, take, from, to, database, ..] = what.to_le_bytes();
        let side = |bit| if bit == 0 { End::Left } else { End::Right };
        let take = match take {
            0 => Take::Items {
                end: side(from),
                count,
            },
            1 => Take::Move {
                from: side(from),
                to: side(to),
            },
            2 => Take::Scored {
                highest: from != 0,
                count,
            },
            3 => Take::Look(Look::Item),
            4 => Take::Look(Look::Room(count)),
            5 => Take::Entries { count },
            6 => Take::Deliver {
                count,
                acknowledged: from != 0,
            },
            _ => return None,
        };
        let mut texts = Ranges::new();
        // A record that changes during the read can claim more texts than fit.
        let most = (number as usize).min(bytes.len() / 8);
        texts.reserve(most, bytes.len()).ok()?;
        for _ in 0..number {
            let (length, rest) = bytes.split_first_chunk::<8>()?;
            let length = usize::try_from(u64::from_le_bytes(*length)).ok()?;
            let (text, rest) = rest.split_at_checked(length)?;
            texts.push(text);
            bytes = rest;
        }
        Some(TicketRecord {
            seat: SeatName::from_bits(seat),
            database: Some(usize::from(database)).filter(|&database| database < DATABASES)?,
            take,
            state,
            texts,
        })
    }

    /// Returns whether the client of a record is still waiting, by reading only the record's state.
    pub(super) fn is_waiting(view: &View<'_>, entry: &Entry) -> Result<bool, Error> {
        match entry.text(view)? {
            Text::Bytes(at, 16..) => Ok(view.word(at + 8)?.to_le_bytes()[0] == WAITING),
            _ => Err(TicketRecord::fault(entry)),
        }
    }

    fn fault(entry: &Entry) -> Error {
        Error::from(Fault {
            at: entry.at,
            what: "a valid record of a waiting client",
        })
    }

    /// Reads a record from the store.
    pub(crate) fn load(view: &View<'_>, entry: &Entry) -> Result<TicketRecord, Error> {
        let mut bytes = Vec::new();
        if let Text::Bytes(at, length) = entry.text(view)? {
            view.append_to(at, length, &mut bytes)?;
        }
        TicketRecord::decode(&bytes).ok_or_else(|| TicketRecord::fault(entry))
    }
}

/// Returns the keys without duplicates, in their original order.
pub(super) fn once<'k>(keys: impl IntoIterator<Item = &'k [u8]>) -> Vec<&'k [u8]> {
    let mut keys: Vec<&[u8]> = keys.into_iter().collect();
    if keys.len() > 1 {
        let mut seen = std::collections::HashSet::new();
        keys.retain(|key| seen.insert(*key));
    }
    keys
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn record_decodes_to_what_was_encoded() {
        let seat = SeatName::from_bits(0x1234_0005_0003);
        let takes = [
            Take::Items {
                end: End::Right,
                count: 7,
            },
            Take::Move {
                from: End::Left,
                to: End::Right,
            },
            Take::Scored {
                highest: true,
                count: 2,
            },
            Take::Look(Look::Item),
            Take::Look(Look::Room(10)),
            Take::Entries { count: 3 },
            Take::Deliver {
                count: 7,
                acknowledged: true,
            },
        ];
        for take in takes {
            let keys: [&[u8]; 3] = [b"a", b"", b"a"];
            let record = TicketRecord::new(seat, 15, take, &keys);
            assert_eq!(TicketRecord::decode(&record.encode()), Some(record.clone()));
            assert!(record.waits() && record.answer().is_none());
            let mut items = Ranges::new();
            items.push(b"one");
            items.push(b"");
            let scores = match take {
                Take::Scored { .. } => vec![1.5, f64::NEG_INFINITY],
                _ => Vec::new(),
            };
            let taken = Answer::Taken(Taken {
                key: b"a".to_vec(),
                items,
                scores,
            });
            for answer in [
                taken,
                Answer::WrongType,
                Answer::NoGroup,
                Answer::NoStream,
                Answer::TimedOut,
                Answer::Unblocked,
                Answer::Ready,
            ] {
                let answered = record.answered(&answer);
                let read = TicketRecord::decode(&answered.encode()).expect("a record");
                assert_eq!(read.answer(), Some(answer));
                assert!(!read.waits() && read.seat == seat && read.database == 15);
            }
        }
        let mut whole = TicketRecord::new(seat, 0, takes[0], &[b"key"]).encode();
        let database = 8 + 4;
        whole[database] = DATABASES as u8;
        assert_eq!(TicketRecord::decode(&whole), None);
        whole[database] = 0;
        assert!(TicketRecord::decode(&whole).is_some());
        for length in 0..whole.len() {
            assert_eq!(TicketRecord::decode(&whole[..length]), None);
        }
    }

    #[test]
    fn key_named_twice_is_queued_once() {
        let seat = SeatName::from_bits(0);
        let take = Take::Items {
            end: End::Left,
            count: 1,
        };
        let record = TicketRecord::new(seat, 0, take, &[b"a", b"b", b"a"]);
        assert_eq!(record.queued(), [b"a", b"b"]);
        let take = Take::Move {
            from: End::Left,
            to: End::Left,
        };
        let record = TicketRecord::new(seat, 0, take, &[b"a", b"b"]);
        assert_eq!(record.queued(), [b"a"]);
    }
}
