//! Lists the slow functions that are running in this process, for FUNCTION STATS.

use std::time::{Duration, Instant};

use undercroft_engine::{ForkGuard, ForkMutex};

/// A function that is currently running.
#[derive(Clone, Debug)]
pub(crate) struct RunningFunction {
    pub(crate) name: Vec<u8>,
    /// The command that called the function.
    pub(crate) words: Vec<Vec<u8>>,
    started: Instant,
}

impl RunningFunction {
    /// Returns how long the function has been running.
    pub(crate) fn time(&self) -> Duration {
        self.started.elapsed()
    }
}

/// The running functions of all threads, in the order in which they were added.
#[derive(Default)]
pub(crate) struct RunningFunctions(ForkMutex<Vec<(u64, RunningFunction)>>);

impl RunningFunctions {
    fn all(&self) -> ForkGuard<'_, Vec<(u64, RunningFunction)>> {
        self.0.lock()
    }

    /// Adds a running function. Returns a number to pass to [`RunningFunctions::end`] when the
    /// function ends.
    pub(crate) fn add(&self, name: &[u8], words: &[&[u8]], started: Instant) -> u64 {
        let mut all = self.all();
        let number = all.iter().map(|(number, _)| number + 1).max().unwrap_or(0);
        let function = RunningFunction {
            name: name.to_vec(),
            words: words.iter().map(|word| word.to_vec()).collect(),
            started,
        };
        all.push((number, function));
        all.sort_by_key(|(_, function)| function.started);
        number
    }

    /// Removes a function that has ended.
    pub(crate) fn end(&self, number: u64) {
        self.all().retain(|(other, _)| *other != number);
    }

    /// Returns the function that has been running the longest.
    pub(crate) fn first(&self) -> Option<RunningFunction> {
        let all = self.all();
        all.first().map(|(_, function)| function.clone())
    }
}
