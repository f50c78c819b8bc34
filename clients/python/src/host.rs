//! The process that embeds the store, as commands see it.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use undercroft_commands::config::{Config, Parameter, Value};
use undercroft_commands::info::Facts;
use undercroft_commands::session::{ClientInfo, Host, KillFilter, Session, ShutdownOptions};
use undercroft_commands::slowlog::SlowLog;
use undercroft_commands::statistics::Statistics;
use undercroft_engine::{Access, Begun, Error, Topic, Wanted};

/// A process without a server: no connections, a configuration of its own.
pub(crate) struct Embedding {
    config: Config,
    slowlog: SlowLog,
    statistics: Statistics,
    started: i64,
}

impl Embedding {
    pub(crate) fn new() -> Embedding {
        Embedding {
            config: Config::new(),
            slowlog: SlowLog::new(),
            statistics: Statistics::new(1),
            started: microseconds() / 1000,
        }
    }
}

fn microseconds() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |since| {
        i64::try_from(since.as_micros()).unwrap_or(i64::MAX)
    })
}

impl Host for Embedding {
    fn now_microseconds(&self) -> i64 {
        microseconds()
    }

    fn config(&self) -> &Config {
        &self.config
    }

    fn apply(&self, _: &[(&'static Parameter, Value)]) -> Result<(), (&'static Parameter, String)> {
        Ok(())
    }

    fn slowlog(&self) -> &SlowLog {
        &self.slowlog
    }

    fn statistics(&self) -> &Statistics {
        &self.statistics
    }

    fn clients(&self) -> Vec<ClientInfo> {
        Vec::new()
    }

    fn pause(&self, _: i64, _: bool) -> Result<(), String> {
        Err(
            "ERR there are no connections to pause: the store is embedded in this process"
                .to_owned(),
        )
    }

    fn unpause(&self) {}

    fn kill(&self, _: &KillFilter) -> usize {
        0
    }

    fn authenticate(&self, _: &[u8], _: &[u8]) -> bool {
        true
    }

    fn initial_user(&self) -> Option<String> {
        Some("default".to_owned())
    }

    fn facts(&self) -> Facts {
        Facts {
            started: self.started,
            threads: 1,
            ..Facts::default()
        }
    }

    fn reset_statistics(&self) {}

    fn shutdown(&self, _: ShutdownOptions) -> Result<(), String> {
        Err("ERR there is no server to shut down: the store is embedded in this process".to_owned())
    }
}

/// What commands reach beyond the process: where their messages go to, or where
/// they wait.
pub(crate) trait Reach: Send {
    /// As [`Host::take_or_wait`].
    fn take_or_wait(
        &mut self,
        store: Access<'_>,
        wanted: &Wanted<'_>,
        timeout: Option<Duration>,
    ) -> Result<Begun, Error> {
        store.take_or_wait(wanted, timeout).map(Begun::Answered)
    }

    /// As [`Host::subscribe`].
    fn subscribe(&mut self, topic: Topic, names: &[&[u8]]) -> Result<(), Error>;

    /// As [`Host::unsubscribe`].
    fn unsubscribe(&mut self, topic: Topic, names: &[&[u8]]) -> Result<(), Error>;
}

/// The process as one of its connections sees it.
pub(crate) struct Connected<'a, R> {
    process: &'a Embedding,
    reach: Mutex<&'a mut R>,
}

impl<'a, R: Reach> Connected<'a, R> {
    pub(crate) fn new(process: &'a Embedding, reach: &'a mut R) -> Connected<'a, R> {
        Connected {
            process,
            reach: Mutex::new(reach),
        }
    }

    /// Only the thread that runs the command comes here.
    fn reach(&self) -> MutexGuard<'_, &'a mut R> {
        self.reach.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<R: Reach> Host for Connected<'_, R> {
    fn take_or_wait(
        &self,
        _: &Session,
        store: Access<'_>,
        wanted: &Wanted<'_>,
        timeout: Option<Duration>,
    ) -> Result<Begun, Error> {
        self.reach().take_or_wait(store, wanted, timeout)
    }

    fn subscribe(&self, _: &Session, topic: Topic, names: &[&[u8]]) -> Result<(), Error> {
        self.reach().subscribe(topic, names)
    }

    fn unsubscribe(&self, _: &Session, topic: Topic, names: &[&[u8]]) -> Result<(), Error> {
        self.reach().unsubscribe(topic, names)
    }

    fn now_microseconds(&self) -> i64 {
        self.process.now_microseconds()
    }

    fn config(&self) -> &Config {
        self.process.config()
    }

    fn apply(
        &self,
        changes: &[(&'static Parameter, Value)],
    ) -> Result<(), (&'static Parameter, String)> {
        self.process.apply(changes)
    }

    fn slowlog(&self) -> &SlowLog {
        self.process.slowlog()
    }

    fn statistics(&self) -> &Statistics {
        self.process.statistics()
    }

    fn clients(&self) -> Vec<ClientInfo> {
        self.process.clients()
    }

    fn pause(&self, until: i64, all: bool) -> Result<(), String> {
        self.process.pause(until, all)
    }

    fn unpause(&self) {
        self.process.unpause();
    }

    fn kill(&self, filter: &KillFilter) -> usize {
        self.process.kill(filter)
    }

    fn authenticate(&self, user: &[u8], password: &[u8]) -> bool {
        self.process.authenticate(user, password)
    }

    fn initial_user(&self) -> Option<String> {
        self.process.initial_user()
    }

    fn facts(&self) -> Facts {
        self.process.facts()
    }

    fn reset_statistics(&self) {
        self.process.reset_statistics();
    }

    fn shutdown(&self, options: ShutdownOptions) -> Result<(), String> {
        self.process.shutdown(options)
    }
}
