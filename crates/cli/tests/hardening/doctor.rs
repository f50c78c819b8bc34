//! Tests `undercroft doctor --security`: each weakness is found, and a careful setup has none that is high.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use serde_json::Value;

use crate::support::{Place, Server, command, spare_port};

/// Runs `doctor --security`. Returns its exit status, and the findings as `severity what`.
fn diagnose(arguments: &[&str]) -> (Option<i32>, Vec<String>) {
    let mut line = vec!["doctor", "--security", "--json"];
    line.extend(arguments);
    let output = command(&line).output().expect("the binary runs");
    let shown = String::from_utf8(output.stdout).expect("text");
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    let value: Value = serde_json::from_str(&shown).unwrap_or_else(|_| panic!("{shown}{errors}"));
    let findings = value["findings"].as_array().expect("a list").iter();
    let text = |finding: &Value, name: &str| {
        let text = finding[name].as_str().expect("text");
        assert!(!text.is_empty());
        text.to_owned()
    };
    let shown = findings.map(|finding| {
        text(finding, "why");
        text(finding, "remedy");
        format!("{} {}", text(finding, "severity"), text(finding, "what"))
    });
    (output.status.code(), shown.collect())
}

#[track_caller]
fn assert_found(findings: &[String], expected: &[&str]) {
    for text in expected {
        let is_found = findings.iter().any(|finding| finding.contains(text));
        assert!(is_found, "{text} is missing in {findings:#?}");
    }
}

#[test]
fn weak_configuration_is_reported() {
    let place = Place::new();
    let users = place.file("users.acl", "user default on nopass ~* &* +@all\nuser ops on >short ~* +@all\nuser x on >a-long-password-of-x ~* +@admin\nuser y off nopass ~* +@all\n");
    let config = place.file(
        "conf",
        &format!(
            "bind * -::*\nprotected-mode no\nenable-debug-command yes\nenable-protected-configs local\n\
             sandbox no\nmaxmemory 0\naclfile {users}\ntls-port 6390\ntls-cert-file /nosuch\ntls-protocols TLSv1.2\ntls-auth-clients no\n"
        ),
    );
    fs::set_permissions(&users, fs::Permissions::from_mode(0o644)).expect("a file");
    fs::set_permissions(place.path(""), fs::Permissions::from_mode(0o777)).expect("a folder");
    let (status, findings) = diagnose(&["--config", &config]);
    assert_eq!(status, Some(1));
    assert_found(
        &findings,
        &[
            "high port 6379 is open to other machines at *",
            "high user default needs no password and may do everything",
            "high the ACL file",
            "high the certificate cannot be used: tls-cert-file",
            "medium protected-mode is no",
            "medium user ops may run every command",
            "medium a password of user ops has only 5 characters",
            "medium user x may run dangerous commands",
            "medium enable-debug-command is yes",
            "medium tls-protocols allows only TLSv1.2",
            "medium the folder",
            "low enable-protected-configs is local",
            "low sandbox is no",
            "low audit-log is not set",
            "low maxmemory is 0",
            "low tls-auth-clients is no",
        ],
    );
    assert!(
        !findings.iter().any(|finding| finding.contains("user y")),
        "{findings:#?}"
    );
    let is_sorted = |pair: &[String]| {
        let rank = |text: &str| {
            ["high", "medium", "low"]
                .iter()
                .position(|name| text.starts_with(name))
        };
        rank(&pair[0]) <= rank(&pair[1])
    };
    assert!(findings.windows(2).all(is_sorted), "{findings:#?}");
}

#[test]
fn careful_configuration_has_no_finding() {
    let place = Place::new();
    let made = command(&["tls", "init", &place.path("tls"), "--host", "localhost"]).output();
    assert!(made.expect("the binary runs").status.success());
    let users = place.file(
        "users.acl",
        "user default off\nuser app on >0123456789abcdef ~app:* +@read +@write\n",
    );
    let tls = place.path("tls");
    let config = place.file(
        "conf",
        &format!(
            "bind 10.0.0.1\nport 0\ntls-port 6390\naclfile {users}\naudit-log {}\nmaxmemory 1gb\n\
             tls-cert-file {tls}/server.pem\ntls-key-file {tls}/server.key\ntls-ca-cert-file {tls}/ca.pem\n",
            place.path("audit")
        ),
    );
    for file in [&users, &config] {
        fs::set_permissions(file, fs::Permissions::from_mode(0o600)).expect("a file");
    }
    assert_eq!(diagnose(&["--config", &config]), (Some(0), Vec::new()));
}

#[test]
fn running_server_and_its_store_are_examined() {
    let place = Place::new();
    let port = spare_port();
    let lines = format!(
        "port {port}\nrequirepass short\nuser default on >short ~* &* +@all\nuser ann on >ann123 ~a +get"
    );
    let server = Server::start(&place, &lines);
    let store = place.path("served");
    fs::set_permissions(
        place.path("undercroft.conf"),
        fs::Permissions::from_mode(0o600),
    )
    .expect("a file");
    let url = format!("redis://:short@127.0.0.1:{port}");
    let (_, findings) = diagnose(&[&store, "--server", &url]);
    assert_found(
        &findings,
        &[
            "medium requirepass has only 5 characters",
            "high user ann has the password 'ann123'",
            "low audit-log is not set",
        ],
    );
    let runs_as_root =
        fs::metadata(&store).map(|status| std::os::unix::fs::MetadataExt::uid(&status) == 0);
    if runs_as_root.expect("a store") {
        assert_found(&findings, &["runs as root", "belongs to root"]);
    }
    let other = format!("redis://:wrong@127.0.0.1:{port}");
    let refused = command(&["doctor", "--security", "--server", &other])
        .output()
        .expect("it runs");
    assert_eq!(refused.status.code(), Some(1));
    assert!(
        String::from_utf8_lossy(&refused.stderr).contains("WRONGPASS"),
        "{refused:?}"
    );
    drop(server);
    fs::set_permissions(&store, fs::Permissions::from_mode(0o640)).expect("a file");
    let (status, findings) = diagnose(&[&store]);
    assert_eq!(status, Some(1));
    assert_found(&findings, &["high the store", "has mode 0640"]);
}
