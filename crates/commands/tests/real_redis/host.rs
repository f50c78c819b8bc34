//! Provides a host without a server, for commands that do not require a server.

use tempfile::TempDir;
use undercroft_commands::reply::{Recorder, Tree};
use undercroft_commands::session::Session;
use undercroft_commands::{Context, execute};
use undercroft_engine::{Options, Store};

use crate::alone::Alone;

/// Runs Undercroft's commands on a store that is initially empty.
pub(crate) struct Own {
    host: Alone,
    session: Session,
    store: Store,
    _directory: TempDir,
}

impl Own {
    pub(crate) fn new() -> Own {
        let host = Alone::new();
        let directory = tempfile::tempdir_in("/dev/shm").expect("a directory in shared memory");
        let store = Store::create(&directory.path().join("store"), &Options::default());
        Own {
            session: host.session(),
            host,
            store: store.expect("a new store"),
            _directory: directory,
        }
    }

    /// Runs one command and returns the reply that a RESP2 client would receive.
    pub(crate) fn call(&mut self, arguments: &[&[u8]]) -> Tree {
        let mut context = Context::new(&mut self.session, self.host.host(), &self.store);
        let mut reply = Recorder::new();
        execute(&mut context, arguments, &mut reply).expect("no other process holds a lock");
        let mut replies = reply.finish().expect("a whole reply");
        assert_eq!(replies.len(), 1, "one reply");
        replies.remove(0).into_resp2()
    }
}

/// Runs one of Undercroft's commands on a new store.
pub(crate) fn run(line: &str) -> Tree {
    Own::new().call(&line.split(' ').map(str::as_bytes).collect::<Vec<_>>())
}
