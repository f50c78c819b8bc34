//! Tests function libraries, which all processes of a store share.

use std::time::Duration;

use undercroft_commands::reply::Tree;

use crate::host::Embedded;

fn bulk(text: &str) -> Tree {
    Tree::Bulk(text.as_bytes().to_vec())
}

/// Returns the program of a library with one function, which returns `text`.
fn library(name: &str, function: &str, text: &str) -> String {
    format!(
        "#!lua name={name}\nredis.register_function('{function}', function() return '{text}' end)"
    )
}

#[test]
fn every_process_can_call_a_loaded_library() {
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
    // As in Redis, flushing the databases does not delete the libraries.
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
fn concurrent_loads_give_a_function_name_to_one_library() {
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
fn library_programs_are_limited() {
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
fn a_transaction_can_call_a_library_that_it_loaded() {
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
fn registered_functions_count_toward_the_memory_of_their_library() {
    let process = Embedded::new();
    let mut client = process.client();
    let text = "#!lua name=greedy\nlocal long = ('x'):rep(1e6) for number = 1, 100 do redis.register_function{ \
                function_name = 'f' .. number, callback = function() end, description = long} end";
    match client.run(&["FUNCTION", "LOAD", text]) {
        Tree::Error(error) => assert!(error.contains("not enough memory"), "{error}"),
        reply => panic!("{reply:?}"),
    }
    // The failed load must not prevent the next load of the same library.
    let reply = client.run(&["FUNCTION", "LOAD", &library("greedy", "f1", "x")]);
    assert_eq!(reply, bulk("greedy"));
    assert_eq!(client.run(&["FCALL", "f1", "0"]), bulk("x"));
}
