//! Computes the value of a leased key, and waits for a value that another caller computes.

use std::convert::Infallible;
use std::time::{Duration, Instant};

use crate::caching::Caching;
use crate::computing::inside;
use crate::error::{Error, Result};
use crate::lease::Lease;
use crate::set_options::SetOptions;

/// The first and the longest pause between two checks for a value that another caller is computing.
const FIRST_PAUSE: Duration = Duration::from_millis(1);
const LAST_PAUSE: Duration = Duration::from_millis(50);

/// The reason why a call returns no value.
pub(crate) enum Failed<E> {
    Store(Error),
    Computation(E),
}

impl<E> From<Error> for Failed<E> {
    fn from(error: Error) -> Failed<E> {
        Failed::Store(error)
    }
}

impl<E: From<Error>> Failed<E> {
    pub(crate) fn into_error(self) -> E {
        match self {
            Failed::Store(error) => error.into(),
            Failed::Computation(error) => error,
        }
    }
}

impl Failed<Infallible> {
    pub(crate) fn into_own(self) -> Error {
        match self {
            Failed::Store(error) => error,
            Failed::Computation(never) => match never {},
        }
    }
}

/// Limits how long a caller waits while another caller computes the value.
pub(crate) struct Wait {
    start: Instant,
    most: Duration,
    pause: Duration,
}

impl Wait {
    pub(crate) fn new(caching: &Caching) -> Wait {
        Wait {
            start: Instant::now(),
            most: caching.wait,
            pause: FIRST_PAUSE,
        }
    }

    /// Returns the remaining waiting time, or an error if none remains.
    pub(crate) fn left(&self) -> Result<Duration> {
        match self.most.saturating_sub(self.start.elapsed()) {
            Duration::ZERO => Err(Error::TimedOut(self.most)),
            left => Ok(left),
        }
    }

    /// Returns the pause before the next check for the value.
    pub(crate) fn pause(&mut self) -> Result<Duration> {
        // The pause is random, so that waiting callers do not all check at the same moment.
        let pause = self.pause.mul_f64(0.5 + fastrand::f64() / 2.0);
        self.pause = (self.pause * 2).min(LAST_PAUSE);
        Ok(pause.min(self.left()?))
    }
}

/// Computes the value of a leased key with `compute`, stores it with `store`, and returns it. If
/// another caller stored a value just before the lease was taken, returns that value instead.
pub(crate) fn computed<E>(
    keys: u64,
    mut lease: Lease,
    (caching, reply_polling): (&Caching, f64),
    compute: impl FnOnce() -> std::result::Result<Vec<u8>, E>,
    store: impl FnOnce(Lease, &[u8], SetOptions) -> Result<bool>,
) -> std::result::Result<Vec<u8>, Failed<E>> {
    if let Some(value) = came_first(&mut lease, reply_polling) {
        return Ok(value);
    }
    let begun = Instant::now();
    let value = inside(keys, &lease.key, compute).map_err(Failed::Computation)?;
    let (stored, options) = caching.close(&value, begun.elapsed());
    store(lease, &stored, options)?;
    Ok(value)
}

/// Returns the value that another caller stored just before the lease was taken, unless that value
/// is also due for a refresh.
pub(crate) fn came_first(lease: &mut Lease, reply_polling: f64) -> Option<Vec<u8>> {
    let mut value = lease.value.take()?;
    (!Caching::open(&mut value, reply_polling)).then_some(value)
}
