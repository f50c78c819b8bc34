//! How many calls took at most how long, in the steps of LATENCY HISTOGRAM.

use hdrhistogram::Histogram;

/// Where the first step ends, in nanoseconds; each one is twice as long as the one before.
const FIRST: u64 = 1024;
/// Where the last step ends, in which the longest time lies.
const LAST: u64 = (1 << 30) - 1;

/// How many calls of a command took at most how long.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Distribution {
    /// Calls in all.
    pub calls: u64,
    /// Microseconds, and how many calls took at most so long; a step in which none ends is left out.
    pub steps: Vec<(u64, u64)>,
}

impl Distribution {
    /// What these times, in nanoseconds, come to. A step ends where the histogram cannot tell times from its end any
    /// more, as in Redis.
    pub(super) fn of(times: &Histogram<u64>) -> Distribution {
        let mut distribution = Distribution::default();
        let mut end = FIRST;
        for recorded in times.iter_recorded() {
            distribution.calls += recorded.count_at_value();
            while recorded.value_iterated_to() > times.highest_equivalent(end) {
                end *= 2;
            }
            let microseconds = times.highest_equivalent(end).min(LAST) / 1000;
            match distribution.steps.last_mut() {
                Some((last, calls)) if *last == microseconds => *calls = distribution.calls,
                _ => distribution.steps.push((microseconds, distribution.calls)),
            }
        }
        distribution
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::statistics::{LONGEST, histogram};

    /// What a real Redis 7.0.15 shows of such times.
    #[test]
    fn steps_end_where_those_of_redis_do() {
        let mut times = histogram();
        for (nanoseconds, calls) in [
            (1, 1),
            (1024, 1),
            (1100, 2),
            (30_000, 1),
            (33_000, 1),
            (2_000_000, 3),
            (300_000_000, 1),
            (700_000_000, 1),
            (LONGEST, 1),
        ] {
            times.saturating_record_n(nanoseconds, calls);
        }
        let steps = [
            (1, 2),
            (2, 4),
            (33, 6),
            (2113, 9),
            (541_065, 10),
            (1_073_741, 12),
        ];
        let distribution = Distribution::of(&times);
        assert_eq!(
            (distribution.calls, &distribution.steps[..]),
            (12, &steps[..])
        );
        assert_eq!(Distribution::of(&histogram()), Distribution::default());
    }
}
