//! A seat with its descriptor, at which a subscriber or a thread with waiting clients is woken.
//!
//! The seat is taken when it is first needed. A forked child takes a new seat, because its copy of
//! the seat belongs to the parent.

use std::os::fd::{AsFd, BorrowedFd};

use undercroft_memory::{self as memory, Bell, Seat, SeatName, Segment};

use crate::error::Error;

/// A seat that is taken when it is first needed.
#[derive(Default)]
pub(crate) struct Seating {
    seat: Option<Seat>,
    bell: Option<Bell>,
}

impl Seating {
    /// Returns the seat of this process, and whether the seat is new. Takes a seat if there is none
    /// yet.
    ///
    /// # Errors
    /// Fails if the store is read-only, or if 512 seats are already in use in this process.
    #[inline]
    pub(crate) fn take(&mut self, segment: &Segment) -> Result<(SeatName, bool), Error> {
        match self.name(segment) {
            Some(name) => Ok((name, false)),
            None => Ok((self.take_another(segment)?, true)),
        }
    }

    #[cold]
    fn take_another(&mut self, segment: &Segment) -> Result<SeatName, Error> {
        let seat = segment.take_seat()?;
        let name = seat.name();
        // Only drop the old seat and bell: the seat and the bell's socket name belong to the
        // process that forked.
        drop((self.bell.take(), self.seat.replace(seat)));
        Ok(name)
    }

    /// Returns the seat, if this process has one.
    #[inline]
    pub(crate) fn name(&self, segment: &Segment) -> Option<SeatName> {
        let seat = self.seat.as_ref();
        let mine = seat.filter(|seat| segment.is_seated(seat));
        mine.map(Seat::name)
    }

    /// Returns a descriptor that becomes readable when the [taken](Self::take) seat is woken, and
    /// also ten times a second.
    pub(crate) fn descriptor(&mut self, segment: &Segment) -> Result<BorrowedFd<'_>, Error> {
        if let (None, Some(seat)) = (&self.bell, &self.seat) {
            let bell = segment.bell(seat)?;
            segment.arm_seat(seat);
            self.bell = Some(bell);
        }
        match &self.bell {
            Some(bell) => Ok(bell.as_fd()),
            None => Err(memory::Error::ReadOnly.into()),
        }
    }

    /// Arms the descriptor, if there is one, so that the next wake makes it readable. `rung` says
    /// that it was readable. Returns whether the caller must check once more for what it waits for.
    pub(crate) fn arm(&self, segment: &Segment, rung: bool) -> bool {
        let (Some(seat), Some(bell)) = (&self.seat, &self.bell) else {
            return false;
        };
        if rung {
            bell.clear();
        }
        let armed = segment.is_armed(seat);
        if !armed {
            segment.arm_seat(seat);
        }
        rung || !armed
    }

    /// Disarms the descriptor: until it is armed again, wakes do not make it readable.
    pub(crate) fn disarm(&self, segment: &Segment) {
        if let (Some(seat), Some(_)) = (&self.seat, &self.bell) {
            segment.disarm_seat(seat);
        }
    }

    /// Gives the seat back, unless it belongs to the process that forked.
    pub(crate) fn leave(&mut self, segment: &Segment) {
        let (seat, bell) = (self.seat.take(), self.bell.take());
        let Some(seat) = seat.filter(|seat| segment.is_seated(seat)) else {
            return;
        };
        if let Some(bell) = bell {
            bell.remove();
        }
        segment.leave_seat(&seat);
    }
}
