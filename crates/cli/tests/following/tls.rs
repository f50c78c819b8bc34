//! A source with TLS.

use std::path::Path;
use std::process::{Command, Stdio};

use undercroft_conformance::replication::spare_port;
use undercroft_conformance::servers::Server;
use undercroft_engine::LinkStatus;

use crate::served::compare;
use crate::support::{Follower, Place, changes_of, redis, run};

/// Makes the keys and certificates of an authority and of a server on the loopback interface.
fn certificates(place: &Place) {
    let script = "set -e
        openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2 \
            -subj /CN=authority -keyout ca.key -out ca.pem
        openssl req -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes \
            -subj /CN=localhost -keyout server.key -out server.csr
        printf 'subjectAltName=DNS:localhost' > names
        openssl x509 -req -in server.csr -CA ca.pem -CAkey ca.key -CAcreateserial -days 2 \
            -extfile names -out server.pem";
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
