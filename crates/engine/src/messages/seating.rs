//! A seat with its descriptor: where a subscriber, or a thread whose clients
//! wait, is woken.
//!
//! The seat is taken when it is first needed, and in a forked child anew: the
//! copy that the child has of its parent's is none of the child's.

use std::os::fd::{AsFd, BorrowedFd};

use undercroft_memory::{self as memory, Bell, Seat, SeatName, Segment};

use crate::error::Error;

/// A seat that is taken when it is needed.
#[derive(Default)]
pub(crate) struct Seating {
    seat: Option<Seat>,
    bell: Option<Bell>,
}

impl Seating {
    /// The seat, taken where this process has none yet, and whether it is new.
    ///
    /// # Errors
    /// A read-only store, or 512 seats in use in this process.
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
        // The socket's name and the seat's bits are those of the process that
        // forked.
        drop((self.bell.take(), self.seat.replace(seat)));
        Ok(name)
    }

    /// The seat, where this process has one.
    #[inline]
    pub(crate) fn name(&self, segment: &Segment) -> Option<SeatName> {
        let seat = self.seat.as_ref();
        let mine = seat.filter(|seat| segment.is_seated(seat));
        mine.map(Seat::name)
    }

    /// A descriptor that becomes readable when the [taken](Self::take) seat is
    /// woken, and ten times a second besides.
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

    /// Sees to it that the next wake makes the descriptor readable, where there
    /// is one. `rung` says that it was readable. Returns whether the caller must
    /// look once more for what it waits for.
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

    /// Until it is armed again, wakes do not make the descriptor readable.
    pub(crate) fn disarm(&self, segment: &Segment) {
        if let (Some(seat), Some(_)) = (&self.seat, &self.bell) {
            segment.disarm_seat(seat);
        }
    }

    /// Gives the seat back, unless it is that of a process that forked.
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
