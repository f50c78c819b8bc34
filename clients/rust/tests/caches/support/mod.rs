//! Servers that the tests start.
//!
//! - `redis`: a Redis of the test's own.
//! - `script`: a server that sends what a test says.
//! - `served`: a server on a store, in this process.

pub(crate) mod redis;
pub(crate) mod script;

include!("served.rs");

/// Our server, for tests in other files.
pub(crate) struct Ours(Served);

impl Ours {
    pub(crate) fn start() -> Ours {
        Ours(Served::start_with(&[]))
    }

    pub(crate) fn with_password(password: &str) -> Ours {
        Ours(Served::start_with(&[("requirepass", password)]))
    }

    pub(crate) fn url(&self) -> String {
        self.0.url()
    }
}
