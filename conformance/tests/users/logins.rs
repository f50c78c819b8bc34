//! Failed logins are delayed and logged.

use std::time::{Duration, Instant};

use undercroft_conformance::resp::Reply;
use undercroft_conformance::servers::Settings;

use crate::support::{call, connect, serve, text};

#[test]
fn failed_logins_are_delayed_without_delaying_others() {
    let Some(server) = serve(Settings::default()) else {
        return;
    };
    let (mut guesser, mut other) = (connect(&server), connect(&server));
    call(&mut other, "ACL SETUSER u on >right +@all");
    let start = Instant::now();
    for _ in 0..8 {
        assert!(text(&call(&mut guesser, "AUTH u wrong")).starts_with("WRONGPASS"));
    }
    // The delays are 50, 100, 200 and 400 ms. Another connection from the address does not shorten
    // them, and the right password is delayed as well.
    for _ in 0..4 {
        let mut next = connect(&server);
        next.send_raw(b"AUTH u wrong\r\nPING\r\n")
            .expect("the server reads");
        for _ in 0..100 {
            assert_eq!(call(&mut other, "PING"), Reply::Simple(b"PONG".to_vec()));
        }
        assert!(text(&next.receive().expect("a reply")).starts_with("WRONGPASS"));
        assert_eq!(
            next.receive().expect("a reply"),
            Reply::Simple(b"PONG".to_vec())
        );
    }
    assert_eq!(
        call(&mut guesser, "HELLO 2 AUTH u right")
            .items()
            .map(<[_]>::len),
        Some(14)
    );
    let least = Duration::from_millis(50 + 100 + 200 + 400);
    assert!(start.elapsed() >= least, "{:?}", start.elapsed());
    let log = call(&mut other, "ACL LOG");
    let entries = log.items().expect("an array");
    assert_eq!(entries.len(), 1, "{log:?}");
    let field = |name: &str| {
        let fields = entries[0].items().expect("fields");
        let place = fields.iter().position(|field| text(field) == name);
        fields[place.expect("a field") + 1].clone()
    };
    assert_eq!(field("count"), Reply::Integer(12));
    assert_eq!(field("entry-id"), Reply::Integer(0));
    assert_eq!(text(&field("reason")), "auth");
    assert_eq!(text(&field("object")), "AUTH");
    assert_eq!(text(&field("username")), "u");
    let info = text(&call(&mut other, "INFO stats"));
    assert!(info.contains("acl_access_denied_auth:12\r\n"), "{info}");
    call(&mut other, "CONFIG RESETSTAT");
    let info = text(&call(&mut other, "INFO stats"));
    assert!(info.contains("acl_access_denied_auth:0\r\n"), "{info}");
}

#[test]
fn passwords_appear_in_no_log() {
    let Some(server) = serve(Settings::default()) else {
        return;
    };
    let mut client = connect(&server);
    call(&mut client, "CONFIG SET slowlog-log-slower-than 0");
    let mut monitor = connect(&server);
    call(&mut monitor, "MONITOR");
    for line in [
        "ACL SETUSER u on >hidden1 <hidden1 >hidden2 +@all",
        "AUTH u hidden2",
        "HELLO 2 AUTH u hidden2",
        "CONFIG SET requirepass hidden3",
        "ECHO end",
    ] {
        call(&mut client, line);
    }
    let log = call(&mut client, "SLOWLOG GET 100").lines().join("\n");
    assert!(log.contains("ACL") || log.contains("acl"), "{log}");
    assert!(!log.contains("hidden"), "{log}");
    loop {
        let line = text(&monitor.receive().expect("a line"));
        assert!(!line.contains("hidden"), "{line}");
        if line.contains("end") {
            break;
        }
    }
    assert!(!server.log().contains("hidden"));
}
