//! Checks whether the wait is over for clients that wait for a condition without removing items.

use super::record::TicketRecord;
use super::{Look, Take};
use crate::error::Error;
use crate::handle::reader::Reader;

/// The result of checking the condition of a client that waits with [`Look`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Found {
    /// The client must keep waiting.
    Nothing,
    /// The list has an item, or room for an item.
    Something,
    /// The second key exists, which marks the queue as closed.
    Closed,
}

impl Reader<'_, '_> {
    /// Checks a list and a second key, whose existence marks the queue as closed. A client that
    /// waits for room gets `Closed` even if there is room. A client that waits for an item gets
    /// `Something` as long as items remain.
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
    /// Returns the condition that the client waits for, or `None` if the client removes items or
    /// reads entries.
    pub(super) fn look(&self) -> Option<Look> {
        match self.take {
            Take::Look(look) => Some(look),
            _ => None,
        }
    }
}
