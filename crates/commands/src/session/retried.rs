//! The state of a WAIT or REPLICA.WAIT on a server. The connection rests between two looks, so that it
//! takes no thread while it waits.

use std::time::{Duration, Instant};

use crate::arguments::CommandError;
use crate::failure::{Blocked, Failure};

/// The pauses between two looks of REPLICA.WAIT, whose changes are made by any process: the first one,
/// and the longest one, up to which they grow.
const PAUSES: (Duration, Duration) = (Duration::from_micros(500), Duration::from_millis(10));

/// A command that waits for replicas, or for changes of the source, and is retried until it ends.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RetriedWait {
    /// When the command began to wait, which distinguishes it from all others of its connection.
    pub(crate) began: Instant,
    /// When the command gives up, or `None` if it never does.
    deadline: Option<Instant>,
    pause: Duration,
    /// The request for acknowledgements that has not been sent yet.
    pub(crate) request: Option<u64>,
    /// The position of the stream that replicas must acknowledge.
    pub(crate) position: Option<u64>,
    /// Whether CLIENT UNBLOCK ends the wait with an error, or `None` if it does not end it.
    pub(crate) unblocked: Option<bool>,
}

impl RetriedWait {
    pub(crate) fn new(timeout: Option<Duration>, request: Option<u64>) -> RetriedWait {
        let began = Instant::now();
        RetriedWait {
            began,
            // If the deadline exceeds the range of the clock, the wait never times out.
            deadline: timeout.and_then(|timeout| began.checked_add(timeout)),
            pause: PAUSES.0,
            request,
            position: None,
            unblocked: None,
        }
    }

    /// Fails with the time until the deadline: the wait looks again when a replica acknowledges.
    /// Succeeds once the wait has ended.
    pub(crate) fn rest(&self) -> Result<(), Failure> {
        self.look_again(None)
    }

    /// Fails with the time until the next look, which comes without an event. Succeeds once the wait
    /// has ended.
    pub(crate) fn pause(&mut self) -> Result<(), Failure> {
        let pause = self.pause;
        self.pause = (2 * self.pause).min(PAUSES.1);
        self.look_again(Some(pause))
    }

    fn look_again(&self, pause: Option<Duration>) -> Result<(), Failure> {
        match self.unblocked {
            Some(true) => return Err(CommandError::UNBLOCKED.into()),
            Some(false) => return Ok(()),
            None => {}
        }
        let left = self
            .deadline
            .map(|deadline| deadline.saturating_duration_since(Instant::now()));
        if left.is_some_and(|left| left.is_zero()) {
            return Ok(());
        }
        let times = [left, pause].into_iter().flatten();
        Err(Failure::Blocked(Blocked::Waits(times.min())))
    }
}
