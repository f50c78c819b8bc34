//! Limits how many refused connections the audit log records, so that a flood of connections does not
//! fill the disk.

use std::sync::{Mutex, PoisonError};

/// The maximum number of refused connections that are recorded in a second.
const RECORDED_MAX: u32 = 100;
const SECOND: i64 = 1_000_000;

/// The refused connections of the current second.
#[derive(Debug, Default)]
pub(crate) struct RefusalRate(Mutex<Current>);

#[derive(Debug, Default)]
struct Current {
    /// When the second began, in Unix microseconds.
    began: i64,
    /// The number of connections that were recorded in the second.
    recorded: u32,
    /// The number of connections that were not recorded since the last one that was.
    omitted: u64,
}

impl RefusalRate {
    /// Counts a refused connection. Returns the number of connections before it that were not
    /// recorded, or `None` if this one must not be recorded either.
    pub(crate) fn count(&self, now: i64) -> Option<u64> {
        // Each change leaves a sound state.
        let mut current = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if !(0..SECOND).contains(&now.saturating_sub(current.began)) {
            (current.began, current.recorded) = (now, 0);
        }
        if current.recorded == RECORDED_MAX {
            current.omitted += 1;
            return None;
        }
        current.recorded += 1;
        Some(std::mem::take(&mut current.omitted))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flood_is_counted_and_not_recorded() {
        let rate = RefusalRate::default();
        let start = 1_800_000_000 * SECOND;
        for number in 0..1000 {
            let expected = (number < i64::from(RECORDED_MAX)).then_some(0);
            assert_eq!(rate.count(start + number), expected);
        }
        let later = start + SECOND;
        assert_eq!(rate.count(later), Some(900));
        assert_eq!(rate.count(later), Some(0));
        // The clock of the machine was set back.
        for _ in 0..RECORDED_MAX {
            assert_eq!(rate.count(start), Some(0));
        }
        assert_eq!(rate.count(start), None);
    }
}
