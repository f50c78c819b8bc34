//! The slow functions that run in this process, for FUNCTION STATS.

use std::time::{Duration, Instant};

use undercroft_engine::{ForkGuard, ForkMutex};

/// A running function.
#[derive(Clone, Debug)]
pub(crate) struct RunningFunction {
    pub(crate) name: Vec<u8>,
    /// The command that called the function.
    pub(crate) words: Vec<Vec<u8>>,
    started: Instant,
}

impl RunningFunction {
    /// How long the function has run.
    pub(crate) fn time(&self) -> Duration {
        self.started.elapsed()
    }
}

/// The running functions of all threads, the longest-running first.
#[derive(Default)]
pub(crate) struct RunningFunctions(ForkMutex<Vec<(u64, RunningFunction)>>);

impl RunningFunctions {
    fn all(&self) -> ForkGuard<'_, Vec<(u64, RunningFunction)>> {
        self.0.lock()
    }

    /// Adds a function. Returns the number by which [`RunningFunctions::end`] removes it.
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

    /// Removes a function.
    pub(crate) fn end(&self, number: u64) {
        self.all().retain(|(other, _)| *other != number);
    }

    /// Returns the function that has run the longest.
    pub(crate) fn first(&self) -> Option<RunningFunction> {
        let all = self.all();
        all.first().map(|(_, function)| function.clone())
    }
}
