//! The state of a WAIT or REPLICA.WAIT on a server. The connection rests between two looks, so that it
//! takes no thread while it waits.

use std::time::{Duration, Instant};

use crate::failure::{Blocked, Failure};

/// The pauses between two looks: the first one, and the longest one, up to which they grow.
const PAUSES: (Duration, Duration) = (Duration::from_micros(500), Duration::from_millis(10));

/// A command that waits for replicas, or for changes of the source, and is retried until it ends.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RetriedWait {
    /// When the command gives up, or `None` if it never does.
    deadline: Option<Instant>,
    pause: Duration,
    /// The request for acknowledgements that has not been sent yet.
    pub(crate) request: Option<u64>,
    /// The position of the stream that replicas must acknowledge.
    pub(crate) position: Option<u64>,
}

impl RetriedWait {
    pub(crate) fn new(timeout: Option<Duration>, request: Option<u64>) -> RetriedWait {
        RetriedWait {
            // If the deadline exceeds the range of the clock, the wait never times out.
            deadline: timeout.and_then(|timeout| Instant::now().checked_add(timeout)),
            pause: PAUSES.0,
            request,
            position: None,
        }
    }

    /// Fails with the time until the next look. Succeeds once the deadline has passed.
    pub(crate) fn pause(&mut self) -> Result<(), Failure> {
        let left = self
            .deadline
            .map(|deadline| deadline.saturating_duration_since(Instant::now()));
        if left.is_some_and(|left| left.is_zero()) {
            return Ok(());
        }
        let pause = left.map_or(self.pause, |left| left.min(self.pause));
        self.pause = (2 * self.pause).min(PAUSES.1);
        Err(Failure::Blocked(Blocked::Waits(pause)))
    }
}
