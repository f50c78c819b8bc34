//! Tests handshakes: peers that do not encrypt, stop midway, lie, or are many.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Command as Process, Stdio};
use std::time::Duration;

use undercroft_conformance::client::{Address, Client};
use undercroft_conformance::replication::{field, host_and_port};
use undercroft_conformance::resp::Reply;
use undercroft_conformance::servers::{private_memory, raise_descriptor_limit};

use crate::support::{Encrypted, until};

#[test]
fn peers_of_the_wrong_kind_are_told_what_is_wrong() {
    let Some(server) = Encrypted::start("tls-auth-clients no\n") else {
        return;
    };
    let mut plain = Client::connect(&Address::Tcp(format!("127.0.0.1:{}", server.port)));
    let reply = plain.as_mut().expect("it accepts").call(["PING"]);
    let Ok(Reply::Error(text)) = reply else {
        panic!("{reply:?}");
    };
    assert!(String::from_utf8_lossy(&text).contains("expects TLS"));
    let (_, port) = host_and_port(server.server.address());
    let output = Process::new("redis-cli")
        .args(["--tls", "--insecure", "-p", port, "PING"])
        .output()
        .expect("redis-cli runs");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(errors.contains("version"), "{output:?}");
    assert!(
        server.server.log().contains("does not encrypt"),
        "{}",
        server.server.log()
    );
    assert_eq!(server.ask(&["PING"]), "PONG");
}

#[test]
fn unfinished_and_damaged_handshakes_end_without_harm() {
    let Some(server) = Encrypted::start("tls-auth-clients no\n") else {
        return;
    };
    let address = format!("127.0.0.1:{}", server.port);
    let seed = undercroft_conformance::seed::seed();
    let mut random = fastrand::Rng::with_seed(seed);
    let hello = hello(&server.authority.path("ca.pem"));
    let mut open = Vec::new();
    for _ in 0..300 {
        let mut bytes = hello.clone();
        if random.bool() {
            let at = random.usize(..bytes.len());
            bytes[at] ^= 1 << random.u32(..8);
        }
        bytes.truncate(random.usize(..=bytes.len()));
        let mut socket = TcpStream::connect(&address).expect("it accepts");
        // The server may have closed the connection.
        let _ = socket.write_all(&bytes);
        open.push(socket);
    }
    // The server continues to serve other clients.
    assert_eq!(server.ask(&["PING"]), "PONG");
    let mut plain = server.plain();
    // The server closes all of these connections, after a time also silent ones.
    until(&server, || {
        field(&mut plain, "clients", "connected_clients") == "1"
    });
    drop(open);
    assert_eq!(server.ask(&["PING"]), "PONG");
}

/// Returns the first message of a TLS client.
fn hello(ca: &Path) -> Vec<u8> {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("an address");
    let mut child = Process::new("openssl")
        .args(["s_client", "-connect", &address.to_string(), "-CAfile"])
        .arg(ca)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("openssl is installed");
    let (mut socket, _) = listener.accept().expect("it connects");
    socket
        .set_read_timeout(Some(Duration::from_secs(60)))
        .expect("a socket");
    let mut header = [0; 5];
    socket.read_exact(&mut header).expect("a record");
    let mut bytes = header.to_vec();
    bytes.resize(
        5 + usize::from(u16::from_be_bytes([header[3], header[4]])),
        0,
    );
    socket.read_exact(&mut bytes[5..]).expect("a record");
    let _ = child.kill();
    let _ = child.wait();
    bytes
}

#[test]
fn many_unfinished_handshakes_take_bounded_memory() {
    // As many as can be open at once, with some descriptors for everything else.
    let many =
        usize::try_from(raise_descriptor_limit()).map_or(0, |limit| limit.saturating_sub(500));
    let many = many.min(10_000);
    println!("{many} handshakes");
    let Some(server) = Encrypted::start("tls-auth-clients no\nmaxclients 11000\n") else {
        return;
    };
    let mut plain = server.plain();
    let hello = hello(&server.authority.path("ca.pem"));
    let before = private_memory(server.server.pid()).expect("it runs");
    let mut open = Vec::new();
    for number in 0..many {
        let mut socket = TcpStream::connect(("127.0.0.1", server.port)).expect("it accepts");
        // Half of the clients send a part of the first message. The others send all of it, for which the
        // server chooses keys, and do not answer.
        let length = match number % 2 {
            0 => hello.len() - 1,
            _ => hello.len(),
        };
        socket.write_all(&hello[..length]).expect("it accepts");
        open.push(socket);
    }
    // The server serves others meanwhile, with and without TLS.
    assert_eq!(server.ask(&["PING"]), "PONG");
    plain.call(["PING"]).expect("a reply");
    let taken = private_memory(server.server.pid()).expect("it runs") - before;
    println!("{} KiB for each", taken / 1024 / many as u64);
    assert!(taken < many as u64 * 48 * 1024, "{taken} bytes");
    until(&server, || {
        field(&mut plain, "clients", "connected_clients") == "1"
    });
    drop(open);
    assert_eq!(server.ask(&["PING"]), "PONG");
}

#[test]
fn renegotiation_is_refused() {
    let Some(server) = Encrypted::start("tls-auth-clients no\n") else {
        return;
    };
    let mut child = Process::new("openssl")
        .args(["s_client", "-tls1_2", "-connect"])
        .arg(format!("localhost:{}", server.port))
        .args(["-CAfile", &server.authority.text("ca.pem")])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("openssl is installed");
    let mut input = child.stdin.take().expect("a pipe");
    // OpenSSL begins a new handshake at a line with an R.
    input.write_all(b"R\n").expect("it lives");
    let output = child.wait_with_output().expect("it ends");
    drop(input);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(errors.contains("no renegotiation"), "{output:?}");
    assert_eq!(server.ask(&["PING"]), "PONG");
}
