//! Serves clients that wait for stream entries. Every client that waits for entries after an id
//! receives them. The next entries of a group go to the group's first waiting client. Serving
//! removes nothing from the stream. If a client of a group dies, the entries given to it remain
//! pending, as in Redis.

use std::collections::VecDeque;

use undercroft_memory::{SeatName, ShardSet};

use super::record::{Ticket, TicketRecord};
use super::table::Offer;
use super::{Answer, Take, Taken, Wanted};
use crate::error::Error;
use crate::handle::reader::Reader;
use crate::handle::store::Store;
use crate::transaction::notice::Queue;
use crate::transaction::writer::Writer;
use crate::types::stream::{IdRange, StreamEntries, StreamId};
use crate::types::value_type::ValueType;

/// The maximum number of readers that one transaction answers.
const ANSWERED_AT_ONCE: usize = 16;
/// The number of bytes of answers after which a transaction ends (W9).
const BYTES_AT_ONCE: usize = 32 << 10;

/// A client that waits for entries of a stream independently of other readers, represented by its
/// ticket (the id of its wait) and its record.
pub(super) type StreamReader = (Ticket, TicketRecord);

impl Store {
    /// Gives the readers in a queue the entries of its stream. One transaction answers many
    /// readers, because they wait for the same entries, and wakes them after its commit. Returns
    /// the number of readers that are still waiting. O(readers + bytes given).
    pub(super) fn serve_readers(
        &self,
        queue: Queue,
        readers: &[StreamReader],
        more: &mut VecDeque<Queue>,
    ) -> Result<usize, Error> {
        let served = self.read_marked(ShardSet::one(queue.shard), |reader| {
            let mut has = Vec::with_capacity(readers.len());
            for alike in readers.chunk_by(asks_the_same) {
                let record = &alike[0].1;
                let (texts, keys) = (record.texts(), record.queued());
                let found = match queue.key_among(self, &keys) {
                    Some(key) => reader.has_entries(&record.wanted(&texts), key)?,
                    None => false,
                };
                has.resize(has.len() + alike.len(), found);
            }
            Ok::<_, Error>(has)
        })?;
        let mut waiting = served.iter().filter(|has| !**has).count();
        let served = readers.iter().zip(served).filter(|(_, has)| *has);
        let served: Vec<&StreamReader> = served.map(|(reader, _)| reader).collect();
        let mut left = &served[..];
        while !left.is_empty() {
            let some = &left[..left.len().min(ANSWERED_AT_ONCE)];
            let homes = some.iter().map(|(ticket, _)| ticket.home());
            let first = some
                .chunk_by(|one, next| asks_the_same(one, next))
                .map(|alike| alike[0]);
            let keys = first.flat_map(|(ticket, record)| record.shards(self, *ticket).iter());
            let shards = keys.chain(homes).collect();
            let (done, noticed) =
                self.write_marked(shards, |writer| writer.answer_readers(queue, some))?;
            more.extend(noticed.queues.into_iter().filter(|other| *other != queue));
            self.segment.wake_seats(done.woken.into_iter());
            waiting += done.waiting;
            left = &left[done.seen..];
        }
        Ok(waiting)
    }
}

/// Returns whether two clients request the same entries.
fn asks_the_same((_, one): &StreamReader, (_, next): &StreamReader) -> bool {
    one.asks_as(next)
}

/// The outcome of one transaction that answers readers.
#[derive(Default)]
struct Answered {
    /// The number of readers that the transaction processed.
    seen: usize,
    /// The number of processed readers for which the stream had no entries after all.
    waiting: usize,
    /// The seats (processes' futex slots) of the readers that were answered.
    woken: Vec<SeatName>,
}

impl Wanted<'_> {
    /// Returns the id after which the client wants entries from a key's stream.
    fn behind(&self, key: &[u8]) -> StreamId {
        let (keys, ids) = self.keys.split_at(self.keys.len() / 2);
        let place = keys.iter().position(|other| *other == key);
        place
            .and_then(|place| StreamId::from_bytes(ids.get(place)?))
            .unwrap_or(StreamId::MAX)
    }

    /// Returns the names of the consumer group and the consumer.
    fn names(&self) -> (&[u8], &[u8]) {
        match self.keys {
            [.., group, consumer] => (group, consumer),
            _ => Default::default(),
        }
    }
}

impl Offer {
    /// Returns the encoded record for the client to read, if this offer is an answer. The mailbox
    /// need not be recorded, because entries remain in their stream.
    fn encoded(&self, record: &TicketRecord) -> Option<Vec<u8>> {
        match self {
            Offer::Answer(answer) => Some(record.answered(answer).encode()),
            _ => None,
        }
    }
}

impl Reader<'_, '_> {
    /// Returns whether a stream may have entries for a client. The result is inexact, because an id
    /// that was set explicitly need not belong to an entry. O(1).
    pub(super) fn has_entries(&self, wanted: &Wanted<'_>, key: &[u8]) -> Result<bool, Error> {
        let is_of_group = matches!(wanted.take, Take::Deliver { .. });
        let stream = match self.stream(wanted.database, &self.key(key)) {
            Ok(Some(stream)) => stream,
            // A client that reads with a consumer group must learn that the stream is gone.
            Ok(None) | Err(Error::WrongType) => return Ok(is_of_group),
            Err(error) => return Err(error),
        };
        let behind = if is_of_group {
            match stream.group_last(self.view(), wanted.names().0)? {
                Some(last) => last,
                None => return Ok(true),
            }
        } else {
            wanted.behind(key)
        };
        Ok(stream.length() > 0 && stream.last_id() > behind)
    }
}

impl Writer<'_, '_> {
    /// Answers readers of a stream until the answers reach the size limit. Consecutive readers with
    /// equal requests share one encoded answer.
    fn answer_readers(
        &mut self,
        queue: Queue,
        readers: &[&StreamReader],
    ) -> Result<Answered, Error> {
        let (mut done, mut bytes) = (Answered::default(), 0);
        let mut left = Vec::with_capacity(readers.len());
        for alike in readers.chunk_by(|one, next| asks_the_same(one, next)) {
            let record = &alike[0].1;
            let (texts, keys) = (record.texts(), record.queued());
            let key = queue.key_among(self.store, &keys);
            let mut given = match key {
                Some(key) => self
                    .offer_entries(&record.wanted(&texts), key)?
                    .encoded(record),
                None => None,
            };
            for (ticket, record) in alike {
                if bytes > BYTES_AT_ONCE {
                    self.leave_queue(queue, &left)?;
                    return Ok(done);
                }
                done.seen += 1;
                // The reader may have just ended its wait or been answered.
                if !self.still_waits(*ticket)? {
                    continue;
                }
                let Some(encoded) = &mut given else {
                    done.waiting += 1;
                    continue;
                };
                match keys.len() {
                    1 => left.push(*ticket),
                    _ => self.leave_queues(*ticket, record)?,
                }
                TicketRecord::hand_to(encoded, record.seat);
                self.put_answer(*ticket, record.seat, encoded)?;
                bytes += encoded.len();
                done.woken.push(record.seat);
            }
        }
        self.leave_queue(queue, &left)?;
        Ok(done)
    }

    /// Offers a client the stream entries that it is waiting for.
    pub(super) fn offer_entries(
        &mut self,
        wanted: &Wanted<'_>,
        name: &[u8],
    ) -> Result<Offer, Error> {
        let key = self.store.key(name);
        let database = wanted.database;
        let there = match self.find(database, &key)? {
            None => None,
            Some(entry) => Some(entry.value_type()?),
        };
        match (wanted.take, there) {
            (_, Some(ValueType::Stream)) => {}
            (Take::Deliver { .. }, _) => return Ok(Offer::Answer(Answer::NoStream)),
            (_, None) => return Ok(Offer::Nothing),
            (_, Some(_)) => return Ok(Offer::OtherType),
        }
        let mut entries = StreamEntries::new();
        match wanted.take {
            Take::Deliver {
                count,
                acknowledged,
            } => {
                let (how, names) = ((count, acknowledged), wanted.names());
                if !self.stream_deliver(database, &key, names, how, &mut entries)? {
                    return Ok(Offer::Answer(Answer::NoGroup));
                }
            }
            Take::Entries { count } => {
                let from = wanted.behind(name).next();
                if let (Some(stream), Some(from)) = (self.stream(database, &key)?, from) {
                    let range = IdRange {
                        from,
                        count,
                        ..IdRange::ALL
                    };
                    stream.range(self.view(), range, &mut entries)?;
                }
            }
            _ => {}
        }
        if entries.is_empty() {
            return Ok(Offer::NotYet);
        }
        Ok(Offer::Answer(Answer::Taken(Taken {
            key: name.to_vec(),
            items: entries.to_texts(),
            scores: Vec::new(),
        })))
    }
}
