//! A seat with its descriptor, on which a subscriber or a thread with waiting clients sleeps until
//! it is woken. A seat is a futex slot in the store.
//!
//! The seat is acquired on first use. A forked child acquires a new seat, because its copy of the
//! seat belongs to the parent.

use std::os::fd::{AsFd, BorrowedFd};

use undercroft_memory::{self as memory, Bell, Seat, SeatName, Segment, TrackerPlace};

use crate::error::Error;

/// A seat that is acquired on first use.
#[derive(Default)]
pub(crate) struct Seating {
    seat: Option<Seat>,
    bell: Option<Bell>,
}

impl Seating {
    /// Returns the seat, and whether the seat is new. Acquires a seat if this process has not done
    /// so yet.
    ///
    /// # Errors
    /// Fails if the store is read-only, or if this process already uses 512 seats.
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
        // Only drop the old seat and bell, because the seat and the name of the bell's socket
        // belong to the parent process.
        drop((self.bell.take(), self.seat.replace(seat)));
        Ok(name)
    }

    /// Returns the seat, if it has been acquired and belongs to this process.
    #[inline]
    pub(crate) fn name(&self, segment: &Segment) -> Option<SeatName> {
        let seat = self.seat.as_ref();
        let mine = seat.filter(|seat| segment.is_seated(seat));
        mine.map(Seat::name)
    }

    /// Returns a descriptor that becomes readable when the [acquired](Self::take) seat is woken,
    /// and also ten times a second.
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

    /// Arms the descriptor, if it exists, so that the next wake makes it readable. `rung` indicates
    /// whether the descriptor was readable. Returns whether the caller must check its condition
    /// once more.
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

    /// Disarms the descriptor, so that wakes do not make it readable until it is armed again.
    pub(crate) fn disarm(&self, segment: &Segment) {
        if let (Some(seat), Some(_)) = (&self.seat, &self.bell) {
            segment.disarm_seat(seat);
        }
    }

    /// Adds the seat to the list of processes that read the changed keys. Returns `None` if the list
    /// is full.
    pub(crate) fn begin_tracking(&self, segment: &Segment) -> Result<Option<TrackerPlace>, Error> {
        match &self.seat {
            Some(seat) => Ok(segment.begin_tracking(seat)?),
            None => Ok(None),
        }
    }

    /// Removes the seat from the list of processes that read the changed keys.
    pub(crate) fn end_tracking(&self, segment: &Segment) {
        if let Some(seat) = self.seat.as_ref().filter(|seat| segment.is_seated(seat)) {
            segment.end_tracking(seat);
        }
    }

    /// Releases the seat, unless it belongs to the parent process.
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
