//! Tests that a slow script delays only commands that require the shards that it has locked (M6).

use std::os::unix::net::UnixStream;
use std::sync::mpsc::channel;
use std::thread;
use std::time::{Duration, Instant};

use crate::support::{Client, Place, Server};

/// Retries SCRIPT KILL until it kills a script, which counts as slow once it has run for a
/// millisecond.
fn kill(client: &mut Client<UnixStream>) {
    loop {
        match client.call("SCRIPT KILL").as_str() {
            "-NOTBUSY No scripts in execution right now." => {}
            reply => return assert_eq!(reply, "+OK"),
        }
    }
}

fn start(place: &Place) -> Server {
    let server = Server::start(place, &["--threads", "1"]);
    let reply = server.connect().call("CONFIG SET busy-reply-threshold 1");
    assert_eq!(reply, "+OK");
    server
}

const ENDLESS: &str = "EVAL 'while true do end' 0\r\n";

#[test]
fn other_clients_continue_during_an_endless_script() {
    let place = Place::new();
    let server = start(&place);
    let (mut script, mut other) = (server.connect(), server.connect());
    // Commands that the client sends after the script do not run until the script has ended.
    script.send(&format!("SET before 1\r\n{ENDLESS}INCR before\r\n"));
    assert_eq!(script.line(), "+OK");
    for number in 0..100 {
        assert_eq!(other.call(&format!("SET key {number}")), "+OK");
    }
    kill(&mut other);
    assert!(script.line().contains("Script killed by user"));
    assert_eq!(script.line(), ":2");
    assert_eq!(script.call("PING"), "+PONG");
}

#[test]
fn slow_function_is_shown_in_stats() {
    const NOBODY: &str = "*4 $14 running_script $-1";
    let place = Place::new();
    let server = start(&place);
    let (mut script, mut other) = (server.connect(), server.connect());
    let function = "redis.register_function('endless', function() while true do end end)";
    let loaded = other.call(&format!("FUNCTION LOAD \"#!lua name=lib\\n{function}\""));
    assert_eq!([loaded, other.line()], ["$3", "lib"]);
    let mut stats = || {
        other.send("FUNCTION STATS\r\n");
        let mut lines: Vec<String> = (0..4).map(|_| other.line()).collect();
        let more = if lines[3] == "$-1" { 0 } else { 20 };
        lines.extend((0..more).map(|_| other.line()));
        let engines: Vec<String> = (0..12).map(|_| other.line()).collect();
        assert_eq!(engines[1], "engines", "{lines:?} {engines:?}");
        lines.join(" ")
    };
    assert_eq!(stats(), NOBODY);
    script.send("FCALL endless 1 key argument\r\n");
    let shown = loop {
        match stats() {
            none if none == NOBODY => {}
            shown => break shown,
        }
    };
    let (command, time) = shown.split_once(" $11 duration_ms :").expect("a time");
    assert_eq!(
        command,
        "*4 $14 running_script *6 $4 name $7 endless $7 command *5 $5 FCALL $7 endless $1 1 $3 key $8 argument"
    );
    assert!(time.parse::<u64>().is_ok(), "{time}");
    assert_eq!(other.call("FUNCTION KILL"), "+OK");
    assert!(script.line().contains("Script killed by user"));
    other.send("FUNCTION STATS\r\n");
    let lines: Vec<String> = (0..4).map(|_| other.line()).collect();
    assert_eq!(lines.join(" "), NOBODY);
}

#[test]
fn commands_on_keys_locked_by_a_script_get_busy() {
    let place = Place::new();
    let server = start(&place);
    let (mut script, mut other, mut waiting) =
        (server.connect(), server.connect(), server.connect());
    script.send("EVAL 'redis.call(\"get\", KEYS[1]) while true do end' 1 k\r\n");
    // The command is suspended until the script counts as slow.
    waiting.send("SET k 1\r\n");
    assert_eq!([other.call("ECHO x"), other.line()], ["$1", "x"]);
    let reply = waiting.line();
    if reply != "+OK" {
        assert!(reply.starts_with("-BUSY"), "{reply}");
    }
    // A transaction also receives BUSY, and is discarded.
    waiting.send("MULTI\r\nSET k 1\r\nEXEC\r\nECHO x\r\n");
    assert_eq!(
        [waiting.line(), waiting.line()],
        ["+OK".to_string(), "+QUEUED".to_string()]
    );
    let reply = waiting.line();
    if reply == "*1" {
        assert_eq!(waiting.line(), "+OK");
    } else {
        let expected = "-EXECABORT Transaction discarded because of: BUSY";
        assert!(reply.starts_with(expected), "{reply}");
    }
    assert_eq!([waiting.line(), waiting.line()], ["$1", "x"]);
    kill(&mut other);
    assert!(script.line().contains("Script killed by user"));
    assert_eq!(waiting.call("SET k 2"), "+OK");
}

#[test]
fn transaction_with_a_slow_script_is_atomic() {
    let place = Place::new();
    let server = start(&place);
    let mut client = server.connect();
    for queued in [
        "MULTI",
        "INCR a",
        "EVAL 'for i = 1, 3e7 do end redis.call(\"incr\", KEYS[1]) return redis.call(\"incr\", KEYS[2])' 2 b a",
        "INCR a",
    ] {
        let reply = client.call(queued);
        assert!(reply == "+OK" || reply == "+QUEUED", "{reply}");
    }
    assert_eq!(client.call("EXEC"), "*3");
    let replies = [client.line(), client.line(), client.line()];
    assert_eq!(replies, [":1", ":2", ":3"]);
    assert_eq!(client.get("b"), "1");
}

#[test]
fn messages_stay_in_order_around_a_slow_script() {
    let place = Place::new();
    let server = start(&place);
    let (mut script, mut other) = (server.connect(), server.connect());
    script.send("HELLO 3\r\n");
    while !script.line().starts_with("*0") {}
    script.send("SUBSCRIBE news\r\n");
    for line in [">3", "$9", "subscribe", "$4", "news", ":1"] {
        assert_eq!(script.line(), line);
    }
    script.send(ENDLESS);
    // The first message may be delivered before the script begins to occupy the connection.
    for number in 0..1000 {
        assert_eq!(other.call(&format!("PUBLISH news {number}")), ":1");
    }
    kill(&mut other);
    let (mut messages, mut replies) = (0, 0);
    let mut lines = Vec::new();
    while messages + replies < 1001 {
        let line = script.line();
        if line.starts_with("-ERR") {
            assert!(line.contains("Script killed by user"));
            replies += 1;
            continue;
        }
        lines.push(line);
        if lines.len() == 7 {
            assert_eq!(lines[6], messages.to_string());
            messages += 1;
            lines.clear();
        }
    }
    assert_eq!(script.call("PING"), "+PONG");
}

#[test]
fn client_killed_during_its_script_is_closed_afterward() {
    let place = Place::new();
    let server = start(&place);
    let (mut script, mut other) = (server.connect(), server.connect());
    assert_eq!(script.call("CLIENT SETNAME long"), "+OK");
    assert_eq!(script.call("CLIENT ID"), ":2");
    script.send(ENDLESS);
    assert_eq!(other.call("CLIENT KILL ID 2"), ":1");
    kill(&mut other);
    // The reply to the script may be sent before the connection is closed.
    let mut last = script.line();
    if last.contains("Script killed by user") {
        last = script.line();
    }
    assert_eq!(last, "");
    assert_eq!(other.call("PING"), "+PONG");
}

#[test]
fn slow_scripts_beyond_the_thread_limit_are_refused() {
    let place = Place::new();
    let server = start(&place);
    let mut scripts: Vec<_> = (0..17).map(|_| server.connect()).collect();
    for script in &mut scripts {
        script.send(ENDLESS);
    }
    let mut other = server.connect();
    assert_eq!(other.call("SET key 1"), "+OK");
    // The script for which no thread is available is refused after five seconds.
    let (refused, found) = channel();
    let waiting: Vec<_> = scripts
        .into_iter()
        .map(|mut script| {
            let refused = refused.clone();
            thread::spawn(move || {
                // Ignore the error, because the receiver may already have been dropped.
                let _ = refused.send(script.line());
            })
        })
        .collect();
    let first = found.recv().expect("a reply");
    assert_eq!(first, "-BUSY too many long scripts are running");
    kill(&mut other);
    for thread in waiting {
        thread.join().expect("a reply");
    }
    let killed = |reply: &String| reply.contains("Script killed by user");
    assert_eq!(found.try_iter().filter(killed).count(), 16);
}

#[test]
fn ping_reports_a_busy_script() {
    let place = Place::new();
    let server = start(&place);
    let (mut script, mut other) = (server.connect(), server.connect());
    // As in one of Redis' tests, the second command runs once the script has been killed.
    script.send("EVAL 'while 1 do redis.call(\"ping\") end' 0\r\nPING\r\n");
    loop {
        let reply = other.call("PING");
        if reply != "+PONG" {
            assert!(reply.starts_with("-BUSY"), "{reply}");
            break;
        }
    }
    let stats = other.call("FUNCTION STATS");
    assert!(stats.starts_with("-BUSY"), "{stats}");
    let reply = other.call("FUNCTION KILL");
    assert!(reply.starts_with("-BUSY"), "{reply}");
    kill(&mut other);
    assert!(script.line().contains("Script killed by user"));
    assert_eq!(script.line(), "+PONG");
    assert_eq!(other.call("PING"), "+PONG");
}

#[test]
fn client_that_requests_the_debugger_cannot_run_its_script() {
    let place = Place::new();
    let server = start(&place);
    let (mut client, mut other) = (server.connect(), server.connect());
    client.send("SCRIPT DEBUG YES\r\nEVAL 'redis.call(\"set\", \"k\", 1)' 0\r\n");
    let reply = client.line();
    assert!(reply.starts_with("-ERR"), "{reply}");
    assert_eq!(client.line(), "");
    assert_eq!(other.call("EXISTS k"), ":0");
    assert_eq!(other.call("SCRIPT DEBUG NO"), "+OK");
    assert_eq!(other.call("PING"), "+PONG");
}

#[test]
fn slow_or_large_scripts_start_on_a_separate_thread() {
    let place = Place::new();
    let server = Server::start(&place, &["--threads", "1"]);
    let (mut script, mut other) = (server.connect(), server.connect());
    let text = "x".repeat(100_000);
    for _ in 0..3 {
        script.send("EVAL 'local t = redis.call(\"time\") for i = 1, 2e7 do end return 1' 0\r\n");
        assert_eq!(other.call("EXISTS none"), ":0");
        assert_eq!(script.line(), ":1");
        let head = "*4\r\n$4\r\nEVAL\r\n$15\r\nreturn #ARGV[1]\r\n$1\r\n0\r\n$100000\r\n";
        script.send(&format!("{head}{text}\r\n"));
        assert_eq!(script.line(), ":100000");
    }
}

#[test]
fn stalled_thread_gets_no_new_connections() {
    let place = Place::new();
    let file = place.path("conf");
    std::fs::write(&file, "enable-debug-command local\n").expect("room");
    let server = Server::start(&place, &["--threads", "2", "--config", &file]);
    let (mut one, mut other) = (server.connect(), server.connect());
    // Different threads serve the two clients. The next command occupies one of the threads.
    assert_eq!([one.call("PING"), other.call("PING")], ["+PONG", "+PONG"]);
    one.send("DEBUG SLEEP 3\r\nINCR order\r\n");
    // A thread counts as stalled after it has worked for 10 ms.
    let sent = Instant::now();
    while sent.elapsed() < Duration::from_millis(100) {
        thread::yield_now();
    }
    for number in 1..=8 {
        let mut client = server.connect();
        assert_eq!(client.call("INCR order"), format!(":{number}"));
        drop(client);
    }
    assert_eq!([one.line(), one.line()], ["+OK", ":9"]);
}
