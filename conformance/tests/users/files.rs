//! Users that files and the configuration define.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use undercroft_conformance::client::Client;
use undercroft_conformance::resp::Reply;
use undercroft_conformance::servers::{Kind, Server, Settings};

use crate::support::{Both, Pair, call, connect, normal, serve, text};

/// Users as in the ACL files of Redis' own tests.
const FILE: &str = "user alice on allcommands allkeys &* >alice\n\
                    user bob on -@all +@set +acl ~set* &* >bob (%W~w* +set) (%R~r* +get)\n\
                    user default on nopass ~* &* +@all\n";

/// Starts both servers with an ACL file and further configuration.
fn start(file: &str, config: &str) -> Option<Pair> {
    let config = format!("enable-debug-command yes\naclfile users.acl\n{config}");
    let ours = serve(Settings {
        files: vec![
            ("undercroft.conf".into(), config.clone().into()),
            ("users.acl".into(), file.into()),
        ],
        ..Settings::default()
    })?;
    let words = config.lines().skip(1).flat_map(|line| {
        let (name, value) = line.split_once(' ').expect("a value");
        [format!("--{name}"), value.to_owned()]
    });
    let judge = Server::start(
        Kind::Redis,
        Settings {
            files: vec![("users.acl".into(), file.into())],
            arguments: words.collect(),
            ..Settings::default()
        },
    )
    .expect("redis-server starts");
    Some(Pair { judge, ours })
}

fn same_list(admin: &mut Both) {
    let judge = call(&mut admin.judge, "ACL LIST");
    let ours = call(&mut admin.ours, "ACL LIST");
    assert_eq!(normal(&ours), normal(&judge));
}

#[test]
fn acl_file_is_loaded_and_saved_as_in_redis() {
    let Some(pair) = start(FILE, "acl-pubsub-default allchannels\n") else {
        return;
    };
    let mut admin = pair.connect();
    same_list(&mut admin);
    admin.calls(
        "AUTH alice alice
        ACL WHOAMI
        SET key value
        PUBLISH hello world
        AUTH bob bob
        SADD set 1 2 3
        SET key value
        SET w1 1
        AUTH default x
        ACL SETUSER eve on +get allkeys >eve
        ACL SETUSER mortimer on >mortimer ~* +@all
        ACL SAVE
        ACL SETUSER late on nopass +@all ~*
        ACL LOAD
        ACL USERS
        ACL GETUSER late
        AUTH eve eve
        GET key
        SET key value",
    );
    let mut admin = pair.connect();
    same_list(&mut admin);
    let path = pair.ours.directory().join("users.acl");
    let mode = fs::metadata(&path).expect("a file").permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    let saved = fs::read_to_string(&path).expect("a file");
    assert!(
        saved.starts_with("user alice on #") && saved.ends_with("+@all\n"),
        "{saved}"
    );
    // As in Redis 7.0, ACL LOAD closes the connections of all users but the default one.
    let mut alice = pair.connect();
    alice.call("AUTH alice alice");
    let mut own = pair.connect();
    own.call("AUTH mortimer mortimer");
    own.call("ACL LOAD");
    for client in [
        &mut alice.judge,
        &mut alice.ours,
        &mut own.judge,
        &mut own.ours,
    ] {
        let ended = client.receive();
        assert!(ended.is_err(), "{ended:?}");
    }
    admin.call("PING");
}

#[test]
fn faults_of_an_acl_file_change_nothing() {
    let Some(pair) = start(FILE, "") else {
        return;
    };
    let mut admin = pair.connect();
    for fault in [
        "user alice on nopass ~* -@all\n",
        "user carol +nosuch ~x\n",
        "user carol on hello -@all\n",
        "usr carol\n",
        "user\n",
        "\n\n  user carol on   ~x\t\n",
        "# a comment\n",
    ] {
        for server in [&pair.judge, &pair.ours] {
            let path = server.directory().join("users.acl");
            fs::write(path, format!("{FILE}{fault}")).expect("a writable file");
        }
        // The name of the file is the one in the configuration on both sides.
        let (judge, ours) = (
            call(&mut admin.judge, "ACL LOAD"),
            call(&mut admin.ours, "ACL LOAD"),
        );
        assert_eq!(ours, judge, "{fault}");
        same_list(&mut admin);
    }
    for server in [&pair.judge, &pair.ours] {
        fs::remove_file(server.directory().join("users.acl")).expect("a file");
    }
    let reply = text(&call(&mut admin.ours, "ACL LOAD"));
    assert!(
        reply.starts_with("ERR Error loading ACLs, opening file 'users.acl': No such file"),
        "{reply}"
    );
    same_list(&mut admin);
    // A folder that cannot be written is reported, and leaves the file as it was.
    fs::create_dir(pair.ours.directory().join("users.acl")).expect("a writable folder");
    let reply = text(&call(&mut admin.ours, "ACL SAVE"));
    assert!(
        reply.starts_with("ERR There was an error trying to save the ACLs."),
        "{reply}"
    );
    assert!(
        pair.ours.log().contains("ACL SAVE: "),
        "{}",
        pair.ours.log()
    );
}

#[test]
fn default_of_channels_applies_to_new_users_only() {
    let Some(pair) = start("user alice on nopass +@all\n", "") else {
        return;
    };
    let mut admin = pair.connect();
    admin.calls(
        "ACL GETUSER default
        ACL GETUSER alice
        CONFIG SET acl-pubsub-default allchannels
        ACL SETUSER new
        ACL SETUSER alice reset
        ACL SETUSER one &test
        CONFIG SET acl-pubsub-default resetchannels
        ACL GETUSER new
        ACL GETUSER alice
        ACL SETUSER one &test
        ACL GETUSER one
        ACL SETUSER default reset on nopass ~* +@all
        PUBLISH c x
        CONFIG SET acl-pubsub-default x
        CONFIG GET acl-pubsub-default
        CONFIG SET aclfile x",
    );
}

#[test]
fn lines_of_the_configuration_define_users() {
    let config = "enable-debug-command yes\n\
                  user default on nopass ~* +@all\n\
                  user carol on >\"a b\" ~c* (%R~d +get) +@write\n\
                  requirepass ignored\n";
    let Some(ours) = serve(Settings {
        files: vec![("undercroft.conf".into(), config.into())],
        ..Settings::default()
    }) else {
        return;
    };
    let mut client = connect(&ours);
    let denied = |client: &mut Client, line: &str| text(&call(client, line)).starts_with("NOPERM");
    // The default user has no channels, because its line names none.
    assert!(denied(&mut client, "SUBSCRIBE c"));
    assert_eq!(
        call(&mut client, "AUTH carol \"a b\""),
        Reply::Simple(b"OK".to_vec())
    );
    assert!(!denied(&mut client, "SET c1 v") && denied(&mut client, "GET c1"));
    assert!(!denied(&mut client, "GET d") && denied(&mut client, "SET d v"));
}

#[test]
fn server_with_faulty_users_does_not_start() {
    for (config, file, expected) in [
        (
            "user a +nosuch\n",
            "",
            "line 2: the rule '+nosuch' of the user 'a' is not valid",
        ),
        (
            "user a on\nuser a off\n",
            "",
            "line 3: the user 'a' is defined twice",
        ),
        (
            "aclfile users.acl\nuser a on\n",
            FILE,
            "expected either aclfile or user lines",
        ),
        (
            "aclfile users.acl\n",
            "user a +nosuch\n",
            "users.acl:1: Error in applying operation '+nosuch'",
        ),
        ("aclfile nowhere.acl\n", "", "opening file 'nowhere.acl'"),
    ] {
        if undercroft_conformance::servers::undercroft_binary().is_none() {
            return;
        }
        let config = format!("enable-debug-command yes\n{config}");
        let started = Server::start(
            Kind::Undercroft,
            Settings {
                files: vec![
                    ("undercroft.conf".into(), config.clone().into()),
                    ("users.acl".into(), file.into()),
                ],
                ..Settings::default()
            },
        );
        let error = started.expect_err("it refuses to start").to_string();
        assert!(error.contains(expected), "{config}: {error}");
    }
}
