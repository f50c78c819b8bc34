//! Tests certificates: which ones are needed, whom they name, how they are replaced, and which files and
//! settings are refused.

use std::process::Command as Process;

use undercroft_conformance::client::Client;
use undercroft_conformance::replication::{field, spare_port, text};
use undercroft_conformance::resp::Reply;
use undercroft_conformance::servers::{Settings, start_undercroft, undercroft_binary};

use crate::support::{Authority, Encrypted, until};

#[test]
fn clients_need_a_certificate_as_configured() {
    for (auth, without, with_own) in [
        ("yes", false, true),
        ("optional", true, true),
        ("no", true, true),
    ] {
        let Some(server) = Encrypted::start(&format!("tls-auth-clients {auth}\n")) else {
            return;
        };
        assert_eq!(server.ask(&["PING"]) == "PONG", without, "{auth}");
        let own = server.own_certificate();
        let own: Vec<&str> = own.iter().map(String::as_str).collect();
        let output = server.cli(&own, &["PING"]);
        assert_eq!(output.stdout == b"PONG\n", with_own, "{auth}: {output:?}");
        // A certificate of another authority is refused, also if none is needed.
        let other = Authority::new();
        other.issue("client", "300");
        let (certificate, key) = (other.text("client.pem"), other.text("client.key"));
        let output = server.cli(&["--cert", &certificate, "--key", &key], &["PING"]);
        assert_eq!(
            output.stdout == b"PONG\n",
            auth == "no",
            "{auth}: {output:?}"
        );
    }
}

#[test]
fn certificate_names_the_user() {
    let Some(server) = Encrypted::start(
        "tls-auth-clients optional\ntls-auth-clients-user CN\n\
         user client on ~a:* +get +acl|whoami\n\
         user urn:user:second on ~* +acl|whoami\n\
         user disabled off nopass ~* +@all\n",
    ) else {
        return;
    };
    let mut plain = server.plain();
    let changed = plain.call(["ACL", "SETUSER", "default", "resetpass", ">password"]);
    assert_eq!(changed.expect("a reply"), Reply::Simple(b"OK".to_vec()));
    for name in ["second", "disabled"] {
        server.authority.issue(name, "300");
    }
    let ask = |name: &str, command: &[&str]| {
        let [certificate, key] =
            ["pem", "key"].map(|kind| server.authority.text(&format!("{name}.{kind}")));
        let output = server.cli(&["--cert", &certificate, "--key", &key], command);
        String::from_utf8_lossy(&output.stdout).trim().to_owned()
    };
    let refusals = |plain: &mut Client| field(plain, "stats", "acl_access_denied_tls_cert");
    assert_eq!(ask("client", &["ACL", "WHOAMI"]), "client");
    assert_eq!(ask("client", &["GET", "a:1"]), "");
    assert!(ask("client", &["GET", "b:1"]).starts_with("NOPERM"));
    assert_eq!(refusals(&mut plain), "0");
    // Without a user of that name, a client must log in as without a certificate.
    for name in ["second", "disabled"] {
        assert!(
            ask(name, &["ACL", "WHOAMI"]).starts_with("NOAUTH"),
            "{name}"
        );
    }
    assert!(server.ask(&["ACL", "WHOAMI"]).starts_with("NOAUTH"));
    assert_eq!(refusals(&mut plain), "2");
    let entries = text(&plain.call(["ACL", "LOG"]).expect("a reply"));
    assert!(
        entries.contains("reason tls-cert context toplevel object disabled"),
        "{entries}"
    );
    plain
        .call(["CONFIG", "SET", "tls-auth-clients-user", "URI"])
        .expect("a reply");
    assert_eq!(ask("second", &["ACL", "WHOAMI"]), "urn:user:second");
    assert!(ask("client", &["ACL", "WHOAMI"]).starts_with("NOAUTH"));
    plain
        .call(["CONFIG", "SET", "tls-auth-clients-user", "off"])
        .expect("a reply");
    assert!(ask("second", &["ACL", "WHOAMI"]).starts_with("NOAUTH"));
}

#[test]
fn replaced_certificate_is_presented_to_new_connections_only() {
    let Some(server) = Encrypted::start("tls-auth-clients no\n") else {
        return;
    };
    let mut plain = server.plain();
    let left = |plain: &mut Client| -> i64 {
        let text = field(plain, "server", "tls_certificate_expires_in_seconds");
        text.parse().expect("a number")
    };
    let days = |seconds: i64| (seconds + 43_200) / 86_400;
    assert_eq!(days(left(&mut plain)), 300);
    let mut staying = server.stay();
    staying.ping();
    server.authority.issue("next", "20");
    let [certificate, key] = ["next.pem", "next.key"].map(|name| server.authority.text(name));
    // A certificate without its key changes nothing.
    let wrong = plain.call(["CONFIG", "SET", "tls-cert-file", &certificate]);
    assert!(matches!(wrong, Ok(Reply::Error(_))), "{wrong:?}");
    assert_eq!(days(left(&mut plain)), 300);
    let set = [
        "CONFIG",
        "SET",
        "tls-cert-file",
        &certificate,
        "tls-key-file",
        &key,
    ];
    assert_eq!(
        plain.call(set).expect("a reply"),
        Reply::Simple(b"OK".to_vec())
    );
    assert_eq!(days(left(&mut plain)), 20);
    assert!(
        server
            .server
            .log()
            .contains("the certificate of tls-cert-file expires in"),
        "{}",
        server.server.log()
    );
    assert_eq!(server.ask(&["PING"]), "PONG");
    staying.ping();
    // SIGHUP reads the same files again.
    server.authority.issue("next", "40");
    let pid = rustix::process::Pid::from_raw(server.server.pid() as i32).expect("a process");
    rustix::process::kill_process(pid, rustix::process::Signal::HUP).expect("it lives");
    until(&server, || days(left(&mut plain)) == 40);
    assert_eq!(server.ask(&["PING"]), "PONG");
    staying.ping();
}

#[test]
fn settings_that_cannot_work_are_refused_at_the_start() {
    let authority = Authority::new();
    authority.issue("server", "300");
    let [certificate, key] = ["server.pem", "server.key"].map(|name| authority.text(name));
    for (lines, expected) in [
        (String::new(), "tls-cert-file must name a file"),
        (
            format!("tls-cert-file {certificate}\n"),
            "tls-key-file must name a file",
        ),
        (
            format!("tls-cert-file {certificate}\ntls-key-file {key}\n"),
            "tls-auth-clients needs tls-ca-cert-file",
        ),
        (
            format!(
                "tls-cert-file {certificate}\ntls-key-file {key}\ntls-auth-clients no\ntls-protocols SSLv3\n"
            ),
            "expected TLSv1.2 or TLSv1.3, found SSLv3",
        ),
        (
            format!(
                "tls-cert-file {certificate}\ntls-key-file {key}\ntls-auth-clients no\ntls-ciphers RC4\n"
            ),
            "found RC4",
        ),
        (
            format!("tls-cert-file {key}\ntls-key-file {key}\n"),
            "contains no certificate in PEM form",
        ),
    ] {
        let config = format!("tls-port {}\n{lines}", spare_port());
        let settings = Settings {
            files: vec![("undercroft.conf".into(), config.into_bytes())],
            ..Settings::default()
        };
        match start_undercroft(settings) {
            Ok(None) => return,
            Ok(Some(_)) => panic!("{lines} was accepted"),
            Err(error) => assert!(
                format!("{error:#}").contains(expected),
                "{lines}: {error:#}"
            ),
        }
    }
}

#[test]
fn key_with_a_password_is_decrypted() {
    let Some(server) = Encrypted::start("tls-auth-clients no\n") else {
        return;
    };
    server.authority.openssl(&[
        "pkcs8",
        "-topk8",
        "-in",
        "server.key",
        "-out",
        "locked.key",
        "-passout",
        "pass:secret",
    ]);
    let locked = server.authority.text("locked.key");
    let mut plain = server.plain();
    let wrong = plain.call([
        "CONFIG",
        "SET",
        "tls-key-file",
        &locked,
        "tls-key-file-pass",
        "no",
    ]);
    let Ok(Reply::Error(text)) = wrong else {
        panic!("{wrong:?}");
    };
    assert!(String::from_utf8_lossy(&text).contains("does not decrypt"));
    let set = [
        "CONFIG",
        "SET",
        "tls-key-file",
        &locked,
        "tls-key-file-pass",
        "secret",
    ];
    assert_eq!(
        plain.call(set).expect("a reply"),
        Reply::Simple(b"OK".to_vec())
    );
    assert_eq!(server.ask(&["PING"]), "PONG");
}

#[test]
fn certificates_of_tls_init_encrypt_and_identify() {
    let Some(program) = undercroft_binary() else {
        return;
    };
    let directory = tempfile::tempdir().expect("a directory");
    let folder = directory.path().join("certificates");
    let init = || {
        let mut command = Process::new(&program);
        command.args(["tls", "init"]).arg(&folder);
        let output = command.args(["--host", "cache.example.com"]).output();
        output.expect("undercroft runs")
    };
    let made = init();
    assert!(made.status.success(), "{made:?}");
    for name in ["ca", "server", "client"] {
        let key = folder.join(format!("{name}.key"));
        let mode = std::fs::metadata(&key).expect("a file").permissions();
        assert_eq!(
            std::os::unix::fs::PermissionsExt::mode(&mode) & 0o777,
            0o600
        );
    }
    let before = std::fs::read(folder.join("ca.pem")).expect("a file");
    let again = init();
    let errors = String::from_utf8_lossy(&again.stderr);
    assert!(
        !again.status.success() && errors.contains("is not replaced"),
        "{errors}"
    );
    assert_eq!(
        std::fs::read(folder.join("ca.pem")).expect("a file"),
        before
    );
    let text = |name: &str| folder.join(name).to_str().expect("ASCII").to_owned();
    let port = spare_port();
    let config = format!(
        "tls-port {port}\ntls-cert-file {}\ntls-key-file {}\ntls-ca-cert-file {}\n",
        text("server.pem"),
        text("server.key"),
        text("ca.pem")
    );
    let settings = Settings {
        files: vec![("undercroft.conf".into(), config.into_bytes())],
        ..Settings::default()
    };
    let _server = start_undercroft(settings).expect("undercroft starts");
    for (host, with_own, works) in [
        ("localhost", true, true),
        ("127.0.0.1", true, true),
        ("localhost", false, false),
    ] {
        let mut cli = Process::new("redis-cli");
        cli.args(["--tls", "-h", host, "-p", &port.to_string()]);
        cli.args(["--cacert", &text("ca.pem")]);
        if with_own {
            cli.args(["--cert", &text("client.pem"), "--key", &text("client.key")]);
        }
        let output = cli.arg("PING").output().expect("redis-cli runs");
        assert_eq!(output.stdout == b"PONG\n", works, "{host}: {output:?}");
    }
    // OpenSSL judges the chain and the name.
    let verified = Process::new("openssl")
        .args(["verify", "-verify_hostname", "cache.example.com", "-CAfile"])
        .args([text("ca.pem"), text("server.pem")])
        .output()
        .expect("openssl is installed");
    assert!(verified.status.success(), "{verified:?}");
}

#[test]
fn certificate_that_is_a_device_is_refused() {
    let Some(server) = Encrypted::start("tls-auth-clients no\n") else {
        return;
    };
    let pipe = server.authority.text("pipe");
    let made = Process::new("mkfifo").arg(&pipe).status();
    assert!(made.expect("mkfifo is installed").success());
    let mut plain = server.plain();
    for path in ["/dev/zero", &pipe] {
        let refused = plain.call(["CONFIG", "SET", "tls-cert-file", path]);
        let Ok(Reply::Error(text)) = refused else {
            panic!("{path}: {refused:?}");
        };
        // A sandbox does not contain the device.
        let reasons = ["expected a regular file", "is outside the sandbox"];
        let text = String::from_utf8_lossy(&text);
        assert!(reasons.iter().any(|reason| text.contains(reason)), "{text}");
    }
    assert_eq!(server.ask(&["PING"]), "PONG");
}
