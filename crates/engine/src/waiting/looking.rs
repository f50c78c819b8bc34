//! Clients that wait without taking anything: checks whether their wait is over.

use super::record::TicketRecord;
use super::{Look, Take};
use crate::error::Error;
use crate::handle::reader::Reader;

/// The result of a check by a client that waits with [`Look`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Found {
    /// The client must keep waiting.
    Nothing,
    /// There is an item, or room for one.
    Something,
    /// The second key exists, which means that the queue is closed.
    Closed,
}

impl Reader<'_, '_> {
    /// Checks a list, and the key whose existence means that the queue is closed. A client that
    /// waits for room sees a closed queue even if there is room. A client that waits for an item
    /// first sees the remaining items.
    pub fn look(&self, database: usize, keys: &[&[u8]], look: Look) -> Result<Found, Error> {
        let Some((list, rest)) = keys.split_first() else {
            return Ok(Found::Nothing);
        };
        let is_closed = || match rest.first() {
            Some(closed) => Ok::<_, Error>(self.find(database, &self.key(closed))?.is_some()),
            None => Ok(false),
        };
        let length = self.list_length(database, &self.key(list))?;
        Ok(match look {
            Look::Item if length > 0 => Found::Something,
            _ if is_closed()? => Found::Closed,
            Look::Room(most) if length < most => Found::Something,
            _ => Found::Nothing,
        })
    }
}

impl TicketRecord {
    /// Returns what the client waits for, if it takes nothing.
    pub(super) fn look(&self) -> Option<Look> {
        match self.take {
            Take::Look(look) => Some(look),
            _ => None,
        }
    }
}
