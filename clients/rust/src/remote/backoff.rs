//! Computes the pauses between attempts to connect.

use std::time::Duration;

/// The first pause.
const FIRST: Duration = Duration::from_millis(10);
/// The longest pause.
const LONGEST: Duration = Duration::from_secs(1);

/// Exponential backoff with jitter, so that the clients of a restarted server do not all reconnect
/// at the same moment.
#[derive(Default)]
pub(crate) struct Backoff {
    attempts: u32,
}

impl Backoff {
    /// Returns the next pause.
    pub(crate) fn pause(&mut self) -> Duration {
        let longest = FIRST
            .saturating_mul(1 << self.attempts.min(16))
            .min(LONGEST);
        self.attempts += 1;
        longest.mul_f64(0.5 + fastrand::f64() / 2.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_grow_to_a_limit() {
        let mut backoff = Backoff::default();
        assert!(backoff.pause() <= FIRST);
        let pauses: Vec<Duration> = (0..1000).map(|_| backoff.pause()).collect();
        assert!(pauses.iter().all(|pause| *pause <= LONGEST));
        assert!(pauses[900..].iter().all(|pause| *pause >= LONGEST / 2));
    }
}
