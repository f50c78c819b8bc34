//! Provides a host without a server.

use std::sync::Arc;

use undercroft_commands::config::Config;
use undercroft_commands::context::{Connections, Control, Host, Inbox, Process};
use undercroft_commands::session::Session;

pub(crate) struct Alone {
    process: Process,
    /// The password that clients must send, if any.
    password: Option<&'static [u8]>,
}

impl Alone {
    pub(crate) fn new(password: Option<&'static [u8]>) -> Alone {
        Alone {
            process: Process::with_clock(Config::new(), 1, || 0),
            password,
        }
    }

    pub(crate) fn host(&self) -> Host<'_> {
        Host::of(&self.process, self)
    }

    /// Returns the session of a new connection.
    pub(crate) fn session(&self) -> Session {
        Session::new(1, self.initial_user(), 0)
    }
}

impl Connections for Alone {
    fn pause(&self, _: i64, _: bool) -> Result<(), String> {
        Ok(())
    }
    fn authenticate(&self, user: &[u8], password: &[u8]) -> bool {
        user == b"default" && self.password.is_none_or(|needed| needed == password)
    }
    fn initial_user(&self) -> Option<Arc<str>> {
        self.password.is_none().then(|| "default".into())
    }
}

impl Inbox for Alone {}

impl Control for Alone {}
