//! Plays a proxy that announces its clients (PROXY protocol).

use std::net::TcpStream;

use serde_json::Value;

use crate::support::{Client, Place, Server, command, connect_tcp, spare_port};

const CLIENT: &[u8] = b"PROXY TCP4 192.0.2.7 10.0.0.1 4711 6379\r\n";

fn start(place: &Place, port: u16, lines: &str) -> Server {
    Server::start(
        place,
        &format!(
            "port {port}\nproxy-protocol yes\nproxy-protocol-sources 127.0.0.1 10.0.0.0/8\n{lines}"
        ),
    )
}

/// Connects, and sends the header of a proxy.
fn through(port: u16, header: &[u8]) -> Client<TcpStream> {
    let mut client = connect_tcp(port);
    client.send(header);
    client
}

#[test]
fn address_of_the_client_is_the_announced_one() {
    let (place, port) = (Place::new(), spare_port());
    let audit = place.path("audit");
    let lines = format!(
        "protected-mode no\naudit-log {audit}\nuser u on >p +@all ~*\nuser default on nopass +@all ~*"
    );
    let server = start(&place, port, &lines);
    let of_v2 = b"\r\n\r\n\0\r\nQUIT\n\x21\x11\0\x0c\xc0\0\x02\x07\x0a\0\0\x01\x12\x68\x18\xeb";
    for (header, address) in [(CLIENT, "192.0.2.7:4711"), (of_v2, "192.0.2.7:4712")] {
        // The header and the command can arrive together, or byte by byte.
        let mut client = through(port, &[header, b"PING\r\n"].concat());
        assert_eq!(client.line(), "+PONG");
        let info = client.call("CLIENT INFO");
        assert!(info.contains(&format!("addr={address} ")), "{info}");
        let mut client = connect_tcp(port);
        for byte in header {
            client.send(&[*byte]);
        }
        // This also ends the first connection, which has the same address.
        let killed = client.call(&format!("CLIENT KILL ADDR {address}"));
        assert_eq!(killed, ":1");
    }
    // The failed logins of one client delay no other client of the proxy.
    let mut guesser = through(port, CLIENT);
    for _ in 0..9 {
        assert!(guesser.call("AUTH u wrong").starts_with("-WRONGPASS"));
    }
    let other = b"PROXY TCP4 192.0.2.8 10.0.0.1 4711 6379\r\n";
    assert_eq!(through(port, other).call("AUTH u p"), "+OK");
    let content = std::fs::read_to_string(&audit).expect("text");
    let events = content
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).expect("an event"));
    let addresses: Vec<String> = events
        .map(|event| event["address"].as_str().expect("text").to_owned())
        .collect();
    assert_eq!(
        addresses.first().map(String::as_str),
        Some("192.0.2.7:4711")
    );
    assert_eq!(addresses.last().map(String::as_str), Some("192.0.2.8:4711"));
    // The proxy's own connections, such as health checks, keep its address.
    let own: [&[u8]; 2] = [b"PROXY UNKNOWN\r\n", b"\r\n\r\n\0\r\nQUIT\n\x20\0\0\0"];
    for header in own {
        let info = through(port, header).call("CLIENT INFO");
        assert!(info.contains("addr=127.0.0.1:"), "{info}");
    }
    // A Unix socket has no proxy.
    assert_eq!(server.connect().call("PING"), "+PONG");
}

#[test]
fn protected_mode_applies_to_the_announced_address() {
    let (place, port) = (Place::new(), spare_port());
    let _server = start(&place, port, "");
    let mut client = through(port, &[CLIENT, b"PING\r\n"].concat());
    assert!(client.line().starts_with("-DENIED"));
    assert_eq!(client.line(), "");
    let local = b"PROXY TCP6 ::1 ::1 4711 6379\r\n";
    assert_eq!(through(port, local).call("PING"), "+PONG");
}

#[test]
fn listed_sources_must_send_a_header_and_others_must_not() {
    let (place, port) = (Place::new(), spare_port());
    let _server = start(&place, port, "");
    for bytes in [
        &b"PING\r\n"[..],
        b"PROXY TCP4 x y 1 2\r\n",
        b"\r\n\r\n\0\r\nQUIT\n\x21\x11\xff\xff",
        &[b"PROXY "[..].to_vec(), vec![b'x'; 200]].concat(),
    ] {
        let mut client = through(port, bytes);
        assert_eq!(client.line(), "", "{bytes:?}");
    }
    // A header that does not arrive ends the connection after 10 seconds.
    assert_eq!(through(port, b"PROXY TCP4").line(), "");
    let (place, port) = (Place::new(), spare_port());
    let lines = format!("port {port}\nproxy-protocol yes\nproxy-protocol-sources 10.0.0.0/8");
    let _server = Server::start(&place, &lines);
    let reply = through(port, CLIENT).line();
    assert!(reply.starts_with("-ERR unknown command 'PROXY'"), "{reply}");
    assert_eq!(connect_tcp(port).call("PING"), "+PONG");
}

#[test]
fn header_precedes_the_handshake_of_tls() {
    let (place, port) = (Place::new(), spare_port());
    let folder = place.path("tls");
    let made = command(&["tls", "init", &folder, "--host", "localhost"]).output();
    assert!(made.expect("the binary runs").status.success());
    let lines = format!(
        "tls-port {port}\ntls-cert-file {folder}/server.pem\ntls-key-file {folder}/server.key\ntls-auth-clients no\n\
         protected-mode no\nproxy-protocol yes\nproxy-protocol-sources 127.0.0.1"
    );
    let _server = Server::start(&place, &lines);
    // The text for clients that do not encrypt shows that the bytes after the header reached TLS.
    let mut client = through(port, &[CLIENT, b"PING\r\n\r\n\r\n"].concat());
    assert!(client.line().contains("this port expects TLS"));
    // A relay sends the header and then passes redis-cli's bytes on.
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("loopback");
    let relayed = listener.local_addr().expect("bound").port();
    std::thread::spawn(move || {
        let (mut near, _) = listener.accept().expect("a client");
        let mut far = TcpStream::connect(("127.0.0.1", port)).expect("it listens");
        std::io::Write::write_all(&mut far, CLIENT).expect("it reads");
        let (mut from, mut to) = (
            far.try_clone().expect("a socket"),
            near.try_clone().expect("a socket"),
        );
        std::thread::spawn(move || std::io::copy(&mut from, &mut to));
        // The copy ends with the connection.
        let _ = std::io::copy(&mut near, &mut far);
    });
    let output = std::process::Command::new("redis-cli")
        .args(["--tls", "-h", "localhost", "-p", &relayed.to_string()])
        .args(["--cacert", &format!("{folder}/ca.pem"), "CLIENT", "INFO"])
        .output()
        .expect("redis-cli is installed");
    let info = String::from_utf8_lossy(&output.stdout);
    assert!(info.contains("addr=192.0.2.7:4711"), "{output:?}");
}

#[test]
fn proxies_must_be_named() {
    let place = Place::new();
    for (lines, reason) in [
        (
            "proxy-protocol yes",
            "expected the addresses of the proxies",
        ),
        (
            "proxy-protocol yes\nproxy-protocol-sources 10.0.0.0/99",
            "'10.0.0.0/99'",
        ),
    ] {
        let refused = place.refuse(lines);
        assert!(refused.contains(reason), "{refused}");
    }
}
