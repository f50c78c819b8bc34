//! Tests calls from the destructor of a thread-local value while the thread exits.

use std::cell::RefCell;
use std::sync::mpsc::{Sender, channel};
use std::time::Duration;

use undercroft::Store;

/// Makes calls while its thread exits, after the destructors of thread-local values that were
/// registered later have run.
struct Last(Store, Sender<bool>);

thread_local! {
    static LAST: RefCell<Option<Last>> = const { RefCell::new(None) };
}

fn make_calls(store: &Store) {
    let run = |words: &[&str]| store.command(words).expect("a command");
    run(&["SET", "key", "value"]);
    run(&["EVAL", "return redis.call('INCR', KEYS[1])", "1", "n"]);
    run(&["XADD", "stream", "*", "field", "value"]);
    run(&["XRANGE", "stream", "-", "+"]);
    run(&["PUBLISH", "channel", "message"]);
    run(&["SLOWLOG", "GET"]);
    run(&["CONFIG", "SET", "slowlog-log-slower-than", "0"]);
    run(&["SET", "short", "value", "PX", "1"]);
    let text = "compressible ".repeat(100);
    run(&["SET", "text", &text]);
    run(&["DUMP", "text"]);
    run(&["GET", "short"]);
    assert!(store.command(["LPUSH", "key", "item"]).is_err());
    store.del(["list"]).expect("removed");
    store.rpush("list", ["a", "b"]).expect("a push");
    assert_eq!(store.lpop("list").expect("a pop"), Some(b"a".to_vec()));
    // If `Duration::MAX` were passed to Redis unchanged, it would overflow to a negative timeout.
    for timeout in [Duration::from_secs(1), Duration::MAX] {
        store.rpush("list", ["b"]).expect("a push");
        store.blpop("list", timeout).expect("an item");
    }
    store.publish("channel", "message").expect("published");
    let mut session = store.session();
    session.command(["MULTI"]).expect("begun");
    session.command(["INCR", "n"]).expect("queued");
    session.command(["EXEC"]).expect("done");
}

impl Drop for Last {
    fn drop(&mut self) {
        make_calls(&self.0);
        let _ = self.1.send(true);
    }
}

#[test]
fn thread_local_destructors_can_make_every_kind_of_call() {
    let directory = tempfile::tempdir_in("/dev/shm").expect("a directory in shared memory");
    let store = Store::open_path(directory.path().join("store")).expect("a store");
    for uses_first in [true, false] {
        let (sender, receiver) = channel();
        let (own, last) = (store.clone(), Last(store.clone(), sender));
        std::thread::spawn(move || {
            // This value is registered first, and therefore dropped last.
            LAST.set(Some(last));
            if uses_first {
                make_calls(&own);
            }
        });
        assert!(receiver.recv().expect("the destructor ran to its end"));
    }
}
