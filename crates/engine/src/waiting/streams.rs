//! What streams have for those who wait: entries behind an id, which all of them are given; and the next entries of a
//! group, which the first of them is given. Nothing is taken away by it: what is given to a client that dies is pending, as
//! it is in Redis.

use super::table::Offer;
use super::{Answer, Take, Taken, Wanted};
use crate::error::Error;
use crate::store::Reader;
use crate::transaction::writer::Writer;
use crate::types::registry::ValueType;
use crate::types::stream::{IdRange, StreamEntries, StreamId};

impl Wanted<'_> {
    /// The id behind which entries of a key are wanted.
    fn behind(&self, key: &[u8]) -> StreamId {
        let (keys, ids) = self.keys.split_at(self.keys.len() / 2);
        let place = keys.iter().position(|other| *other == key);
        place
            .and_then(|place| StreamId::from_bytes(ids.get(place)?))
            .unwrap_or(StreamId::MAX)
    }

    /// The group and the consumer.
    fn names(&self) -> (&[u8], &[u8]) {
        match self.keys {
            [.., group, consumer] => (group, consumer),
            _ => Default::default(),
        }
    }
}

impl Reader<'_, '_> {
    /// Whether a stream has something for a client.
    pub(super) fn has_entries(&self, wanted: &Wanted<'_>, key: &[u8]) -> Result<bool, Error> {
        let is_of_group = matches!(wanted.take, Take::Deliver { .. });
        let stream = match self.stream(wanted.database, &self.key(key)) {
            Ok(Some(stream)) => stream,
            // A client that waits with a group is told.
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
        let last = stream.edge(self.view(), true)?;
        Ok(last.is_some_and(|last| last > behind))
    }
}

impl Writer<'_, '_> {
    /// Gives a client what a stream has for it.
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
