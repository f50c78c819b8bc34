//! The command line as commands see it: a server with one connection, itself.

use std::time::{SystemTime, UNIX_EPOCH};

use undercroft_commands::config::{Config, Parameter, STORED, Value};
use undercroft_commands::info::Facts;
use undercroft_commands::session::{ClientInfo, Host, KillFilter, ShutdownOptions};
use undercroft_commands::slowlog::SlowLog;
use undercroft_commands::statistics::Statistics;

/// The host of `undercroft exec`.
pub(crate) struct CommandLine {
    config: Config,
    slowlog: SlowLog,
    statistics: Statistics,
}

impl CommandLine {
    pub(crate) fn new() -> CommandLine {
        CommandLine {
            config: Config::new(),
            slowlog: SlowLog::new(),
            statistics: Statistics::new(1),
        }
    }
}

impl Host for CommandLine {
    fn now_microseconds(&self) -> i64 {
        let since = SystemTime::now().duration_since(UNIX_EPOCH);
        since.map_or(0, |elapsed| elapsed.as_micros() as i64)
    }

    fn config(&self) -> &Config {
        &self.config
    }

    fn apply(
        &self,
        changes: &[(&'static Parameter, Value)],
    ) -> Result<(), (&'static Parameter, String)> {
        let mut others = changes
            .iter()
            .filter(|(parameter, _)| !STORED.contains(&parameter.name));
        match others.next() {
            None => Ok(()),
            Some((parameter, _)) => {
                let text = "it belongs to a server, and this is none";
                Err((parameter, text.into()))
            }
        }
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
        Err("ERR there are no connections to pause: this is no server".to_owned())
    }

    fn unpause(&self) {}

    fn kill(&self, _: &KillFilter) -> usize {
        0
    }

    fn authenticate(&self, user: &[u8], _: &[u8]) -> bool {
        user == b"default"
    }

    fn initial_user(&self) -> Option<String> {
        Some("default".into())
    }

    fn facts(&self) -> Facts {
        Facts {
            threads: 1,
            started: self.now_microseconds() / 1000,
            connected_clients: 1,
            ..Facts::default()
        }
    }

    fn reset_statistics(&self) {}

    fn shutdown(&self, _: ShutdownOptions) -> Result<(), String> {
        Err("ERR there is no server to shut down: the command runs embedded".into())
    }
}
