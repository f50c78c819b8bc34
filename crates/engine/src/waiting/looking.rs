//! Clients that look only: whether there is what they wait for.

use super::record::TicketRecord;
use super::{Look, Take};
use crate::error::Error;
use crate::handle::reader::Reader;

/// What a client finds that looks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Found {
    /// Nothing for it.
    Nothing,
    /// An item, or room for one.
    Something,
    /// The second key is there: it is closed.
    Closed,
}

impl Reader<'_, '_> {
    /// What a client finds that looks at a list, and at the key that says that it is closed. One that looks for room
    /// finds nothing but that in a closed list; one that looks for an item finds those that are left.
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
    /// What its owner looks for, if it takes nothing.
    pub(super) fn look(&self) -> Option<Look> {
        match self.take {
            Take::Look(look) => Some(look),
            _ => None,
        }
    }
}
