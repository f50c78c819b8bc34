//! Tests protected parameters and commands, compared with a real Redis 7.0.

use std::fs;
use std::path::Path;

use crate::judged::Both;
use crate::support::Place;

#[test]
fn errors_equal_those_of_redis() {
    let commands = "
        DEBUG SLEEP 0
        DEBUG
        MODULE LOAD x
        MODULE LOADEX x
        MODULE UNLOAD x
        MODULE LIST
        CONFIG SET dir /tmp
        CONFIG SET dbfilename a/b
        CONFIG SET dbfilename x.rdb
        CONFIG SET enable-protected-configs yes
        CONFIG SET enable-debug-command yes
        CONFIG SET enable-module-command yes
        CONFIG SET aclfile x
        CONFIG GET enable-protected-configs
        CONFIG GET enable-debug-command
        CONFIG GET enable-module-command
        MULTI
        MODULE LOAD x
        EXEC
        MULTI
        DEBUG SLEEP 0
        EXEC";
    Both::start("enable-debug-command no\n", None).same(commands);
    // The permissions are checked before the password.
    Both::start("enable-debug-command no\n", Some("x"))
        .same(&format!("{commands}\nAUTH x\n{commands}"));
}

#[test]
fn permissions_have_the_effect_that_they_have_in_redis() {
    for permission in ["yes", "local"] {
        let both = Both::start(
            &format!("enable-protected-configs {permission}\nenable-debug-command {permission}\n"),
            None,
        );
        both.same(
            "
            DEBUG SLEEP 0
            CONFIG SET dir /nosuch
            CONFIG SET dir /dev/null
            CONFIG SET dir \"\"
            CONFIG SET dbfilename a/b
            CONFIG SET dbfilename x.rdb dir /nosuch
            CONFIG GET dbfilename
            CONFIG SET dbfilename y.rdb
            CONFIG GET dbfilename
            CONFIG SET dir / dir /
            CONFIG SET enable-protected-configs no
            CONFIG SET aclfile x",
        );
    }
}

#[test]
fn snapshots_follow_a_changed_folder() {
    let place = Place::new();
    let folder = place.path("snapshots");
    fs::create_dir(&folder).expect("space");
    let server = crate::support::Server::start(&place, "enable-protected-configs local");
    let mut client = server.connect();
    assert!(client.call("SAVE").starts_with("-ERR"));
    // A failed change leaves no trace.
    let failed = client.call(&format!("CONFIG SET dir {folder} maxclients 4000000000"));
    assert!(failed.contains("maxclients"), "{failed}");
    assert!(client.call("SAVE").starts_with("-ERR"));
    assert_eq!(client.call(&format!("CONFIG SET dir {folder}")), "+OK");
    assert_eq!(client.call("SAVE"), "+OK");
    assert_eq!(client.call("CONFIG SET dbfilename other.rdb"), "+OK");
    assert_eq!(client.call("SAVE"), "+OK");
    for name in ["dump.rdb", "other.rdb"] {
        assert!(Path::new(&folder).join(name).exists(), "{name}");
    }
    assert_eq!(client.call("CONFIG SET migrate-hosts 127.0.0.1"), "+OK");
    let reached = client.call("MIGRATE 127.0.0.1 1 k 0 10");
    assert_eq!(reached, "+NOKEY");
}

#[test]
fn modules_cannot_be_enabled() {
    let place = Place::new();
    let mut server = crate::support::Server::start(&place, "enable-module-command yes");
    assert!(
        server.start.contains("modules are not supported"),
        "{}",
        server.start
    );
    let reply = server.connect().call("MODULE LOAD x");
    assert!(
        reply.starts_with("-ERR MODULE command not allowed"),
        "{reply}"
    );
    server.stop();
}
