//! The state of a follower, for reports.

use std::collections::VecDeque;
use std::time::Instant;

use undercroft_engine::{ForkMutex, LinkStatus, SourceLink};

/// The maximum number of samples of the source's position. With more of them, every other one is
/// removed.
const SAMPLES_MAX: usize = 256;

/// The work that a follower has done, and its last error.
#[derive(Clone, Debug, Default)]
pub struct Progress {
    /// The state of the connection.
    pub status: LinkStatus,
    /// The number of bytes of the source's stream before the last applied change.
    pub offset: u64,
    /// The number of bytes in the source's stream when the source was last asked, or 0.
    pub source_offset: u64,
    /// The last time at which the source is known to have had no change that the store lacks.
    pub current: Option<Instant>,
    /// When the last byte arrived from the source.
    pub heard: Option<Instant>,
    /// The number of keys loaded so far from the data set that is arriving, or of the last one.
    pub loaded_keys: u64,
    /// The number of bytes of the data set that have arrived.
    pub loaded_bytes: u64,
    /// How often the complete data set was loaded.
    pub full_resyncs: u64,
    /// How often a lost connection was continued without loading the data set.
    pub partial_resyncs: u64,
    /// The number of changes that were applied.
    pub changes: u64,
    /// The number of changes whose command failed, so that the store may differ from the source.
    pub failed_changes: u64,
    /// The last error.
    pub error: Option<String>,
}

/// The progress of a follower, which other threads can read.
#[derive(Default)]
pub struct FollowState {
    progress: ForkMutex<Progress>,
    /// Positions of the source that may not be applied yet, in ascending order, and when the source
    /// had them.
    samples: ForkMutex<VecDeque<(Instant, u64)>>,
}

impl FollowState {
    /// Returns the progress.
    pub fn progress(&self) -> Progress {
        self.progress.lock().clone()
    }

    pub(super) fn update(&self, change: impl FnOnce(&mut Progress)) {
        change(&mut self.progress.lock());
    }

    /// Notes a position that the source had at some time.
    pub(super) fn note_source(&self, time: Instant, offset: u64) {
        let mut samples = self.samples.lock();
        if samples.len() >= SAMPLES_MAX {
            let mut index = 0;
            samples.retain(|_| {
                index += 1;
                index % 2 == 0
            });
        }
        samples.push_back((time, offset));
        self.update(|progress| progress.source_offset = offset);
    }

    /// Forgets the positions of the source, because its stream is another one from now on.
    pub(super) fn forget_source(&self) {
        self.samples.lock().clear();
        self.update(|progress| progress.source_offset = 0);
    }

    /// Updates the record of the connection with the progress, as of `now` in Unix milliseconds.
    pub(super) fn fill(&self, link: &mut SourceLink, now: u64) {
        self.settle();
        let progress = self.progress();
        if link.status != progress.status || link.since == 0 {
            (link.status, link.since) = (progress.status, now);
        }
        if let Some(heard) = progress.heard {
            link.heard = now.saturating_sub(heard.elapsed().as_millis() as u64);
        }
        if let Some(current) = progress.current {
            link.current = now.saturating_sub(current.elapsed().as_millis() as u64);
        }
        link.recorded = now;
        link.offset = progress.offset;
        link.source_offset = progress.source_offset;
        link.loaded_bytes = progress.loaded_bytes;
        link.error = progress.error.unwrap_or_default();
    }

    /// Updates the time at which the source had no change that the store lacks.
    pub(super) fn settle(&self) {
        let mut samples = self.samples.lock();
        self.update(|progress| {
            while let Some((time, offset)) = samples.front()
                && *offset <= progress.offset
            {
                progress.current = Some(*time);
                samples.pop_front();
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn store_is_current_as_of_the_last_position_that_it_has() {
        let state = FollowState::default();
        let start = Instant::now();
        let at = |seconds| start + Duration::from_secs(seconds);
        // Far more samples than are kept.
        for number in 1..=1000 {
            state.note_source(at(number), 10 * number);
        }
        let reach = |offset| {
            state.update(|progress| progress.offset = offset);
            state.settle();
            state.progress().current
        };
        assert_eq!(reach(5), None);
        let current = reach(9_905).expect("a sample before");
        assert!(current <= at(990) && current > at(980), "{current:?}");
        assert_eq!(reach(10_000), Some(at(1000)));
        assert_eq!(state.progress().source_offset, 10_000);
        state.forget_source();
        assert_eq!(state.progress().source_offset, 0);
        assert_eq!(reach(20_000), Some(at(1000)));
    }
}
