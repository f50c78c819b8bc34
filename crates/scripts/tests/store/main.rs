//! Tests scripts on a store: transactions, restarts, shared script texts, limits, process deaths
//! and malicious scripts.

mod again;
mod as_redis;
mod death;
mod durable;
mod functions;
mod harm;
mod host;
mod kept_locals;
mod unguarded;

use std::thread;
use std::time::Duration;

use host::Embedded;
use undercroft_commands::reply::Tree;

fn bulk(text: &str) -> Tree {
    Tree::Bulk(text.as_bytes().to_vec())
}

#[test]
fn undeclared_keys_work_in_scripts() {
    let embedded = Embedded::new();
    let mut client = embedded.client();
    // Use many keys, so that every shard contains some of them.
    let script = "for i = 1, 200 do redis.call('incr', 'key:' .. i) end \
                  redis.call('rpush', 'log', 'once') return redis.call('dbsize')";
    let reply = client.run(&["EVAL", script, "1", "key:1"]);
    assert_eq!(reply, Tree::Integer(201));
    assert_eq!(client.run(&["GET", "key:77"]), bulk("1"));
    assert_eq!(client.run(&["LLEN", "log"]), Tree::Integer(1));
    embedded.check();
}

#[test]
fn an_error_keeps_earlier_changes_of_the_script() {
    let embedded = Embedded::new();
    let mut client = embedded.client();
    let script = "redis.call('set', KEYS[1], 'kept') redis.call('incr', KEYS[1]) return 1";
    let reply = client.run(&["EVAL", script, "1", "k"]);
    assert!(matches!(reply, Tree::Error(_)), "{reply:?}");
    assert_eq!(client.run(&["GET", "k"]), bulk("kept"));
    // A command that fails in a script must change nothing.
    let script = "redis.call('rpush', KEYS[1], 'a') \
                  local refused = redis.pcall('sinterstore', KEYS[1], KEYS[1], KEYS[1]) \
                  return {refused.err, redis.call('lrange', KEYS[1], 0, -1)}";
    let reply = client.run(&["EVAL", script, "1", "l"]);
    let Tree::Array(items) = reply else {
        panic!("{reply:?}");
    };
    assert_eq!(items[1], Tree::Array(vec![bulk("a")]));
    embedded.check();
}

#[test]
fn a_script_over_its_time_limit_is_rolled_back() {
    let embedded = Embedded::with_time(Duration::from_millis(50));
    let mut client = embedded.client();
    client.run(&["SET", "k", "before"]);
    let script = "redis.call('set', KEYS[1], 'after') redis.call('set', 'other', 'x') \
                  while true do pcall(function() while true do end end) end";
    let reply = client.run(&["EVAL", script, "1", "k"]);
    let Tree::Error(text) = reply else {
        panic!("{reply:?}");
    };
    assert!(
        text.contains("ran longer than its limit of 50 ms"),
        "{text}"
    );
    assert_eq!(client.run(&["GET", "k"]), bulk("before"));
    assert_eq!(client.run(&["EXISTS", "other"]), Tree::Integer(0));
    // The next script must run normally.
    assert_eq!(client.run(&["EVAL", "return 1", "0"]), Tree::Integer(1));
    embedded.check();
}

#[test]
fn the_time_limit_covers_all_restarts_of_a_script() {
    let embedded = Embedded::with_time(Duration::from_millis(50));
    let mut client = embedded.client();
    let mut run = |script: &str, loops: u64| {
        let script = format!("for i = 1, tonumber(ARGV[1]) do end {script} return 'done'");
        match client.run(&["EVAL", &script, "1", "key:1", &loops.to_string()]) {
            Tree::Error(text) => {
                assert!(
                    text.contains("ran longer than its limit of 50 ms"),
                    "{text}"
                );
                false
            }
            reply => {
                assert_eq!(reply, bulk("done"));
                true
            }
        }
    };
    // The first run ends at an undeclared key. Each run has fewer iterations than the limit allows,
    // but the two runs together exceed it.
    let twice = "for i = 1, 200 do redis.call('incr', 'key:' .. i) end";
    // On a busy machine, the largest number of iterations within the limit may be found too low, so
    // that both runs together are within the limit as well. It is then searched again.
    let is_ended = (0..20).any(|_| {
        let (mut most, mut step) = (0, 1 << 14);
        while run("", most + step) {
            (most, step) = (most + step, step * 2);
        }
        while step > most / 10 {
            step /= 2;
            most += if run("", most + step) { step } else { 0 };
        }
        let is_ended = !run(twice, most / 4 * 3);
        if !is_ended {
            run("redis.call('flushall')", 0);
        }
        is_ended
    });
    assert!(is_ended);
    assert_eq!(client.run(&["DBSIZE"]), Tree::Integer(0));
    embedded.check();
}

#[test]
fn every_process_knows_a_script_until_it_is_flushed() {
    let one = Embedded::new();
    let other = one.another();
    let (mut first, mut second) = (one.client(), other.client());
    let Tree::Bulk(sha) = first.run(&["SCRIPT", "LOAD", "return ARGV[1]"]) else {
        panic!("a name");
    };
    let sha = String::from_utf8(sha).expect("digits");
    assert_eq!(second.run(&["EVALSHA", &sha, "0", "x"]), bulk("x"));
    assert_eq!(first.run(&["EVALSHA", &sha, "0", "y"]), bulk("y"));
    assert_eq!(second.run(&["FLUSHALL"]), Tree::Simple("OK".into()));
    assert_eq!(first.run(&["EVALSHA", &sha, "0", "y"]), bulk("y"));
    assert_eq!(second.run(&["SCRIPT", "FLUSH"]), Tree::Simple("OK".into()));
    let reply = first.run(&["EVALSHA", &sha, "0", "x"]);
    assert!(
        matches!(&reply, Tree::Error(text) if text.starts_with("NOSCRIPT")),
        "{reply:?}"
    );
    let exists = first.run(&["SCRIPT", "EXISTS", &sha]);
    assert_eq!(exists, Tree::Array(vec![Tree::Integer(0)]));
    // `EVAL` makes the script text available to all processes again.
    first.run(&["EVAL", "return ARGV[1]", "0", "x"]);
    assert_eq!(second.run(&["EVALSHA", &sha, "0", "z"]), bulk("z"));
    // Script texts are not visible as keys, and flushing the databases does not delete them.
    assert_eq!(second.run(&["DBSIZE"]), Tree::Integer(0));
    one.check();
}

#[test]
fn a_script_in_a_transaction_is_part_of_it() {
    let embedded = Embedded::new();
    let mut client = embedded.client();
    client.run(&["MULTI"]);
    client.run(&["SET", "a", "1"]);
    client.run(&[
        "EVAL",
        "redis.call('incr', 'b') return redis.call('incr', 'a')",
        "0",
    ]);
    client.run(&["EVAL", "redis.call('incr', 'c') error('x')", "0"]);
    client.run(&["GET", "c"]);
    let Tree::Array(replies) = client.run(&["EXEC"]) else {
        panic!("replies");
    };
    assert_eq!(replies[1], Tree::Integer(2));
    assert!(matches!(replies[2], Tree::Error(_)));
    assert_eq!(replies[3], bulk("1"));
    assert_eq!(client.run(&["GET", "b"]), bulk("1"));
    embedded.check();
}

/// Returns whether the reply is a BUSY error.
fn is_busy(reply: Option<Tree>) -> bool {
    matches!(reply, Some(Tree::Error(text)) if text.starts_with("BUSY"))
}

/// Runs commands, the last of which runs an endless script on `k`. Kills the script from a second
/// process, and returns the reply of the last command.
fn ended(commands: &[&[&str]]) -> Tree {
    let embedded = Embedded::new();
    let other = embedded.another();
    let mut waiting = other.client();
    other.set_patience(Duration::from_millis(20));
    waiting.run(&["CONFIG", "SET", "busy-reply-threshold", "1"]);
    embedded
        .client()
        .run(&["CONFIG", "SET", "busy-reply-threshold", "1"]);
    assert_eq!(
        waiting.run(&["SCRIPT", "KILL"]),
        Tree::Error("NOTBUSY No scripts in execution right now.".into())
    );
    let reply = thread::scope(|scope| {
        let script = scope.spawn(|| {
            let mut client = embedded.client();
            let replies = commands.iter().map(|words| client.run(words));
            replies.last().expect("a command")
        });
        // Retry until the script holds the lock of `k` and counts as busy.
        loop {
            assert!(!script.is_finished(), "it has ended by itself");
            if !is_busy(waiting.try_run(&["SET", "k", "x"])) {
                continue;
            }
            match waiting.run(&["SCRIPT", "KILL"]) {
                // A script counts as busy only if it has been reported within the last second,
                // which can fail on a stalled machine.
                Tree::Error(text) if text.starts_with("NOTBUSY") => {}
                reply => {
                    assert_eq!(reply, Tree::Simple("OK".into()));
                    break;
                }
            }
        }
        script.join().expect("a reply")
    });
    assert_eq!(waiting.run(&["SET", "k", "y"]), Tree::Simple("OK".into()));
    embedded.check();
    reply
}

const ENDLESS: &[&str] = &[
    "EVAL",
    "redis.call('get', KEYS[1]) while true do end",
    "1",
    "k",
];

fn is_killed(reply: &Tree) -> bool {
    matches!(reply, Tree::Error(text) if text.contains("Script killed by user"))
}

#[test]
fn a_client_blocked_by_a_busy_script_gets_busy_and_can_kill_it() {
    let reply = ended(&[ENDLESS]);
    assert!(is_killed(&reply), "{reply:?}");
}

#[test]
fn a_script_is_reported_busy_before_its_time_limit() {
    // Use the default configuration, in which scripts become busy after five seconds.
    let embedded = Embedded::with_time(Duration::from_secs(5));
    let other = embedded.another();
    let mut waiting = other.client();
    let reply = thread::scope(|scope| {
        let script = scope.spawn(|| embedded.client().run(ENDLESS));
        loop {
            assert!(!script.is_finished(), "it has ended by itself");
            // The waiter must get BUSY as soon as the script counts as busy, even if the waiter's
            // own timeout is longer.
            if is_busy(waiting.try_run(&["SET", "k", "x"])) {
                break;
            }
        }
        assert_eq!(waiting.run(&["SCRIPT", "KILL"]), Tree::Simple("OK".into()));
        script.join().expect("a reply")
    });
    assert!(is_killed(&reply), "{reply:?}");
    assert_eq!(waiting.run(&["SET", "k", "y"]), Tree::Simple("OK".into()));
    embedded.check();
}

#[test]
fn a_busy_script_in_a_transaction_can_be_killed() {
    let reply = ended(&[&["MULTI"], ENDLESS, &["GET", "none"], &["EXEC"]]);
    let Tree::Array(replies) = reply else {
        panic!("{reply:?}");
    };
    assert!(
        is_killed(&replies[0]) && replies[1] == Tree::Null,
        "{replies:?}"
    );
}

#[test]
fn a_script_that_has_written_cannot_be_killed() {
    let embedded = Embedded::with_time(Duration::from_secs(2));
    let other = embedded.another();
    let mut waiting = other.client();
    other.set_patience(Duration::from_millis(20));
    embedded
        .client()
        .run(&["CONFIG", "SET", "busy-reply-threshold", "1"]);
    thread::scope(|scope| {
        let script = scope.spawn(|| {
            let script = "redis.call('set', KEYS[1], 'x') while true do end";
            embedded.client().run(&["EVAL", script, "1", "k"])
        });
        loop {
            match waiting.run(&["SCRIPT", "KILL"]) {
                Tree::Error(text) if text.starts_with("NOTBUSY") => {
                    assert!(!script.is_finished(), "it has ended by itself");
                }
                Tree::Error(text) => {
                    assert!(text.starts_with("UNKILLABLE"), "{text}");
                    break;
                }
                reply => panic!("{reply:?}"),
            }
        }
        assert!(matches!(script.join().expect("a reply"), Tree::Error(_)));
    });
    assert_eq!(waiting.run(&["EXISTS", "k"]), Tree::Integer(0));
    embedded.check();
}

#[test]
fn select_in_a_script_does_not_affect_the_client() {
    let embedded = Embedded::new();
    let mut client = embedded.client();
    let script = "redis.call('select', 3) redis.setresp(3) return redis.call('set', KEYS[1], 'x')";
    client.run(&["EVAL", script, "1", "k"]);
    assert_eq!(client.run(&["EXISTS", "k"]), Tree::Integer(0));
    client.run(&["SELECT", "3"]);
    assert_eq!(client.run(&["GET", "k"]), bulk("x"));
}

#[test]
fn messages_of_a_script_are_sent_once() {
    let embedded = Embedded::new();
    let mut client = embedded.client();
    let mut subscriber = embedded.subscriber("channel");
    // The keys are undeclared, so the script is restarted and runs twice.
    let script =
        "redis.call('publish', 'channel', 'one') for i = 1, 99 do redis.call('set', i, i) end";
    client.run(&["EVAL", script, "0"]);
    assert_eq!(subscriber.count(), 1);
}
