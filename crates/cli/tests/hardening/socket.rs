//! Tests who can connect to the Unix socket.

use std::fs;
use std::os::unix::fs::MetadataExt;

use crate::support::{Place, Server};

#[test]
fn mode_and_group_are_those_of_the_configuration() {
    let mode_of = |lines: &str| {
        let place = Place::new();
        let server = Server::start(&place, lines);
        assert_eq!(server.connect().call("PING"), "+PONG");
        let status = fs::metadata(place.path("socket")).expect("a socket");
        (status.mode() & 0o777, status.uid(), status.gid())
    };
    let (mode, user, group) = mode_of("");
    assert_eq!(mode, 0o600);
    assert_eq!(mode_of("unixsocketperm 770"), (0o770, user, group));
    assert_eq!(mode_of("unixsocketperm 0"), (0o600, user, group));
    if user != 0 {
        println!("skipped: only root can give a file to any group");
        return;
    }
    let groups = fs::read_to_string("/etc/group").expect("groups");
    let daemon = groups
        .lines()
        .find_map(|line| line.strip_prefix("daemon:x:"));
    let number = daemon
        .and_then(|line| line.split(':').next())
        .expect("a group");
    let number = number.parse().expect("a number");
    assert_eq!(mode_of("unixsocketgroup daemon"), (0o660, user, number));
    let both = "unixsocketgroup daemon\nunixsocketperm 600";
    assert_eq!(mode_of(both), (0o600, user, number));
}

#[test]
fn faulty_modes_and_groups_prevent_the_start() {
    let place = Place::new();
    for (line, reason) in [
        ("unixsocketperm 8", "couldn't be parsed as an octal number"),
        ("unixsocketperm 1777", "between 0 and 777"),
        ("unixsocketgroup nosuch", "there is no group of this name"),
    ] {
        let refused = place.refuse(line);
        assert!(refused.contains(reason), "{refused}");
    }
}
