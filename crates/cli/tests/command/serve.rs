//! Tests the subcommand serve: sockets, settings and clean shutdown.

use std::fs;
use std::io::{BufRead, BufReader};
use std::net::{IpAddr, TcpStream, UdpSocket};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::Signal;
use undercroft_engine::{Options, Store};

use crate::support::{Client, Place, Server, binary, connect_tcp, fail, spare_port, succeed};

/// A time limit well above the time that a server may continue to serve a removed store.
const LONG: Duration = Duration::from_secs(30);

#[test]
fn signal_ends_the_server_cleanly_and_the_data_stays() {
    for signal in [Signal::TERM, Signal::INT] {
        let place = Place::new();
        let mut server = Server::start(&place, &[]);
        let mode = fs::metadata(&server.socket)
            .expect("a socket")
            .permissions()
            .mode();
        assert_eq!(mode & 0o777, 0o600);
        assert_eq!(server.connect().call("SET k v"), "+OK");
        server.signal(signal);
        let (status, log) = server.wait();
        assert_eq!(status, Some(0), "{log}");
        assert!(log.ends_with("stopping\n"), "{log}");
        assert!(!Path::new(&server.socket).exists());
        assert_eq!(
            succeed(&["exec", "--store", &place.path("served"), "GET", "k"]),
            "v\n"
        );
        assert!(succeed(&["check", "--store", &place.path("served")]).starts_with("sound"));
    }
}

#[test]
fn memory_for_input_of_a_killed_server_is_freed() {
    let place = Place::new();
    let mut server = Server::start(&place, &[]);
    assert_eq!(server.connect().call("SET k old"), "+OK");
    let store = Store::open(Path::new(&place.path("served")), true).expect("the server made it");
    let before = store.used_memory();
    let mut client = server.connect();
    let half = "x".repeat(500_000);
    client.send(&format!("*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$1000000\r\n{half}"));
    while store.used_memory() < before + 1_000_000 {
        std::thread::yield_now();
    }
    server.signal(Signal::KILL);
    server.wait();
    succeed(&["recover", "--store", &place.path("served")]);
    assert!(store.used_memory() <= before);
    assert_eq!(
        succeed(&["exec", "--store", &place.path("served"), "GET", "k"]),
        "old\n"
    );
    assert!(succeed(&["check", "--store", &place.path("served")]).starts_with("sound"));
}

#[test]
fn shutdown_ends_the_server() {
    let place = Place::new();
    let mut server = Server::start(&place, &["--threads", "3"]);
    let mut client = server.connect();
    client.send("SHUTDOWN NOSAVE\r\n");
    assert_eq!(client.line(), "");
    assert_eq!(server.wait(), (Some(0), String::new()));
}

#[test]
fn live_socket_is_refused_and_dead_socket_replaced() {
    let place = Place::new();
    let mut server = Server::start(&place, &[]);
    let (store, socket) = (place.path("served"), server.socket.clone());
    let again = [
        "serve",
        "--store",
        &store,
        "--port",
        "0",
        "--unixsocket",
        &socket,
    ];
    let line = fail(&again, 1);
    assert_eq!(
        line,
        format!("undercroft: listening on {socket}: another server is already listening there")
    );
    server.signal(Signal::KILL);
    server.wait();
    assert!(Path::new(&socket).exists(), "no process has cleaned up");
    let server = Server::start(&place, &[]);
    assert_eq!(server.connect().call("PING"), "+PONG");
    let file = place.path("file");
    fs::write(&file, b"mine").expect("room");
    let line = fail(
        &[
            "serve",
            "--store",
            &store,
            "--port",
            "0",
            "--unixsocket",
            &file,
        ],
        1,
    );
    assert!(
        line.ends_with("expected a free path, found a file that is not a socket"),
        "{line}"
    );
    assert_eq!(fs::read(&file).expect("still there"), b"mine");
}

#[test]
fn having_no_address_to_listen_on_is_an_error() {
    let place = Place::new();
    let store = place.path("store");
    let line = fail(&["serve", "--store", &store, "--port", "0"], 1);
    assert!(line.contains("expected a port above 0"), "{line}");
    let line = fail(
        &[
            "serve",
            "--store",
            &store,
            "--port",
            "1",
            "--bind",
            "203.0.113.1",
        ],
        1,
    );
    assert!(
        line.starts_with("undercroft: listening on 203.0.113.1:1: "),
        "{line}"
    );
    let line = fail(&["serve", "--store", &store, "--threads", "none"], 2);
    assert!(
        line.starts_with("undercroft: --threads: expected a number"),
        "{line}"
    );
    let line = fail(&["serve", "--config", &place.path("none")], 1);
    assert!(
        line.starts_with("undercroft: reading the configuration "),
        "{line}"
    );
}

/// Starts a server with a limit on open descriptors, and stops it once it is listening. Returns its
/// exit status and its log.
fn serve_with(descriptors: u32) -> (Option<i32>, String) {
    let place = Place::new();
    let mut child = Command::new("sh")
        .args(["-c", "ulimit -n $1; shift; exec \"$@\"", "sh"])
        .arg(descriptors.to_string())
        .arg(binary())
        .args(["serve", "--store", &place.path("store"), "--port", "0"])
        .args(["--unixsocket", &place.path("socket")])
        .stdin(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .expect("a shell");
    let mut errors = BufReader::new(child.stderr.take().expect("it is a pipe"));
    let mut said = String::new();
    while !said.ends_with("the data stays\n") {
        if errors.read_line(&mut said).expect("text") == 0 {
            break;
        }
    }
    child.kill().expect("it is ours");
    (child.wait().expect("it ended").code(), said)
}

#[test]
fn few_descriptors_limit_the_clients_or_fail() {
    let (status, said) = serve_with(50);
    assert_eq!(status, Some(1), "{said}");
    assert_eq!(
        said,
        "undercroft: starting with this limit on open files: the server needs 64 file descriptors \
         and one more for each client; raise the limit with ulimit -n\n"
    );
    let (status, said) = serve_with(70);
    assert_eq!(status, None, "{said}");
    assert!(
        said.starts_with(
            "undercroft: the limit on open file descriptors allows 6 clients, not the requested 10000"
        ),
        "{said}"
    );
}

#[test]
fn settings_without_effect_from_containers_are_accepted() {
    let place = Place::new();
    let server = Server::start(&place, &[]);
    let mut client = server.connect();
    for setting in [
        "appendonly no",
        "appendfsync everysec",
        "appendfsync EVERYSEC",
        "stop-writes-on-bgsave-error no",
        "stop-writes-on-bgsave-error yes",
        "protected-mode no",
        "min-replicas-to-write 0",
        "min-slaves-to-write 0",
        "maxmemory-policy noeviction",
        "notify-keyspace-events KEA",
    ] {
        assert_eq!(
            client.call(&format!("CONFIG SET {setting}")),
            "+OK",
            "{setting}"
        );
    }
    let refused = client.call("CONFIG SET save '900 1'");
    assert!(refused.contains("schedule of snapshots"), "{refused}");
}

#[test]
fn settings_come_from_the_file_and_the_command_line() {
    let place = Place::new();
    let file = place.path("conf");
    let port = spare_port();
    let text = format!("port {port}\nrequirepass secret\ntimeout 77\nmaxmemory 100mb\n");
    fs::write(&file, text).expect("room");
    let port_text = port.to_string();
    let server = Server::start(
        &place,
        &["--config", &file, "--maxclients", "5", "--port", &port_text],
    );
    let mut client = connect_tcp(port);
    assert_eq!(client.call("GET k"), "-NOAUTH Authentication required.");
    assert_eq!(
        client.call("AUTH wrong"),
        "-WRONGPASS invalid username-password pair or user is disabled."
    );
    assert_eq!(client.call("AUTH secret"), "+OK");
    for (name, value) in [
        ("timeout", "77"),
        ("maxclients", "5"),
        ("maxmemory", "104857600"),
    ] {
        assert_eq!(client.call(&format!("CONFIG GET {name}")), "*2");
        let lines: Vec<String> = (0..4).map(|_| client.line()).collect();
        assert_eq!(lines[3], value, "{name}");
    }
    let mut others: Vec<_> = (0..4).map(|_| server.connect()).collect();
    assert!(
        others
            .iter_mut()
            .all(|other| other.call("AUTH secret") == "+OK")
    );
    assert_eq!(
        server.connect().line(),
        "-ERR max number of clients reached"
    );
    assert_eq!(client.call("CONFIG SET maxclients 6"), "+OK");
    assert_eq!(server.connect().call("AUTH secret"), "+OK");
    drop(server);
}

#[test]
fn killed_and_quitting_clients_are_closed() {
    let place = Place::new();
    let server = Server::start(&place, &["--threads", "2"]);
    let mut clients: Vec<_> = (0..4).map(|_| server.connect()).collect();
    let ids: Vec<String> = clients
        .iter_mut()
        .map(|client| client.call("CLIENT ID"))
        .collect();
    let (killer, others) = clients.split_first_mut().expect("four");
    for (other, id) in others.iter_mut().zip(&ids[1..]) {
        assert_eq!(killer.call(&format!("CLIENT KILL ID {}", &id[1..])), ":1");
        assert_eq!(other.line(), "", "closed");
    }
    killer.send("SET k v\r\nQUIT\r\nSET k w\r\n");
    let lines: Vec<String> = (0..3).map(|_| killer.line()).collect();
    assert_eq!(lines, ["+OK", "+OK", ""]);
    assert_eq!(server.connect().get("k"), "v");
}

#[test]
fn clients_with_simultaneous_commands_all_get_replies() {
    let place = Place::new();
    let server = Server::start(&place, &["--threads", "1"]);
    let mut clients: Vec<_> = (0..50).map(|_| server.connect()).collect();
    for (number, client) in clients.iter_mut().enumerate() {
        assert_eq!(client.call("PING"), "+PONG", "{number}");
    }
    for round in 0..3 {
        server.signal(Signal::STOP);
        for (number, client) in clients.iter_mut().enumerate() {
            // One client quits after its reply, another leaves a command incomplete, and a third
            // sends more commands than the server processes before it serves the next client.
            match (round, number) {
                (2, 7) => client.send("ECHO 7\r\nQUIT\r\n"),
                (_, 8) => client.send("ECHO 8\r\n*2\r\n$4\r\nEC"),
                (_, 9) => client.send(&"ECHO 9\r\n".repeat(1000)),
                _ => client.send(&format!("ECHO {number}\r\n")),
            }
        }
        server.signal(Signal::CONT);
        for (number, client) in clients.iter_mut().enumerate() {
            let times = if number == 9 { 1000 } else { 1 };
            for _ in 0..times {
                let digits = number.to_string();
                assert_eq!(client.line(), format!("${}", digits.len()), "{number}");
                assert_eq!(client.line(), digits);
            }
        }
        clients[8].send("HO\r\n$1\r\nx\r\n");
        assert_eq!([clients[8].line(), clients[8].line()], ["$1", "x"]);
    }
    assert_eq!([clients[7].line(), clients[7].line()], ["+OK", ""]);
}

#[test]
fn pause_suspends_writes_until_it_ends() {
    let place = Place::new();
    let server = Server::start(&place, &["--threads", "2"]);
    let (mut one, mut other) = (server.connect(), server.connect());
    assert_eq!(one.call("SET k v"), "+OK");
    assert_eq!(one.call("CLIENT PAUSE 1000000 WRITE"), "+OK");
    // Without the pause, the write would run in the same turn as the preceding read.
    other.send("GET k\r\nSET k w\r\nGET k\r\n");
    assert_eq!([other.line(), other.line()], ["$1", "v"]);
    assert_eq!(one.get("k"), "v");
    assert_eq!(one.call("CLIENT UNPAUSE"), "+OK");
    let lines: Vec<String> = (0..3).map(|_| other.line()).collect();
    assert_eq!(lines, ["+OK", "$1", "w"]);
    // Pause all commands briefly.
    assert_eq!(one.call("CLIENT PAUSE 50"), "+OK");
    assert_eq!(one.get("k"), "w");
}

#[test]
fn monitors_see_the_commands_of_all_threads() {
    let place = Place::new();
    let server = Server::start(&place, &["--threads", "2"]);
    let mut monitors = [(); 2].map(|()| server.connect());
    for monitor in &mut monitors {
        assert_eq!(monitor.call("MONITOR"), "+OK");
    }
    let mut clients = [(); 2].map(|()| server.connect());
    for number in 0..10 {
        let client = &mut clients[number % 2];
        assert_eq!(client.call(&format!("SET k {number}")), "+OK");
    }
    let tail = |line: String| line.split_once(" [").expect("a time").1.to_owned();
    for monitor in &mut monitors {
        for number in 0..10 {
            let expected = format!("0 unix:{}] \"SET\" \"k\" \"{number}\"", server.socket);
            assert_eq!(tail(monitor.line()), expected);
        }
    }
    // After RESET, a monitor is an ordinary client and can access data.
    let [first, second] = &mut monitors;
    let refused = "-ERR Replica can't interact with the keyspace";
    assert_eq!(first.call("GET k"), refused);
    assert_eq!(first.call("RESET"), "+RESET");
    assert_eq!(first.get("k"), "9");
    let expected = format!("0 unix:{}] \"RESET\"", server.socket);
    assert_eq!(tail(second.line()), expected);
    assert!(second.line().ends_with("] \"GET\" \"k\""));
    assert_eq!(second.call("QUIT"), "+OK");
    assert_eq!(clients[0].call("SET k v"), "+OK");
}

#[test]
fn monitor_that_does_not_read_is_closed() {
    let place = Place::new();
    let server = Server::start(&place, &["--threads", "2"]);
    let (mut monitor, mut client) = (server.connect(), server.connect());
    let limit = "CONFIG SET client-output-buffer-limit 'pubsub 100000 0 0'";
    assert_eq!(client.call(limit), "+OK");
    assert_eq!(monitor.call("MONITOR"), "+OK");
    let id = monitor.call("CLIENT ID");
    let list = format!("CLIENT LIST ID {}", &id[1..]);
    let text = "x".repeat(50_000);
    // Send far more data than the socket buffers hold and the limit permits.
    for _ in 0..2_000 {
        assert_eq!(client.call(&format!("ECHO {text}")), "$50000");
        assert_eq!(client.line(), text);
        let header = client.call(&list);
        client.line();
        if header == "$0" {
            return;
        }
        client.line();
    }
    panic!("the monitor is still there");
}

#[test]
fn idle_clients_are_closed_unless_they_wait() {
    let place = Place::new();
    // With a single thread, all clients are checked together.
    let server = Server::start(&place, &["--threads", "1"]);
    let (mut subscribed, mut blocked) = (server.connect(), server.connect());
    assert_eq!(subscribed.call("SUBSCRIBE news"), "*3");
    for line in ["$9", "subscribe", "$4", "news", ":1"] {
        assert_eq!(subscribed.line(), line);
    }
    blocked.send("BLPOP list 0\r\n");
    let mut idle = server.connect();
    assert_eq!(idle.call("CONFIG SET timeout 1"), "+OK");
    // An empty line means that the server has closed the connection.
    assert_eq!(idle.line(), "");
    // The subscribed client and the blocked client have been idle for longer, but remain connected.
    let mut client = server.connect();
    assert_eq!(client.call("PUBLISH news x"), ":1");
    for line in ["*3", "$7", "message", "$4", "news", "$1", "x"] {
        assert_eq!(subscribed.line(), line);
    }
    assert_eq!(client.call("RPUSH list y"), ":1");
    for line in ["*2", "$4", "list", "$1", "y"] {
        assert_eq!(blocked.line(), line);
    }
}

/// Returns a non-loopback address of this machine, if it has one. Sends no packets.
fn outer_address() -> Option<IpAddr> {
    let socket = UdpSocket::bind("0.0.0.0:0").ok()?;
    // This address is reserved for documentation and is never contacted: connecting a UDP socket
    // only selects the local address.
    socket.connect("192.0.2.1:9").ok()?;
    let address = socket.local_addr().ok()?.ip();
    (!address.is_loopback() && !address.is_unspecified()).then_some(address)
}

#[test]
fn remote_clients_need_a_password() {
    let Some(address) = outer_address() else {
        println!("not tested: this machine has no address but loopback");
        return;
    };
    let (place, port) = (Place::new(), spare_port());
    let (bind, number) = (address.to_string(), port.to_string());
    let server = Server::start(&place, &["--port", &number, "--bind", &bind]);
    let outside = || Client::new(TcpStream::connect((address, port)).expect("it listens"));
    let mut denied = outside();
    assert!(denied.line().starts_with("-DENIED "));
    assert_eq!(denied.line(), "", "the end of the connection");
    let mut inside = server.connect();
    assert_eq!(inside.call("CONFIG SET protected-mode no"), "+OK");
    assert_eq!(outside().call("PING"), "+PONG");
    assert_eq!(
        inside.call("CONFIG SET protected-mode yes requirepass secret"),
        "+OK"
    );
    let mut client = outside();
    assert_eq!(client.call("PING"), "-NOAUTH Authentication required.");
    assert_eq!(client.call("AUTH secret"), "+OK");
    assert_eq!(client.call("PING"), "+PONG");
}

#[test]
fn server_switches_to_a_new_store_of_the_same_name() {
    let place = Place::new();
    let server = Server::start(&place, &[]);
    let served = place.path("served");
    let mut idle: Vec<_> = (0..8).map(|_| server.connect()).collect();
    for client in &mut idle {
        assert_eq!(client.call("SELECT 3"), "+OK");
    }
    let mut holders: Vec<_> = (0..3).map(|_| server.connect()).collect();
    assert_eq!(holders[0].call("WATCH k"), "+OK");
    assert_eq!(holders[1].call("MULTI"), "+OK");
    assert!(holders[2].call("SUBSCRIBE news").starts_with('*'));
    let mut waiter = server.connect();
    waiter.send("BLPOP jobs 0\r\n");
    for round in 0..2 {
        assert_eq!(idle[0].call("SET old 1"), "+OK");
        if round == 0 {
            succeed(&["rm", "--yes", &served]);
        } else {
            let other = place.path("other");
            let made = Store::create(Path::new(&other), &Options::default());
            let made = made.and_then(|store| store.set(3, b"theirs", b"1"));
            made.expect("a store");
            fs::rename(&other, &served).expect("a store");
        }
        // The server checks the path of its file once a second. Until then, it serves the old
        // store.
        let begun = Instant::now();
        while idle[0].call("EXISTS old") != ":0" {
            assert!(begun.elapsed() < LONG, "still the old store");
            let reply = idle[0].call("SET k v");
            assert!(
                reply == "+OK" || reply.starts_with("-ERR the store file "),
                "{reply}"
            );
        }
        for client in &mut idle {
            let theirs = if round == 1 { ":1" } else { ":0" };
            assert_eq!(client.call("EXISTS theirs"), theirs);
            assert_eq!(client.call("SET k v"), "+OK");
        }
        if round == 0 {
            let told = waiter.line();
            assert!(told.starts_with("-ERR the store file "), "{told}");
            assert_eq!(waiter.call("PING"), "+PONG");
            for client in &mut holders {
                while !client.line().is_empty() {}
            }
        }
    }
    let mut late = server.connect();
    assert!(late.call("SUBSCRIBE news").starts_with('*'));
    assert_eq!(idle[1].call("PUBLISH news text"), ":1");
    waiter.send("BLPOP jobs 0\r\n");
    assert_eq!(idle[1].call("SELECT 0"), "+OK");
    assert_eq!(idle[1].call("RPUSH jobs one"), ":1");
    assert_eq!(waiter.line(), "*2");
}

#[test]
fn client_that_has_quit_receives_no_message() {
    let place = Place::new();
    let server = Server::start(&place, &["--threads", "3"]);
    let mut publisher = server.connect();
    // Without the guarantee, a message in 200 is counted.
    for _ in 0..1000 {
        let mut client = server.connect();
        client.send("SUBSCRIBE news\r\n");
        while client.line() != ":1" {}
        assert_eq!(client.call("QUIT"), "+OK");
        assert_eq!(publisher.call("PUBLISH news m"), ":0");
    }
}
