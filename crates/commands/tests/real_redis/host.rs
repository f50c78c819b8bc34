//! A host without a server, for the commands that need none.

use undercroft_commands::reply::{Recorder, Tree};
use undercroft_commands::session::{Host, Session};
use undercroft_commands::{Context, execute};
use undercroft_engine::{Options, Store};

use crate::alone::Alone;

/// Runs one of our commands and returns its reply as a RESP2 client would see it.
pub(crate) fn run(line: &str) -> Tree {
    let arguments: Vec<&[u8]> = line.split(' ').map(str::as_bytes).collect();
    let host = Alone::new(None);
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
