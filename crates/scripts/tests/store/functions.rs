//! Libraries of functions, which all processes of a store share.

use std::time::Duration;

use undercroft_commands::reply::Tree;

use crate::host::Embedded;

fn bulk(text: &str) -> Tree {
    Tree::Bulk(text.as_bytes().to_vec())
}

/// A library of one function, which returns a text.
fn library(name: &str, function: &str, text: &str) -> String {
    format!(
        "#!lua name={name}\nredis.register_function('{function}', function() return '{text}' end)"
    )
}

#[test]
fn every_process_calls_what_one_has_loaded() {
    let one = Embedded::new();
    let other = one.another();
    let (mut first, mut second) = (one.client(), other.client());
    let text = library("lib", "f", "old");
    assert_eq!(first.run(&["FUNCTION", "LOAD", &text]), bulk("lib"));
    assert_eq!(second.run(&["FCALL", "f", "0"]), bulk("old"));
    let text = library("lib", "f", "new");
    let reply = second.run(&["FUNCTION", "LOAD", "REPLACE", &text]);
    assert_eq!(reply, bulk("lib"));
    assert_eq!(first.run(&["FCALL", "f", "0"]), bulk("new"));
    // Flushing databases leaves them, as in Redis.
    assert_eq!(first.run(&["FLUSHALL"]), Tree::Simple("OK".into()));
    assert_eq!(second.run(&["FCALL", "f", "0"]), bulk("new"));
    assert_eq!(second.run(&["DBSIZE"]), Tree::Integer(0));
    assert_eq!(
        second.run(&["FUNCTION", "DELETE", "lib"]),
        Tree::Simple("OK".into())
    );
    let reply = first.run(&["FCALL", "f", "0"]);
    assert!(matches!(reply, Tree::Error(_)), "{reply:?}");
    one.check();
}

#[test]
fn a_function_name_belongs_to_one_library_whoever_loads_at_the_same_time() {
    let one = Embedded::new();
    let loaded = std::thread::scope(|scope| {
        let loaders: Vec<_> = (0..4)
            .map(|number| {
                let process = one.another();
                scope.spawn(move || {
                    let text = library(&format!("lib{number}"), "f", "x");
                    let reply = process.client().run(&["FUNCTION", "LOAD", &text]);
                    usize::from(matches!(reply, Tree::Bulk(_)))
                })
            })
            .collect();
        let loaders = loaders.into_iter();
        loaders
            .map(|loader| loader.join().expect("a reply"))
            .sum::<usize>()
    });
    assert_eq!(loaded, 1);
    one.check();
}

#[test]
fn programs_of_libraries_are_bounded() {
    let embedded = Embedded::with_time(Duration::from_secs(10));
    for program in [
        "while true do end",
        "local t = {} while true do t[#t + 1] = {} end",
        "local s = 'x' while true do s = s .. s end",
        "local function f() return 1 + f() end f()",
        "local s = ('a'):rep(2000) return s:find(('a*'):rep(20) .. 'b')",
    ] {
        let text = format!("#!lua name=lib\n{program}");
        let reply = embedded.client().run(&["FUNCTION", "LOAD", &text]);
        assert!(matches!(reply, Tree::Error(_)), "{program}: {reply:?}");
        let text = library("sound", "f", "sound");
        let mut client = embedded.client();
        client.run(&["FUNCTION", "LOAD", "REPLACE", &text]);
        assert_eq!(client.run(&["FCALL", "f", "0"]), bulk("sound"));
    }
    embedded.check();
}

#[test]
fn a_transaction_calls_what_it_has_loaded() {
    let embedded = Embedded::new();
    let mut client = embedded.client();
    client.run(&["FUNCTION", "LOAD", &library("lib", "f", "old")]);
    assert_eq!(client.run(&["FCALL", "f", "0"]), bulk("old"));
    client.run(&["MULTI"]);
    client.run(&["FUNCTION", "LOAD", "REPLACE", &library("lib", "f", "new")]);
    client.run(&["FCALL", "f", "0"]);
    let replies = client.run(&["EXEC"]);
    assert_eq!(replies, Tree::Array(vec![bulk("lib"), bulk("new")]));
    assert_eq!(
        embedded.another().client().run(&["FCALL", "f", "0"]),
        bulk("new")
    );
    embedded.check();
}

#[test]
fn what_a_library_registers_counts_as_its_memory() {
    let process = Embedded::new();
    let mut client = process.client();
    let text = "#!lua name=greedy\nlocal long = ('x'):rep(1e6) for number = 1, 100 do redis.register_function{ \
                function_name = 'f' .. number, callback = function() end, description = long} end";
    match client.run(&["FUNCTION", "LOAD", text]) {
        Tree::Error(error) => assert!(error.contains("not enough memory"), "{error}"),
        reply => panic!("{reply:?}"),
    }
    // Nothing of it is left, and the next one loads.
    let reply = client.run(&["FUNCTION", "LOAD", &library("greedy", "f1", "x")]);
    assert_eq!(reply, bulk("greedy"));
    assert_eq!(client.run(&["FCALL", "f1", "0"]), bulk("x"));
}

/// A library whose function counts its calls, in a local variable.
fn counter(name: &str) -> String {
    format!(
        "#!lua name={name}\nlocal n = 0 redis.register_function('{name}', function() n = n + 1 return n end)"
    )
}

#[test]
fn a_library_that_is_loaded_again_begins_anew_in_every_process() {
    let one = Embedded::new();
    let other = one.another();
    // What a function keeps belongs to the thread that calls it.
    let (ask, asked) = std::sync::mpsc::channel::<()>();
    let (answer, answered) = std::sync::mpsc::channel();
    std::thread::scope(|scope| {
        scope.spawn(move || {
            let mut second = other.client();
            for () in asked {
                let reply = second.run(&["FCALL", "count", "0"]);
                answer.send(reply).expect("somebody listens");
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
        // Another library leaves it alone.
        changing.run(&["FUNCTION", "LOAD", &counter("other")]);
        both(3);
        changing.run(&["FUNCTION", "LOAD", "REPLACE", &counter("other")]);
        changing.run(&["FUNCTION", "DELETE", "other"]);
        both(4);
        changing.run(&["FUNCTION", "LOAD", "REPLACE", &text]);
        both(1);
        both(2);
        // One that is refused changes nothing.
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
fn stores_with_libraries_of_one_text_have_nothing_in_common() {
    for _ in 0..2 {
        let store = Embedded::new();
        let mut client = store.client();
        client.run(&["FUNCTION", "LOAD", &counter("count")]);
        assert_eq!(client.run(&["FCALL", "count", "0"]), Tree::Integer(1));
    }
}

#[test]
fn a_transaction_that_loads_a_library_keeps_what_its_calls_count() {
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
