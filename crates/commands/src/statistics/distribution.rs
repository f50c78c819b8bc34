//! Computes cumulative call counts by duration, with the same steps as LATENCY HISTOGRAM.

use hdrhistogram::Histogram;

/// The end of the first step in nanoseconds. Each further step ends at twice the end of the
/// previous step.
const FIRST: u64 = 1024;
/// The end of the last step in nanoseconds. This step contains the longest duration.
const LAST: u64 = (1 << 30) - 1;

/// The latency distribution of one command's calls.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Distribution {
    /// The total number of calls.
    pub calls: u64,
    /// Pairs of a duration in microseconds and the number of calls that took at most that long.
    /// Steps without calls are omitted.
    pub steps: Vec<(u64, u64)>,
}

impl Distribution {
    /// Builds the distribution from a histogram in nanoseconds. As in Redis, a step ends at the
    /// highest value that the histogram cannot distinguish from the step's nominal end.
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

    /// The expected steps were recorded from a real Redis 7.0.15 server.
    #[test]
    fn steps_end_where_redis_ends_them() {
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
