//! The process that embeds the store, as commands see it.

use std::time::{SystemTime, UNIX_EPOCH};

use undercroft_commands::config::{Config, Parameter, Value};
use undercroft_commands::info::Facts;
use undercroft_commands::session::{ClientInfo, Host, KillFilter, ShutdownOptions};
use undercroft_commands::slowlog::SlowLog;

/// A process without a server: no connections, a configuration of its own.
pub(crate) struct Embedding {
    config: Config,
    slowlog: SlowLog,
    started: i64,
}

impl Embedding {
    pub(crate) fn new() -> Embedding {
        Embedding {
            config: Config::new(),
            slowlog: SlowLog::new(),
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
