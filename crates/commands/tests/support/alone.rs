//! A host without a server.

use undercroft_commands::config::{Config, Parameter, Value};
use undercroft_commands::info::Facts;
use undercroft_commands::session::{ClientInfo, Host, KillFilter, ShutdownOptions};
use undercroft_commands::slowlog::SlowLog;
use undercroft_commands::statistics::Statistics;

pub(crate) struct Alone {
    config: Config,
    slowlog: SlowLog,
    statistics: Statistics,
    /// The password that is needed, where one is.
    password: Option<&'static [u8]>,
}

impl Alone {
    pub(crate) fn new(password: Option<&'static [u8]>) -> Alone {
        Alone {
            config: Config::new(),
            slowlog: SlowLog::new(),
            statistics: Statistics::new(1),
            password,
        }
    }
}

impl Host for Alone {
    fn now_microseconds(&self) -> i64 {
        0
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
        Ok(())
    }

    fn unpause(&self) {}

    fn kill(&self, _: &KillFilter) -> usize {
        0
    }
    fn authenticate(&self, user: &[u8], password: &[u8]) -> bool {
        user == b"default" && self.password.is_none_or(|needed| needed == password)
    }
    fn initial_user(&self) -> Option<String> {
        self.password.is_none().then(|| "default".into())
    }
    fn facts(&self) -> Facts {
        Facts::default()
    }
    fn reset_statistics(&self) {}
    fn shutdown(&self, _: ShutdownOptions) -> Result<(), String> {
        Err("ERR Errors trying to SHUTDOWN. Check logs.".into())
    }
}
