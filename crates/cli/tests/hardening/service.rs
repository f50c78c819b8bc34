//! Plays systemd: passes sockets to the server, and receives its notifications.

use std::net::{TcpListener, TcpStream};
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::net::{UnixDatagram, UnixListener, UnixStream};
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use rustix::io::{FdFlags, fcntl_setfd};
use rustix::process::Signal;

use crate::support::{Client, LONG, Place, Server};

/// Returns the command of a server that inherits sockets, as systemd starts it.
fn activated(server: &Command, sockets: &[(&dyn AsFd, &str)]) -> Command {
    let mut script = String::new();
    let numbers: Vec<i32> = sockets
        .iter()
        .map(|(socket, _)| {
            let socket = socket.as_fd();
            fcntl_setfd(socket, FdFlags::empty()).expect("a descriptor");
            socket.as_raw_fd()
        })
        .collect();
    // Move them out of the way first, because a socket may have the number of another one.
    for (at, number) in numbers.iter().enumerate() {
        script += &format!("exec {}<&{number}; ", 100 + at);
    }
    for at in 0..numbers.len() {
        script += &format!("exec {}<&{}; ", 3 + at, 100 + at);
    }
    let names: Vec<&str> = sockets.iter().map(|(_, name)| *name).collect();
    script += "LISTEN_PID=$$ exec \"$@\"";
    let mut command = Command::new("bash");
    command
        .args(["-c", &script, "bash"])
        .arg(server.get_program())
        .args(server.get_args())
        .env_clear()
        .env("LISTEN_FDS", sockets.len().to_string())
        .env("LISTEN_FDNAMES", names.join(":"));
    command
}

#[test]
fn sockets_of_systemd_replace_those_of_the_configuration() {
    let place = Place::new();
    let tls = crate::support::command(&["tls", "init", &place.path("tls"), "--host", "localhost"]);
    let made = { tls }.output().expect("the binary runs");
    assert!(made.status.success(), "{made:?}");
    let socket = place.path("activated");
    let tcp = TcpListener::bind("127.0.0.1:0").expect("loopback");
    let encrypted = TcpListener::bind("127.0.0.1:0").expect("loopback");
    let unix = UnixListener::bind(&socket).expect("space");
    let lines = format!(
        "tls-cert-file {0}/server.pem\ntls-key-file {0}/server.key\ntls-auth-clients no",
        place.path("tls")
    );
    let sockets: [(&dyn AsFd, &str); 3] =
        [(&tcp, "redis"), (&encrypted, "redis-tls"), (&unix, "unix")];
    let mut server = Server::of(&place, activated(&place.serve(&lines), &sockets));
    let address = tcp.local_addr().expect("bound");
    let mut client = Client::new(TcpStream::connect(address).expect("it listens"));
    assert_eq!(client.call("SET k v"), "+OK");
    let info = client.call("INFO server");
    assert!(
        info.contains(&format!("tcp_port:{}\r\n", address.port())),
        "{info}"
    );
    let mut client = Client::new(UnixStream::connect(&socket).expect("it listens"));
    assert_eq!(client.call("GET k"), "v");
    let list = client.call("CLIENT LIST");
    assert!(list.contains(&format!("addr={socket}:0")), "{list}");
    // The socket for TLS expects a handshake.
    let address = encrypted.local_addr().expect("bound");
    let mut client = Client::new(TcpStream::connect(address).expect("it listens"));
    assert!(client.call("PING").contains("expects TLS"));
    // The socket of the configuration was not opened, and that of systemd is not removed.
    assert!(!Path::new(&place.path("socket")).exists());
    assert_eq!(server.stop().0, Some(0));
    assert!(Path::new(&socket).exists());
}

#[test]
fn sockets_of_other_processes_and_kinds_are_not_used() {
    let place = Place::new();
    let datagrams = UnixDatagram::bind(place.path("datagrams")).expect("space");
    let sockets: [(&dyn AsFd, &str); 1] = [(&datagrams, "wrong")];
    let output = activated(&place.serve(""), &sockets)
        .output()
        .expect("bash runs");
    let errors = String::from_utf8(output.stderr).expect("text");
    assert!(errors.contains("socket 0 ('wrong')"), "{errors}");
    // A socket for another process is left alone.
    let mut command = place.serve("");
    command.env("LISTEN_FDS", "1").env("LISTEN_PID", "1");
    let server = Server::of(&place, command);
    assert_eq!(server.connect().call("PING"), "+PONG");
}

/// A socket that receives notifications, and the server that sends them.
struct Notified {
    place: Place,
    socket: UnixDatagram,
}

impl Notified {
    fn new() -> Notified {
        let place = Place::new();
        let socket = UnixDatagram::bind(place.path("notify")).expect("space");
        socket.set_read_timeout(Some(LONG)).expect("a socket");
        Notified { place, socket }
    }

    fn serve(&self, lines: &str) -> Command {
        let mut command = self.place.serve(lines);
        command.env("NOTIFY_SOCKET", self.place.path("notify"));
        command
    }

    fn receive(&self) -> String {
        let mut bytes = [0; 4096];
        let length = self.socket.recv(&mut bytes).expect("a notification");
        String::from_utf8(bytes[..length].to_vec()).expect("text")
    }
}

#[test]
fn systemd_is_told_of_every_change() {
    for (lines, by_command) in [("", false), ("supervised systemd", true)] {
        let systemd = Notified::new();
        let mut server = Server::of(&systemd.place, systemd.serve(lines));
        let ready = systemd.receive();
        assert!(ready.starts_with("READY=1\nSTATUS=Serving "), "{ready}");
        assert!(ready.contains(&systemd.place.path("socket")), "{ready}");
        assert_eq!(server.connect().call("PING"), "+PONG");
        server.signal(Signal::HUP);
        let reloading = systemd.receive();
        let time = reloading
            .strip_prefix("RELOADING=1\nMONOTONIC_USEC=")
            .expect("a time");
        assert!(
            time.trim().parse::<u64>().is_ok_and(|time| time > 0),
            "{reloading}"
        );
        assert_eq!(systemd.receive(), ready);
        match by_command {
            true => server.connect().send(b"SHUTDOWN NOSAVE\r\n"),
            false => server.signal(Signal::TERM),
        }
        assert!(systemd.receive().starts_with("STOPPING=1\n"));
        assert_eq!(server.wait().0, Some(0));
    }
}

#[test]
fn watchdog_is_fed_while_a_thread_responds() {
    let systemd = Notified::new();
    // With several threads, it depends on chance which of them serves a connection.
    let mut command = systemd.serve("enable-debug-command local\nthreads 1");
    command.env("WATCHDOG_USEC", "200000");
    let server = Server::of(&systemd.place, command);
    assert!(systemd.receive().starts_with("READY=1\n"));
    for _ in 0..3 {
        assert_eq!(systemd.receive().trim(), "WATCHDOG=1");
    }
    let mut client = server.connect();
    assert_eq!(client.call("DEBUG SLEEP 0"), "+OK");
    client.send(b"DEBUG SLEEP 1000000\r\n");
    systemd
        .socket
        .set_read_timeout(Some(Duration::from_secs(1)))
        .expect("a socket");
    let mut bytes = [0; 64];
    let mut fed = 0;
    while systemd.socket.recv(&mut bytes).is_ok() {
        fed += 1;
        assert!(fed < 100, "fed although no thread responds");
    }
}

#[test]
fn systemd_is_not_told_if_the_operator_says_so() {
    let systemd = Notified::new();
    let mut server = Server::of(&systemd.place, systemd.serve("supervised no"));
    server.stop();
    systemd.socket.set_nonblocking(true).expect("a socket");
    assert!(systemd.socket.recv(&mut [0; 64]).is_err());
    let place = Place::new();
    let mut command = place.serve("supervised systemd");
    command.env_remove("NOTIFY_SOCKET");
    let server = Server::of(&place, command);
    assert!(
        server.start.contains("NOTIFY_SOCKET is not set"),
        "{}",
        server.start
    );
    let refused = Server::start(&Place::new(), "supervised upstart")
        .start
        .clone();
    assert!(refused.contains("upstart is not supported"), "{refused}");
}
