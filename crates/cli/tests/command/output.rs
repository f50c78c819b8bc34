//! Output that cannot be written, and signals: what the command does where the world around it fails.

use std::fs::{self, OpenOptions};
use std::io::{self, BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::process::{Command, Stdio};

use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};
use rustix::io::Errno;
use rustix::process::Signal;

use crate::support::{Client, Place, Server, binary, command, signal_to, spare_port, succeed};

/// What a command does whose output goes somewhere: exit status and standard error.
fn run_into(arguments: &[&str], out: Stdio) -> (Option<i32>, String) {
    let mut command = command(arguments);
    command.stdout(out);
    let output = command.output().expect("the binary runs");
    let errors = String::from_utf8(output.stderr).expect("text");
    (output.status.code(), errors)
}

#[test]
fn a_full_device_is_one_line_and_status_one() {
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
fn a_reader_that_has_gone_is_no_error() {
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
fn a_file_that_may_not_grow_is_an_error() {
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
fn a_terminal_that_is_closed_ends_no_server() {
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
fn a_log_that_nobody_reads_keeps_no_server_from_ending() {
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
    // As full as it can be.
    while writer.write(&[b'x'; 512]).is_ok() {}
    while writer.write(b"x").is_ok() {}
    fcntl_setfl(&writer, flags).expect("a pipe");
    // Lines of the log are left out, and the server goes on.
    let mut attacker = Client::new(UnixStream::connect(&socket).expect("it listens"));
    attacker.send("POST / HTTP/1.1\r\nHost: x\r\n\r\n");
    assert_eq!(attacker.line(), "");
    let mut client = Client::new(UnixStream::connect(&socket).expect("it listens"));
    assert_eq!(client.call("SET k v"), "+OK");
    // Nor one that cannot begin, which signals do not end any more.
    let mut second = command(&["serve", &store, "--unixsocket", &socket, "--port", "0"]);
    second.stderr(writer.try_clone().expect("a descriptor"));
    assert_eq!(second.status().expect("the binary runs").code(), Some(1));
    signal_to(&server, Signal::TERM);
    assert_eq!(server.wait().expect("a child").code(), Some(0));
    drop((writer, log));
}

#[test]
fn no_command_keeps_a_signal_from_ending_the_server() {
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

/// Starts a server with a long value, has it run so many times a command on that, and tells it to end.
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
fn a_pipeline_ends_with_the_server() {
    let commands = "BITCOUNT long\r\n".repeat(10_000);
    let (status, log, _) = end_while_it_runs(&commands, ":5");
    assert_eq!((status, log.lines().count()), (Some(0), 1), "{log}");
}

#[test]
fn a_command_that_takes_for_ever_is_left_behind() {
    // One that reads the value ten thousand times.
    let command = format!("PING\r\nBITOP OR k{}\r\n", " long".repeat(10_000));
    let (status, log, place) = end_while_it_runs(&command, "+PONG");
    assert_eq!(status, Some(1), "{log}");
    assert!(log.contains("commands still run after 5 seconds"), "{log}");
    let store = place.path("served");
    assert_eq!(succeed(&["exec", "--store", &store, "GET", "k"]), "v\n");
    assert!(succeed(&["check", &store]).starts_with("sound"));
}

#[test]
fn debug_is_refused_unless_it_is_allowed() {
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
fn a_browser_that_is_made_to_talk_to_the_server_is_cut_off() {
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
        log.matches("Cross Protocol Scripting").count(),
        1,
        "told once a minute: {log}"
    );
}

#[test]
fn a_client_is_never_cut_off_in_silence() {
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
    // No limit by default: a client that reads has it all.
    assert_eq!(limit(&mut client, "normal 0 64mb 60"), 302);
    assert!(limit(&mut client, "normal 1mb 0 0") < 302);
    server.signal(Signal::TERM);
    let (_, log) = server.wait();
    let told = "more than its limit of 1048576 bytes (client-output-buffer-limit)";
    assert_eq!(log.matches(told).count(), 1, "{log}");
}

#[test]
fn one_thread_runs_commands_in_the_order_of_their_arrival() {
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
    // A subscription that nobody waited for is there when a later message comes.
    for number in 0..200 {
        let (mut subscriber, mut publisher) = (server.connect(), server.connect());
        subscriber.send(&format!("SUBSCRIBE channel{number}\r\n"));
        assert_eq!(publisher.call(&format!("PUBLISH channel{number} x")), ":1");
    }
}

#[test]
fn a_stock_redis_conf_is_read() {
    let stock = "/etc/redis/redis.conf";
    if fs::File::open(stock).is_err_and(|error| Errno::from_io_error(&error).is_some()) {
        println!("skipped: a stock redis.conf: there is none at {stock}");
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
fn what_is_not_done_is_named_once() {
    let place = Place::new();
    let file = place.path("conf");
    let text = "appendonly yes\nsave 900 1\nsave 60 10000\nrdbchecksum no\nrdbchecksum yes\n";
    fs::write(&file, text).expect("room");
    let server = Server::start(&place, &["--config", &file]);
    let named = server.start.lines().next().expect("a line");
    for directive in ["appendonly yes (", "save 900 1 (", "rdbchecksum"] {
        assert_eq!(named.matches(directive).count(), 1, "{named}");
    }
    assert!(!named.contains("save 60"), "{named}");
}

#[test]
fn who_listens_to_other_machines_without_a_password_is_warned() {
    let place = Place::new();
    let file = place.path("conf");
    fs::write(&file, "protected-mode no\n").expect("room");
    for (more, told) in [
        (&[][..], Some("are refused, as no password is set")),
        (&["--requirepass", "secret"], None),
        (&["--config", &file], Some("may run every command here")),
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
fn what_changes_who_may_do_what_is_not_skipped() {
    let place = Place::new();
    let file = place.path("conf");
    for (line, reason) in [
        ("user default on nopass ~* +@all", "there is one user"),
        ("include /etc/other.conf", "put its lines here"),
        ("rename-command CONFIG \"\"", "cannot be renamed"),
        ("tls-port 6380", "there is no TLS yet"),
    ] {
        fs::write(&file, format!("port 0\n{line}\n")).expect("room");
        let error = crate::support::fail(&["serve", &place.path("store"), "--config", &file], 2);
        assert!(
            error.contains(", line 2: ") && error.contains(reason),
            "{error}"
        );
    }
}
