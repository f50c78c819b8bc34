//! A source with TLS: followed, and as the target of forwarded commands.

use std::path::Path;
use std::process::{Command, Stdio};

use undercroft_conformance::client::Client;
use undercroft_conformance::replication::spare_port;
use undercroft_conformance::resp::Reply;
use undercroft_conformance::servers::Server;
use undercroft_engine::LinkStatus;

use crate::forward::{client, text};
use crate::served::{Served, compare};
use crate::support::{Follower, Place, changes_of, redis, run, until};

/// Makes the keys and certificates of an authority, of a server on the loopback interface, of a client,
/// and of an authority that has certified none of them.
fn certificates(place: &Place) {
    let script = "set -e
        openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2 \
            -subj /CN=authority -keyout ca.key -out ca.pem
        openssl req -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes \
            -subj /CN=localhost -keyout server.key -out server.csr
        printf 'subjectAltName=DNS:localhost' > names
        openssl x509 -req -in server.csr -CA ca.pem -CAkey ca.key -CAcreateserial -days 2 \
            -extfile names -out server.pem
        openssl req -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes \
            -subj /CN=client -keyout client.key -out client.csr
        openssl x509 -req -in client.csr -CA ca.pem -CAkey ca.key -CAcreateserial -days 2 \
            -extfile names -out client.pem
        openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2 \
            -subj /CN=other -keyout other.key -out other.pem";
    let made = Command::new("sh")
        .args(["-c", script])
        .current_dir(Path::new(&place.path("")))
        .stderr(Stdio::null())
        .status();
    assert!(
        made.expect("a shell").success(),
        "certificates from openssl"
    );
}

fn has_openssl() -> bool {
    let found = Command::new("openssl").arg("version").output();
    found.is_ok_and(|found| found.status.success())
}

#[test]
fn source_with_a_trusted_certificate_is_followed() {
    if !has_openssl() {
        println!("skipped: a source with TLS (openssl is missing)");
        return;
    }
    let place = Place::new();
    certificates(&place);
    let port = spare_port();
    let source: Server = redis(&[
        "--tls-port",
        &port.to_string(),
        "--tls-cert-file",
        &place.path("server.pem"),
        "--tls-key-file",
        &place.path("server.key"),
        "--tls-ca-cert-file",
        &place.path("ca.pem"),
        "--tls-auth-clients",
        "no",
    ]);
    let mut changes = changes_of(&source);
    changes.make(1000);
    let url = format!("rediss://localhost:{port}");
    let trusted = [("SSL_CERT_FILE", place.path("ca.pem"))];
    let follower = Follower::start_in(&url, place.store.path(), &[], &trusted);
    place.wait_for_status(LinkStatus::Up);
    changes.make(1000);
    place.catch_up(&source);
    compare(&place, &source);
    drop(follower);
    // A host that the certificate does not name, and an authority that the system does not trust.
    let other = format!("rediss://127.0.0.1:{port}");
    for (url, trusted) in [(&other, &trusted[..]), (&url, &[])] {
        let mut follower = Follower::start_in(url, place.store.path(), &[], trusted);
        follower.wait_for_error("certificate");
    }
    let path = place.path("store");
    assert_eq!(run(&["follow", "--end", "--store", &path]).status, 0);
}

/// Starts a source that encrypts connections on a port, and asks its clients for certificates.
fn encrypted_source(place: &Place, port: u16) -> Server {
    let source = redis(&[
        "--tls-port",
        &port.to_string(),
        "--tls-cert-file",
        &place.path("server.pem"),
        "--tls-key-file",
        &place.path("server.key"),
        "--tls-ca-cert-file",
        &place.path("ca.pem"),
        "--tls-auth-clients",
        "yes",
    ]);
    let mut client = Client::connect(source.address()).expect("it accepts");
    let set = ["CONFIG", "SET", "requirepass", "secret"];
    assert_eq!(
        client.call(set).expect("a reply"),
        Reply::Simple(b"OK".to_vec())
    );
    source
}

/// Returns a number of INFO of a source with a password, or 0.
fn figure(source: &Server, section: &str, name: &str) -> u64 {
    let mut client = Client::connect(source.address()).expect("it accepts");
    client.call(["AUTH", "secret"]).expect("a reply");
    let info = client.call(["INFO", section]).expect("a reply");
    let info = text(&info);
    let rest = info.split_once(name).map_or("", |(_, rest)| rest);
    let digits: String = rest.chars().take_while(char::is_ascii_digit).collect();
    digits.parse().unwrap_or(0)
}

#[test]
fn writes_are_forwarded_with_the_certificates_of_both_sides() {
    if !has_openssl() {
        println!("skipped: forwarding to a source with TLS (openssl is missing)");
        return;
    }
    let place = Place::new();
    certificates(&place);
    let port = spare_port();
    let source = encrypted_source(&place, port);
    let url = format!("rediss://:secret@localhost:{port}");
    let (ca, cert, key) = (
        place.path("ca.pem"),
        place.path("client.pem"),
        place.path("client.key"),
    );
    let options = ["--cacert", &ca, "--cert", &cert, "--key", &key];
    let mut follower = Follower::start(&url, place.store.path(), &options[..2]);
    follower.wait_for_error("ertificate");
    drop(follower);
    let _follower = Follower::start(&url, place.store.path(), &options);
    place.wait_for_status(LinkStatus::Up);
    let forward = ["--writes", "forward"];
    let own = format!("masterauth secret\ntls-cert-file {cert}\ntls-key-file {key}\n");
    let trusting = format!("{own}tls-ca-cert-file {ca}\n");
    let set = |value: &str| text(&client(&place).call(["SET", "k", value]).expect("a reply"));
    // The authority that the parameters name, and otherwise those of the system.
    let of_system = [("SSL_CERT_FILE", ca)];
    for (lines, variables) in [(&trusting, &[][..]), (&own, &of_system)] {
        let _served = Served::start_in(&place, lines, &forward, variables);
        let before = figure(&source, "stats", "total_connections_received:");
        for number in 0..50 {
            let number = number.to_string();
            assert_eq!(set(&number), "OK");
            until(
                || place.get(0, "k").as_ref() == Some(&number),
                || place.describe(),
            );
        }
        let connections = figure(&source, "stats", "total_connections_received:") - before;
        assert!(connections < 10, "{connections} connections for 50 writes");
    }
    // The password reaches no server whose certificate is not trusted, or that asks for a certificate
    // which the forwarding server does not have.
    let logins = || figure(&source, "commandstats", "cmdstat_auth:calls=");
    let wrong = format!("{own}tls-ca-cert-file {}\n", place.path("other.pem"));
    let none = format!(
        "masterauth secret\ntls-ca-cert-file {}\n",
        place.path("ca.pem")
    );
    for (lines, expected) in [
        (&wrong, "tls-ca-cert-file"),
        (&own, "tls-ca-cert-file"),
        (&none, "ertificate"),
    ] {
        let _served = Served::start_with(&place, lines, &forward);
        let before = logins();
        let refused = set("lost");
        assert!(refused.starts_with("ERR the source"), "{refused}");
        assert!(refused.contains(expected), "{refused}");
        // The question itself needs a login.
        assert_eq!(logins() - before, 1, "the password was sent");
    }
    assert_eq!(place.get(0, "k").as_deref(), Some("49"));
}

#[test]
fn writes_are_forwarded_to_a_unix_socket() {
    let place = Place::new();
    let socket = place.path("source");
    let source = redis(&["--unixsocket", &socket]);
    let url = format!("unix://{socket}");
    let _follower = Follower::start(&url, place.store.path(), &[]);
    place.wait_for_status(LinkStatus::Up);
    let _served = Served::start_with(&place, "", &["--writes", "forward"]);
    let mut client = client(&place);
    for number in 1..=20 {
        let reply = client.call(["INCR", "n"]).expect("a reply");
        assert_eq!(reply, Reply::Integer(number));
    }
    place.catch_up(&source);
    assert_eq!(place.get(0, "n").as_deref(), Some("20"));
}
