//! Tests the settings of the encryption: protocols, cipher suites, and who chooses among them.

use std::process::{Command as Process, Stdio};

use undercroft_conformance::client::Client;
use undercroft_conformance::resp::Reply;

use crate::support::Encrypted;

/// Tries a handshake with OpenSSL. Returns the protocol and the cipher suite, or `None` if it fails.
fn handshake(server: &Encrypted, options: &[&str]) -> Option<(String, String)> {
    let output = Process::new("openssl")
        .args(["s_client", "-brief", "-connect"])
        .arg(format!("localhost:{}", server.port))
        .args(["-CAfile", &server.authority.text("ca.pem")])
        .args(options)
        .stdin(Stdio::null())
        .output()
        .expect("openssl is installed");
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    let field = |name: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(name));
        line.map(|value| value.trim().to_owned())
    };
    Some((field("Protocol version:")?, field("Ciphersuite:")?))
}

fn set(client: &mut Client, settings: &[&str]) -> Reply {
    let words = [&["CONFIG", "SET"], settings].concat();
    client.call(words).expect("a reply")
}

#[test]
fn protocols_and_ciphers_are_those_of_the_configuration() {
    let Some(server) = Encrypted::start("tls-auth-clients no\n") else {
        return;
    };
    let mut plain = server.plain();
    let ok = Reply::Simple(b"OK".to_vec());
    let protocol = |options: &[&str]| handshake(&server, options).map(|(protocol, _)| protocol);
    assert_eq!(protocol(&["-tls1_2"]).as_deref(), Some("TLSv1.2"));
    assert_eq!(protocol(&["-tls1_3"]).as_deref(), Some("TLSv1.3"));
    assert_eq!(set(&mut plain, &["tls-protocols", "TLSv1.2"]), ok);
    assert_eq!(protocol(&[]).as_deref(), Some("TLSv1.2"));
    assert_eq!(protocol(&["-tls1_3"]), None);
    assert_eq!(set(&mut plain, &["tls-protocols", "TLSv1.3"]), ok);
    assert_eq!(protocol(&["-tls1_2"]), None);
    let unknown = set(&mut plain, &["tls-protocols", "TLSv1.1"]);
    assert!(matches!(unknown, Reply::Error(_)), "{unknown:?}");
    assert_eq!(set(&mut plain, &["tls-protocols", "TLSv1.2"]), ok);

    let [small, large] = [
        "ECDHE-ECDSA-AES128-GCM-SHA256",
        "ECDHE-ECDSA-AES256-GCM-SHA384",
    ];
    let suite = |list: &str| handshake(&server, &["-cipher", list]).map(|(_, suite)| suite);
    assert_eq!(set(&mut plain, &["tls-ciphers", large]), ok);
    assert_eq!(suite(small), None);
    assert_eq!(suite(large).as_deref(), Some(large));
    assert_eq!(set(&mut plain, &["tls-ciphers", "DEFAULT"]), ok);
    assert_eq!(suite(small).as_deref(), Some(small));
    let unknown = set(&mut plain, &["tls-ciphers", "AES128-SHA256"]);
    assert!(matches!(unknown, Reply::Error(_)), "{unknown:?}");
    // The client's order decides, or the server's.
    let both = [small, large].join(":");
    assert_eq!(suite(&both).as_deref(), Some(small));
    assert_eq!(set(&mut plain, &["tls-prefer-server-ciphers", "yes"]), ok);
    assert_eq!(suite(&both).as_deref(), Some(large));
}

#[test]
fn certificates_are_demanded_as_changed_at_runtime() {
    let Some(server) = Encrypted::start("") else {
        return;
    };
    let mut plain = server.plain();
    for (auth, works) in [
        ("yes", false),
        ("no", true),
        ("optional", true),
        ("yes", false),
    ] {
        set(&mut plain, &["tls-auth-clients", auth]);
        assert_eq!(server.ask(&["PING"]) == "PONG", works, "{auth}");
    }
}
