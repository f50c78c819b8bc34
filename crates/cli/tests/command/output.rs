//! Tests the command's behavior when its environment fails: output errors and signals.

use std::fs::{self, OpenOptions};
use std::io::{self, BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::process::{Command, Stdio};

use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};
use rustix::io::Errno;
use rustix::process::Signal;

use crate::support::{Client, Place, Server, binary, command, signal_to, spare_port, succeed};

/// Runs a command with its standard output redirected to `out`. Returns its exit status and its
/// standard error.
fn run_into(arguments: &[&str], out: Stdio) -> (Option<i32>, String) {
    let mut command = command(arguments);
    command.stdout(out);
    let output = command.output().expect("the binary runs");
    let errors = String::from_utf8(output.stderr).expect("text");
    (output.status.code(), errors)
}

#[test]
fn full_device_prints_one_line_and_exits_with_status_one() {
    let place = Place::new();
    let store = place.store("store", &[("k", "v")]);
    let exec = ["exec", "--store", &store, "GET", "k"];
    for arguments in [
        &["stat", &store][..],
        &["list"],
        &["check", &store],
        &["recover", &store],
        &exec,
        &["--version"],
        &["help", "serve"],
    ] {
        let full = OpenOptions::new()
            .write(true)
            .open("/dev/full")
            .expect("a device");
        let (status, errors) = run_into(arguments, full.into());
        assert_eq!(status, Some(1), "{arguments:?}: {errors}");
        assert_eq!(
            errors,
            "undercroft: writing to standard output: No space left on device (os error 28)\n",
            "{arguments:?}"
        );
    }
}

#[test]
fn closed_pipe_is_not_an_error() {
    let place = Place::new();
    let store = place.store("store", &[("k", "v")]);
    for arguments in [
        &["stat", &store][..],
        &["list"],
        &["check", &store],
        &["recover", &store],
    ] {
        let (reader, writer) = io::pipe().expect("a pipe");
        drop(reader);
        let ended = run_into(arguments, writer.into());
        assert_eq!(ended, (Some(0), String::new()), "{arguments:?}");
    }
}

#[test]
fn file_size_limit_is_an_error() {
    let place = Place::new();
    let path = place.path("store");
    let line = format!("ulimit -f 8; exec \"$0\" exec --create --store '{path}' SET k v");
    let output = Command::new("sh")
        .args(["-c", &line])
        .arg(binary())
        .output()
        .expect("a shell");
    let errors = String::from_utf8(output.stderr).expect("text");
    assert_eq!(output.status.code(), Some(1), "{errors}");
    assert!(
        errors.lines().count() == 1 && errors.contains("File too large"),
        "{errors}"
    );
    assert!(!fs::exists(&path).expect("a directory"));
}

#[test]
fn closing_the_terminal_does_not_end_the_server() {
    let place = Place::new();
    let mut server = Server::start(&place, &[]);
    server.signal(Signal::HUP);
    let mut client = server.connect();
    assert_eq!(client.call("SET k v"), "+OK");
    server.signal(Signal::TERM);
    let (status, log) = server.wait();
    assert_eq!(
        (status, log.as_str()),
        (Some(0), "undercroft: terminated: stopping\n")
    );
}

#[test]
fn full_log_pipe_does_not_block_shutdown() {
    let place = Place::new();
    let (store, socket) = (place.path("served"), place.path("socket"));
    let (reader, mut writer) = io::pipe().expect("a pipe");
    let mut server = command(&[
        "serve",
        &store,
        "--unixsocket",
        &socket,
        "--port",
        "0",
        "--threads",
        "1",
    ])
    .stderr(writer.try_clone().expect("a descriptor"))
    .spawn()
    .expect("the binary runs");
    let mut log = BufReader::new(reader);
    let mut line = String::new();
    while !line.ends_with("the data stays\n") {
        log.read_line(&mut line).expect("text");
    }
    let flags = fcntl_getfl(&writer).expect("a pipe");
    fcntl_setfl(&writer, flags | OFlags::NONBLOCK).expect("a pipe");
    // Fill the pipe completely, so that further writes would block.
    while writer.write(&[b'x'; 512]).is_ok() {}
    while writer.write(b"x").is_ok() {}
    fcntl_setfl(&writer, flags).expect("a pipe");
    // Log lines are dropped, and the server continues to run.
    let mut attacker = Client::new(UnixStream::connect(&socket).expect("it listens"));
    attacker.send("POST / HTTP/1.1\r\nHost: x\r\n\r\n");
    assert_eq!(attacker.line(), "");
    let mut client = Client::new(UnixStream::connect(&socket).expect("it listens"));
    assert_eq!(client.call("SET k v"), "+OK");
    // A server that fails to start must not block on the full pipe either, because signals no
    // longer terminate it.
    let mut second = command(&["serve", &store, "--unixsocket", &socket, "--port", "0"]);
    second.stderr(writer.try_clone().expect("a descriptor"));
    assert_eq!(second.status().expect("the binary runs").code(), Some(1));
    signal_to(&server, Signal::TERM);
    assert_eq!(server.wait().expect("a child").code(), Some(0));
    drop((writer, log));
}

#[test]
fn signal_ends_the_server_despite_running_commands() {
    let place = Place::new();
    let file = place.path("conf");
    fs::write(&file, "enable-debug-command local\n").expect("room");
    let mut server = Server::start(&place, &["--config", &file, "--threads", "2"]);
    let mut clients = [(); 4].map(|()| server.connect());
    for client in &mut clients {
        assert_eq!(client.call("DEBUG SLEEP 0"), "+OK");
    }
    for client in &mut clients {
        client.send("DEBUG SLEEP 1000000\r\n");
    }
    server.signal(Signal::TERM);
    assert_eq!(server.wait().0, Some(0));
}

/// Starts a server with a long value, runs commands on it, and terminates the server while they are
/// running.
fn end_while_it_runs(commands: &str, first_reply: &str) -> (Option<i32>, String, Place) {
    let place = Place::new();
    let mut server = Server::start(&place, &["--threads", "2"]);
    let mut client = server.connect();
    assert_eq!(client.call("SETRANGE long 99999999 v"), ":100000000");
    assert_eq!(client.call("SET k v"), "+OK");
    client.send(commands);
    assert_eq!(client.line(), first_reply);
    server.is_busy_for(20);
    server.signal(Signal::TERM);
    let (status, log) = server.wait();
    assert!(!fs::exists(&server.socket).expect("a directory"));
    (status, log, place)
}

#[test]
fn pipeline_is_aborted_when_the_server_stops() {
    let commands = "BITCOUNT long\r\n".repeat(10_000);
    let (status, log, _) = end_while_it_runs(&commands, ":5");
    assert_eq!((status, log.lines().count()), (Some(0), 1), "{log}");
}

#[test]
fn endless_command_is_abandoned_at_shutdown() {
    // Send a single command that reads the long value ten thousand times.
    let command = format!("PING\r\nBITOP OR k{}\r\n", " long".repeat(10_000));
    let (status, log, place) = end_while_it_runs(&command, "+PONG");
    assert_eq!(status, Some(1), "{log}");
    assert!(
        log.contains("commands are still running after 5 seconds"),
        "{log}"
    );
    let store = place.path("served");
    assert_eq!(succeed(&["exec", "--store", &store, "GET", "k"]), "v\n");
    assert!(succeed(&["check", &store]).starts_with("sound"));
}

#[test]
fn debug_is_refused_unless_allowed() {
    let place = Place::new();
    let server = Server::start(&place, &[]);
    let mut client = server.connect();
    let refused = client.call("DEBUG SLEEP 0");
    assert!(
        refused.starts_with("-ERR DEBUG command not allowed."),
        "{refused}"
    );
    assert_eq!(client.call("MULTI"), "+OK");
    assert_eq!(client.call("DEBUG SLEEP 0"), refused);
    assert!(client.call("EXEC").starts_with("-EXECABORT"));
    assert!(
        client
            .call("CONFIG SET enable-debug-command yes")
            .starts_with("-ERR CONFIG SET failed")
    );
}

#[test]
fn http_requests_are_cut_off() {
    let place = Place::new();
    let mut server = Server::start(&place, &[]);
    for request in [
        "POST / HTTP/1.1\r\nSET k v\r\n",
        "GET / HTTP/1.1\r\nHost: localhost\r\nSET k v\r\n",
    ] {
        let mut browser = server.connect();
        browser.send(request);
        let replies: Vec<String> =
            std::iter::from_fn(|| Some(browser.line()).filter(|line| !line.is_empty())).collect();
        assert!(
            replies
                .iter()
                .all(|reply| reply.starts_with("-ERR wrong number")),
            "{replies:?}"
        );
    }
    assert_eq!(server.connect().get("k"), "(nil)");
    server.signal(Signal::TERM);
    let (_, log) = server.wait();
    assert_eq!(
        log.matches("cross-protocol scripting").count(),
        1,
        "told once a minute: {log}"
    );
}

#[test]
fn clients_are_never_cut_off_without_a_log_line() {
    let place = Place::new();
    let mut server = Server::start(&place, &[]);
    let mut client = server.connect();
    assert_eq!(client.call("SETRANGE k 99999 v"), ":100000");
    let limit = |client: &mut Client<UnixStream>, words: &str| {
        let set = format!("CONFIG SET client-output-buffer-limit '{words}'");
        assert_eq!(client.call(&set), "+OK");
        client.send(&format!("MULTI\r\n{}EXEC\r\n", "GET k\r\n".repeat(100)));
        std::iter::from_fn(|| Some(client.line()).filter(|line| !line.is_empty()))
            .take(1 + 100 + 1 + 200)
            .count()
    };
    // By default, the output buffer has no hard limit: a client that reads its replies receives all
    // of them.
    assert_eq!(limit(&mut client, "normal 0 64mb 60"), 302);
    assert!(limit(&mut client, "normal 1mb 0 0") < 302);
    server.signal(Signal::TERM);
    let (_, log) = server.wait();
    let told = "more than the limit of 1048576 bytes (client-output-buffer-limit)";
    assert_eq!(log.matches(told).count(), 1, "{log}");
}

#[test]
fn one_thread_runs_commands_in_arrival_order() {
    let place = Place::new();
    let server = Server::start(&place, &["--threads", "1"]);
    let mut clients: Vec<_> = (0..50).map(|_| server.connect()).collect();
    for client in &mut clients {
        client.send("BLPOP list 0\r\n");
    }
    let mut other = server.connect();
    for number in 0..50 {
        assert_eq!(other.call(&format!("RPUSH list {number}")), ":1");
    }
    for (number, client) in clients.iter_mut().enumerate() {
        let lines: Vec<String> = (0..5).map(|_| client.line()).collect();
        assert_eq!(lines[4], number.to_string());
    }
    // A subscription takes effect before any later message, even if the subscriber did not wait for
    // the confirmation.
    for number in 0..200 {
        let (mut subscriber, mut publisher) = (server.connect(), server.connect());
        subscriber.send(&format!("SUBSCRIBE channel{number}\r\n"));
        assert_eq!(publisher.call(&format!("PUBLISH channel{number} x")), ":1");
    }
}

#[test]
fn stock_redis_conf_is_accepted() {
    let stock = "/etc/redis/redis.conf";
    if fs::File::open(stock).is_err_and(|error| Errno::from_io_error(&error).is_some()) {
        println!("skipped: a stock redis.conf: not found at {stock}");
        return;
    }
    let place = Place::new();
    let server = Server::start(&place, &["--config", stock]);
    let named = server.start.lines().next().expect("a line");
    for directive in [
        "daemonize yes",
        "pidfile",
        "dir",
        "replica-read-only",
        "rdbchecksum",
    ] {
        assert!(named.contains(directive), "{named}");
    }
    assert_eq!(server.connect().call("PING"), "+PONG");
}

#[test]
fn unsupported_directives_are_reported_once() {
    let place = Place::new();
    let file = place.path("conf");
    let text = "appendfsync no\nsave 900 1\nsave 60 10000\nrdbchecksum no\nrdbchecksum yes\n";
    fs::write(&file, text).expect("room");
    let server = Server::start(&place, &["--config", &file]);
    let named = server.start.lines().next().expect("a line");
    for directive in ["appendfsync no (", "save 900 1 (", "rdbchecksum"] {
        assert_eq!(named.matches(directive).count(), 1, "{named}");
    }
    assert!(!named.contains("save 60"), "{named}");
}

#[test]
fn open_address_without_password_is_warned_about() {
    let place = Place::new();
    let file = place.path("conf");
    fs::write(&file, "protected-mode no\n").expect("room");
    for (more, told) in [
        (&[][..], Some("are refused because no password is set")),
        (&["--config", &file], Some("can run every command here")),
        (&["--requirepass", "secret"], None),
        // The password stays in the store.
        (&["--config", &file], None),
    ] {
        let port = spare_port().to_string();
        let mut arguments = vec!["--port", &port, "--bind", "0.0.0.0"];
        arguments.extend(more);
        let mut server = Server::start(&place, &arguments);
        server.signal(Signal::TERM);
        let (_, log) = server.wait();
        let lines = log.lines().count();
        assert!(log.contains(told.unwrap_or("")), "{log}");
        assert_eq!(lines, 1 + usize::from(told.is_some()), "{log}");
    }
}

#[test]
fn directives_about_permissions_are_refused_not_skipped() {
    let place = Place::new();
    let file = place.path("conf");
    for (line, reason) in [
        (
            "include /etc/other.conf",
            "included files are not read; copy their lines here",
        ),
        ("rename-command NOSUCH x", "there is no command 'NOSUCH'"),
        (
            "tls-replication yes",
            "undercroft follow rediss://HOST:PORT",
        ),
    ] {
        fs::write(&file, format!("port 0\n{line}\n")).expect("room");
        let error = crate::support::fail(&["serve", &place.path("store"), "--config", &file], 2);
        assert!(
            error.contains(", line 2: ") && error.contains(reason),
            "{error}"
        );
    }
}
