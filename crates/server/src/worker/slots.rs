//! Stores the connections of one thread, by token.

use crate::connection::state::Connection;

/// The connections of one thread, by token. A token consists of an index and a generation, so that
/// an event for a closed connection never matches a newer connection.
#[derive(Default)]
pub(super) struct Slots {
    slots: Vec<(u32, Option<Box<Connection>>)>,
    free: Vec<u32>,
}

impl Slots {
    pub(super) fn add(&mut self, connection: Connection) -> u64 {
        let place = self.free.pop().unwrap_or_else(|| {
            self.slots.push((0, None));
            (self.slots.len() - 1) as u32
        });
        let slot = &mut self.slots[place as usize];
        slot.1 = Some(Box::new(connection));
        token(place, slot.0)
    }

    #[inline]
    pub(super) fn get(&mut self, token: u64) -> Option<&mut Connection> {
        let (generation, connection) = self.slots.get_mut((token & 0xffff_ffff) as usize)?;
        if u64::from(*generation) != token >> 32 {
            return None;
        }
        connection.as_deref_mut()
    }

    pub(super) fn remove(&mut self, token: u64) -> Option<Box<Connection>> {
        self.get(token)?;
        let place = token as u32;
        let slot = &mut self.slots[place as usize];
        // The mask keeps the tokens of connections below those of wakers and listeners.
        slot.0 = (slot.0 + 1) & 0x7fff_ffff;
        self.free.push(place);
        slot.1.take()
    }

    /// Removes a connection temporarily. Its slot remains reserved.
    pub(super) fn lend(&mut self, token: u64) -> Option<Box<Connection>> {
        self.get(token)?;
        self.slots[token as u32 as usize].1.take()
    }

    pub(super) fn give_back(&mut self, token: u64, connection: Box<Connection>) {
        self.slots[token as u32 as usize].1 = Some(connection);
    }

    pub(super) fn all(&mut self) -> impl Iterator<Item = &mut Connection> {
        self.slots
            .iter_mut()
            .filter_map(|slot| slot.1.as_deref_mut())
    }

    /// Returns the tokens of the connections for which `is_meant` returns true.
    pub(super) fn tokens(&mut self, mut is_meant: impl FnMut(&mut Connection) -> bool) -> Vec<u64> {
        let slots = self.slots.iter_mut().enumerate();
        slots
            .filter_map(|(place, (generation, connection))| {
                let meant = is_meant(connection.as_deref_mut()?);
                meant.then(|| token(place as u32, *generation))
            })
            .collect()
    }
}

fn token(place: u32, generation: u32) -> u64 {
    u64::from(generation) << 32 | u64::from(place)
}
