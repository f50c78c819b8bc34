//! A host without a server, for the commands that need none.

use undercroft_commands::config::{Config, Parameter, Value};
use undercroft_commands::info::Facts;
use undercroft_commands::reply::{Recorder, Tree};
use undercroft_commands::session::{ClientInfo, Host, KillFilter, Session, ShutdownOptions};
use undercroft_commands::slowlog::SlowLog;
use undercroft_commands::{Context, execute};
use undercroft_engine::{Options, Store};

#[derive(Default)]
struct Alone {
    config: Config,
    slowlog: SlowLog,
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
    fn clients(&self) -> Vec<ClientInfo> {
        Vec::new()
    }
    fn kill(&self, _: &KillFilter) -> usize {
        0
    }
    fn authenticate(&self, _: &[u8], _: &[u8]) -> bool {
        true
    }
    fn initial_user(&self) -> Option<String> {
        Some("default".into())
    }
    fn facts(&self) -> Facts {
        Facts::default()
    }
    fn reset_statistics(&self) {}
    fn shutdown(&self, _: ShutdownOptions) -> Result<(), String> {
        Err("ERR Errors trying to SHUTDOWN. Check logs.".into())
    }
}

/// Runs one of our commands and returns its reply as a RESP2 client would see it.
pub(crate) fn run(line: &str) -> Tree {
    let arguments: Vec<&[u8]> = line.split(' ').map(str::as_bytes).collect();
    let host = Alone::default();
    let mut session = Session::new(1, host.initial_user(), 0);
    let directory = tempfile::tempdir_in("/dev/shm").expect("a directory in shared memory");
    let store = Store::create(&directory.path().join("store"), &Options::default());
    let store = store.expect("a new store");
    let mut context = Context::new(&mut session, &host, &store);
    let mut reply = Recorder::new();
    execute(&mut context, &arguments, &mut reply).expect("nobody else holds a lock");
    let mut replies = reply.finish().expect("a whole reply");
    assert_eq!(replies.len(), 1, "one reply to {line}");
    replies.remove(0).into_resp2()
}
