//! Tests the local variables of libraries, which retain their values until the library is loaded
//! again. When a script is restarted, its first attempt's assignments to these variables are not
//! undone. Test runs that execute every write twice therefore skip these tests.

use undercroft_commands::reply::Tree;

use crate::bulk;
use crate::host::Embedded;

/// Returns the program of a library whose function counts its calls in a local variable.
fn counter(name: &str) -> String {
    format!(
        "#!lua name={name}\nlocal n = 0 redis.register_function('{name}', function() n = n + 1 return n end)"
    )
}

#[test]
fn reloading_a_library_resets_its_locals_in_every_process() {
    let one = Embedded::new();
    let other = one.another();
    // Test a second thread, because each thread has separate copies of a library's local variables.
    let (ask, asked) = std::sync::mpsc::channel::<()>();
    let (answer, answered) = std::sync::mpsc::channel();
    std::thread::scope(|scope| {
        scope.spawn(move || {
            let mut second = other.client();
            for () in asked {
                let reply = second.run(&["FCALL", "count", "0"]);
                answer.send(reply).expect("a client is subscribed");
            }
        });
        let mut first = one.client();
        let mut both = |number| {
            assert_eq!(first.run(&["FCALL", "count", "0"]), Tree::Integer(number));
            ask.send(()).expect("the other thread");
            assert_eq!(answered.recv().expect("a reply"), Tree::Integer(number));
        };
        let mut changing = one.client();
        let text = counter("count");
        changing.run(&["FUNCTION", "LOAD", &text]);
        both(1);
        both(2);
        let Tree::Bulk(dump) = changing.run(&["FUNCTION", "DUMP"]) else {
            panic!("no dump");
        };
        // Loading another library must not reset the variables of this library.
        changing.run(&["FUNCTION", "LOAD", &counter("other")]);
        both(3);
        changing.run(&["FUNCTION", "LOAD", "REPLACE", &counter("other")]);
        changing.run(&["FUNCTION", "DELETE", "other"]);
        both(4);
        changing.run(&["FUNCTION", "LOAD", "REPLACE", &text]);
        both(1);
        both(2);
        // A refused load must not reset any variables.
        let refused = changing.run(&["FUNCTION", "LOAD", &text]);
        assert!(matches!(refused, Tree::Error(_)), "{refused:?}");
        both(3);
        for gone in [&["FUNCTION", "DELETE", "count"][..], &["FUNCTION", "FLUSH"]] {
            changing.run(gone);
            changing.run(&["FUNCTION", "LOAD", &text]);
            both(1);
            both(2);
        }
        for policy in [&b"REPLACE"[..], b"FLUSH"] {
            let words: [&[u8]; 4] = [b"FUNCTION", b"RESTORE", &dump, policy];
            assert_eq!(changing.run_bytes(&words), Some(Tree::Simple("OK".into())));
            both(1);
            both(2);
        }
        drop(ask);
    });
    one.check();
}

#[test]
fn stores_with_the_same_library_share_no_locals() {
    for _ in 0..2 {
        let store = Embedded::new();
        let mut client = store.client();
        client.run(&["FUNCTION", "LOAD", &counter("count")]);
        assert_eq!(client.run(&["FCALL", "count", "0"]), Tree::Integer(1));
    }
}

#[test]
fn locals_set_in_a_transaction_that_loads_their_library_are_kept() {
    let embedded = Embedded::new();
    let mut client = embedded.client();
    client.run(&["FUNCTION", "LOAD", &counter("count")]);
    assert_eq!(client.run(&["FCALL", "count", "0"]), Tree::Integer(1));
    client.run(&["MULTI"]);
    client.run(&["FUNCTION", "LOAD", "REPLACE", &counter("count")]);
    client.run(&["FCALL", "count", "0"]);
    client.run(&["FCALL", "count", "0"]);
    let counted = [bulk("count"), Tree::Integer(1), Tree::Integer(2)];
    assert_eq!(client.run(&["EXEC"]), Tree::Array(counted.to_vec()));
    assert_eq!(client.run(&["FCALL", "count", "0"]), Tree::Integer(3));
}
