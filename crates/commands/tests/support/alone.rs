//! Provides a host without a server.

use undercroft_commands::config::Config;
use undercroft_commands::context::{Connections, Control, Host, Inbox, Process};
use undercroft_commands::session::{Login, Session};

pub(crate) struct Alone {
    process: Process,
}

impl Alone {
    pub(crate) fn new() -> Alone {
        Alone {
            process: Process::with_clock(Config::new(), 1, || 0),
        }
    }

    pub(crate) fn host(&self) -> Host<'_> {
        Host::of(&self.process, self)
    }

    /// Returns the session of a process that embeds the store.
    pub(crate) fn session(&self) -> Session {
        Session::new(1, Login::trusted(), 0)
    }
}

impl Connections for Alone {
    fn pause(&self, _: i64, _: bool) -> Result<(), String> {
        Ok(())
    }
}

impl Inbox for Alone {}

impl Control for Alone {}
