//! Tests the audit log: what it contains and hides, its rotation, and a file system without space.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use rustix::process::{Resource, Rlimit, Signal, prlimit};
use serde_json::Value;

use crate::support::{Place, Server, connect_tcp, spare_port, wait_until};

fn events(path: &str) -> Vec<Value> {
    let content = fs::read_to_string(path).expect("UTF-8");
    assert!(content.is_empty() || content.ends_with('\n'), "{content}");
    let lines = content.split_terminator('\n');
    lines
        .map(|line| serde_json::from_str(line).unwrap_or_else(|error| panic!("{line}: {error}")))
        .collect()
}

/// Returns `event command result` and the reason of each event.
fn short(path: &str) -> Vec<String> {
    let events = events(path);
    let field = |event: &Value, name: &str| event[name].as_str().unwrap_or("").to_owned();
    let short = |event: &Value| {
        let parts = ["event", "user", "command", "result"].map(|name| field(event, name));
        parts.join(" ")
    };
    events.iter().map(short).collect()
}

#[test]
fn logins_refusals_and_dangerous_commands_are_recorded() {
    let place = Place::new();
    let path = place.path("audit");
    let config = format!("audit-log {path}\nenable-debug-command no");
    let mut server = Server::start(&place, &config);
    let mode = fs::metadata(&path).expect("a file").permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    let mut admin = server.connect();
    for (line, reply) in [
        ("SET k v", "+OK"),
        ("GET k", "v"),
        ("ACL SETUSER u on >s3cret +get +auth ~my:*", "+OK"),
        (
            "ACL SETUSER u s3cret",
            "-ERR Error in ACL SETUSER modifier 's3cret'",
        ),
        ("CONFIG SET masterauth s3cret", "+OK"),
        ("CONFIG SET nosuch 1", "-ERR Unknown option"),
        ("CONFIG GET maxmemory", ""),
        ("FLUSHDB", "+OK"),
        ("MULTI", "+OK"),
        ("FLUSHALL", "+QUEUED"),
        ("ACL DELUSER nosuch", "+QUEUED"),
        ("EXEC", "+OK :0"),
        ("EVAL \"return redis.call('flushall')\" 0", "+OK"),
        ("FUNCTION FLUSH", "+OK"),
        ("DEBUG SLEEP 0", "-ERR DEBUG command not allowed"),
        ("REPLICAOF no one", "+OK"),
        ("AUTH u wrong", "-WRONGPASS"),
        ("HELLO 2 AUTH u s3cret", ""),
        ("GET k", "-NOPERM"),
        ("FLUSHALL", "-NOPERM"),
    ] {
        let got = admin.call(line);
        assert!(got.starts_with(reply), "{line}: {got}");
    }
    assert_eq!(
        short(&path),
        [
            "acl default acl|setuser success",
            "acl default acl|setuser failure",
            "config default config|set success",
            "config default config|set failure",
            "flush default flushdb success",
            "flush default flushall success",
            "acl default acl|deluser success",
            "flush default flushall success",
            "function default function|flush success",
            "debug default debug refused",
            "replication default replicaof success",
            "auth u auth failure",
            "auth u hello success",
            "denied u get refused",
            "denied u flushall refused",
        ]
    );
    let content = fs::read_to_string(&path).expect("text");
    assert!(!content.contains("s3cret"), "{content}");
    let events = events(&path);
    let rules = events[0]["arguments"].as_array().expect("arguments");
    assert_eq!(rules.len(), 6, "{rules:?}");
    assert_eq!((&rules[1], &rules[2]), (&"on".into(), &"(redacted)".into()));
    assert_eq!(events[1]["arguments"][1], "(redacted)");
    assert_eq!(events[0]["client"], events[13]["client"]);
    let address = format!("{}:0", place.path("socket"));
    assert_eq!(events[0]["address"], address);
    assert_eq!(events[13]["reason"], "no right to a key");
    let times = events
        .iter()
        .map(|event| event["time"].as_str().expect("a time"));
    assert!(times.clone().is_sorted() && times.clone().all(|time| time.ends_with('Z')));
    let info = server.connect().call("INFO stats");
    assert!(info.contains("audit_log_written:15\r\n"), "{info}");
    server.connect().send(b"SHUTDOWN NOSAVE\r\n");
    server.wait();
    let last = short(&path).pop();
    assert_eq!(last.as_deref(), Some("shutdown default shutdown success"));
}

#[test]
fn line_breaks_in_arguments_forge_no_events() {
    let place = Place::new();
    let path = place.path("audit");
    let server = Server::start(&place, &format!("audit-log {path}"));
    let forged = "x\n{\"event\":\"forged\"}\n";
    let mut client = server.connect();
    for words in [
        vec!["AUTH", forged, forged],
        vec!["ACL", "SETUSER", forged],
        vec!["CONFIG", "SET", forged, forged],
        vec!["FUNCTION", "DELETE", forged],
        vec![
            "FUNCTION",
            "LOAD",
            &format!("#!lua name={forged}{}", "x".repeat(100_000)),
        ],
    ] {
        let mut request = format!("*{}\r\n", words.len());
        for word in &words {
            request += &format!("${}\r\n{word}\r\n", word.len());
        }
        client.send(request.as_bytes());
        assert!(client.reply().starts_with("-"), "{words:?}");
    }
    let events = events(&path);
    assert_eq!(events.len(), 5);
    assert!(events.iter().all(|event| event["event"] != "forged"));
    assert_eq!(events[0]["user"], forged);
    let longest = fs::read_to_string(&path)
        .expect("text")
        .lines()
        .map(str::len)
        .max();
    assert!(longest < Some(1_000), "{longest:?}");
}

#[test]
fn renamed_file_is_replaced_on_sighup() {
    let place = Place::new();
    let (path, old) = (place.path("audit"), place.path("audit.1"));
    let mut server = Server::start(&place, &format!("audit-log {path}"));
    let mut client = server.connect();
    assert_eq!(client.call("FLUSHALL"), "+OK");
    fs::rename(&path, &old).expect("a file");
    assert_eq!(client.call("FLUSHALL"), "+OK");
    assert_eq!((events(&old).len(), Path::new(&path).exists()), (2, false));
    server.signal(Signal::HUP);
    server.log_line("opened again");
    assert_eq!(client.call("FLUSHALL"), "+OK");
    assert_eq!((events(&old).len(), events(&path).len()), (2, 1));
    // A folder in place of the file leaves the old file in use.
    fs::remove_file(&path).expect("a file");
    fs::create_dir(&path).expect("space");
    server.signal(Signal::HUP);
    server.log_line("the old file stays in use");
    assert_eq!(client.call("FLUSHALL"), "+OK");
}

/// Limits the size of the files that a server can write, or lifts the limit.
fn limit_files(server: &Server, bytes: Option<u64>) {
    let limit = Rlimit {
        current: bytes,
        maximum: None,
    };
    prlimit(Some(server.pid()), Resource::Fsize, limit).expect("it lives");
}

#[test]
fn commands_go_on_without_space_and_the_loss_is_shown() {
    let place = Place::new();
    let path = place.path("audit");
    let mut server = Server::start(&place, &format!("audit-log {path}"));
    let mut client = server.connect();
    assert_eq!(client.call("FLUSHALL"), "+OK");
    let size = fs::metadata(&path).expect("a file").len();
    // The next line fits only in part.
    limit_files(&server, Some(size + 20));
    for _ in 0..3 {
        assert_eq!(client.call("FLUSHALL"), "+OK");
    }
    let info = client.call("INFO stats");
    assert!(
        info.contains("audit_log_written:1\r\naudit_log_lost:3\r\n"),
        "{info}"
    );
    limit_files(&server, None);
    assert_eq!(client.call("FLUSHALL"), "+OK");
    server.log_line("can be written again; 3 events were lost");
    let content = fs::read_to_string(&path).expect("text");
    let sound = content
        .lines()
        .filter(|line| serde_json::from_str::<Value>(line).is_ok());
    assert_eq!(
        (content.lines().count(), sound.count()),
        (3, 2),
        "{content}"
    );
    let (_, log) = server.stop();
    assert!(!log.contains("was lost"), "logged more than once: {log}");
}

#[test]
fn required_log_refuses_commands_that_it_cannot_record() {
    let place = Place::new();
    let path = place.path("audit");
    let server = Server::start(
        &place,
        &format!(
            "audit-log {path}\naudit-log-required yes\nuser u on >p +@all ~*\nuser default on nopass +@all ~*"
        ),
    );
    let mut client = server.connect();
    assert_eq!(client.call("SET k v"), "+OK");
    assert_eq!(client.call("FUNCTION FLUSH"), "+OK");
    assert_eq!(
        short(&path),
        [
            "function default function|flush started",
            "function default function|flush success"
        ]
    );
    limit_files(&server, Some(fs::metadata(&path).expect("a file").len()));
    for line in [
        "FLUSHALL",
        "CONFIG SET timeout 5",
        "AUTH u p",
        "HELLO 3 AUTH u p",
        "EVAL \"return redis.call('flushall')\" 0",
    ] {
        let reply = client.call(line);
        assert!(reply.contains("the audit log"), "{line}: {reply}");
    }
    assert_eq!(client.call("MULTI"), "+OK");
    assert!(client.call("FLUSHALL").contains("the audit log"));
    assert!(client.call("EXEC").starts_with("-EXECABORT"));
    assert_eq!(client.call("GET k"), "v");
    assert_eq!(client.call("ACL WHOAMI"), "default");
    assert_eq!(client.call("CONFIG GET timeout"), "timeout 0");
    limit_files(&server, None);
    assert_eq!(client.call("AUTH u p"), "+OK");
    assert_eq!(client.call("FLUSHALL"), "+OK");
    assert_eq!(client.call("GET k"), "$-1");
}

#[test]
fn refused_connections_are_recorded() {
    let place = Place::new();
    let path = place.path("audit");
    let port = spare_port();
    let server = Server::start(&place, &format!("audit-log {path}\nport {port}"));
    let mut peer = connect_tcp(port);
    peer.send(&[0x16, 3, 1, 0, 5, 1, 0, 0, 1, 0]);
    wait_until("no event", || !events(&path).is_empty());
    let event = &events(&path)[0];
    assert_eq!(event["event"], "connection");
    assert_eq!(
        event["reason"],
        "a TLS handshake on a port that does not encrypt"
    );
    assert!(
        event["address"]
            .as_str()
            .expect("text")
            .starts_with("127.0.0.1:")
    );
    drop(server);
}

#[test]
fn log_is_a_regular_file_that_clients_cannot_choose() {
    let place = Place::new();
    for (path, reason) in [
        (place.path("missing/audit"), "No such file"),
        ("/dev/null".to_owned(), "expected a regular file"),
    ] {
        let refused = place.refuse(&format!("audit-log {path}"));
        assert!(
            refused.contains("opening the audit log") && refused.contains(reason),
            "{refused}"
        );
    }
    let server = Server::start(&place, &format!("audit-log {}", place.path("audit")));
    for line in ["CONFIG SET audit-log x", "CONFIG SET audit-log-required no"] {
        let reply = server.connect().call(line);
        assert!(reply.contains("can't set immutable config"), "{reply}");
    }
}

#[test]
fn logins_by_certificate_and_failures_of_tls_are_recorded() {
    let (place, port) = (Place::new(), spare_port());
    let (path, folder) = (place.path("audit"), place.path("tls"));
    let made = crate::support::command(&["tls", "init", &folder, "--client", "machine"]).output();
    assert!(made.expect("the binary runs").status.success());
    let lines = format!(
        "audit-log {path}\ntls-port {port}\ntls-cert-file {folder}/server.pem\ntls-key-file {folder}/server.key\n\
         tls-ca-cert-file {folder}/ca.pem\ntls-auth-clients-user CN\nuser machine on >p +@all ~*"
    );
    let _server = Server::start(&place, &lines);
    let mut plain = connect_tcp(port);
    assert!(plain.call("PING").contains("expects TLS"));
    let output = std::process::Command::new("redis-cli")
        .args(["--tls", "-h", "localhost", "-p", &port.to_string()])
        .args(["--cacert", &format!("{folder}/ca.pem")])
        .args(["--cert", &format!("{folder}/client.pem")])
        .args(["--key", &format!("{folder}/client.key"), "FLUSHALL"])
        .output()
        .expect("redis-cli is installed");
    assert_eq!(output.stdout, b"OK\n", "{output:?}");
    assert_eq!(
        short(&path),
        [
            "connection   refused",
            "auth machine  success",
            "flush machine flushall success"
        ]
    );
    let events = events(&path);
    let reason = events[0]["reason"].as_str().expect("a reason");
    assert!(reason.starts_with("TLS failed: "), "{reason}");
    assert_eq!(events[1]["reason"], "by the client's certificate");
}
