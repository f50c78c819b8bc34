//! Servers of one store agree about its users.

use undercroft_conformance::client::Client;
use undercroft_conformance::resp::Reply;
use undercroft_conformance::servers::{Server, Settings, start_two};

use crate::support::{call, connect, serve, text, wait_for_end, wait_until};

fn is_denied(reply: &Reply) -> bool {
    text(reply).starts_with("NOPERM")
}

fn logged_in(server: &Server) -> Client {
    let mut client = connect(server);
    let reply = call(&mut client, "AUTH u x");
    assert_eq!(reply, Reply::Simple(b"OK".to_vec()));
    client
}

#[test]
fn change_at_one_server_applies_at_the_other_at_once() {
    let Some((one, two)) = start_two().expect("our servers start") else {
        return;
    };
    let mut admin = connect(&one);
    call(&mut admin, "ACL SETUSER u on nopass +@all ~* &*");
    let mut user = logged_in(&two);
    assert!(!is_denied(&call(&mut user, "SET k v")));
    call(&mut admin, "ACL SETUSER u -set");
    assert!(is_denied(&call(&mut user, "SET k v")));
    call(&mut admin, "ACL SETUSER u +set resetkeys ~a");
    assert!(is_denied(&call(&mut user, "SET k v")));
    assert!(!is_denied(&call(&mut user, "SET a v")));
    // A password that one server sets holds at the other one.
    call(&mut admin, "CONFIG SET requirepass secret");
    let mut stranger = connect(&two);
    assert!(text(&call(&mut stranger, "PING")).starts_with("NOAUTH"));
    assert_eq!(
        call(&mut stranger, "AUTH secret"),
        Reply::Simple(b"OK".to_vec())
    );
}

#[test]
fn deleted_user_loses_its_connections_to_all_servers() {
    let Some((one, two)) = start_two().expect("our servers start") else {
        return;
    };
    let mut admin = connect(&one);
    call(&mut admin, "ACL SETUSER u on nopass +@all ~* &*");
    let (mut idle, mut blocked, mut subscribed) =
        (logged_in(&two), logged_in(&two), logged_in(&two));
    let (mut here, mut queueing) = (logged_in(&one), logged_in(&two));
    blocked
        .send_raw(b"BLPOP list 0\r\n")
        .expect("the server reads");
    call(&mut subscribed, "SUBSCRIBE c");
    call(&mut queueing, "MULTI");
    call(&mut queueing, "SET k v");
    let mut other = connect(&two);
    let blocks = |client: &mut Client| {
        let list = text(&call(client, "CLIENT LIST"));
        list.lines().any(|line| line.contains("cmd=blpop"))
    };
    wait_until("BLPOP does not wait", || blocks(&mut other));
    assert_eq!(call(&mut admin, "ACL DELUSER u"), Reply::Integer(1));
    // Messages and items that come now reach neither subscribers nor waiters.
    call(&mut admin, "PUBLISH c secret");
    for client in [&mut subscribed, &mut idle, &mut here, &mut queueing] {
        let ended = client.receive();
        assert!(ended.is_err(), "{ended:?}");
    }
    wait_for_end(&mut blocked);
    call(&mut admin, "RPUSH list item");
    assert_eq!(call(&mut admin, "LLEN list"), Reply::Integer(1));
    assert_eq!(call(&mut admin, "EXISTS k"), Reply::Integer(0));
    // A new user with the same name has nothing to do with the old connections.
    let list = text(&call(&mut other, "CLIENT LIST"));
    assert!(!list.contains("user=u "), "{list}");
}

#[test]
fn users_outlive_their_servers() {
    let Some(one) = serve(Settings::default()) else {
        return;
    };
    let (store, mut admin) = (one.store(), connect(&one));
    call(&mut admin, "ACL SETUSER u on >p +get ~a* (%R~b +@read)");
    let before = call(&mut admin, "ACL LIST");
    let settings = Settings {
        store: Some(store),
        ..Settings::default()
    };
    let two = serve(settings).expect("our server starts");
    drop(admin);
    let mut client = connect(&two);
    assert_eq!(call(&mut client, "ACL LIST"), before);
    assert_eq!(call(&mut client, "AUTH u p"), Reply::Simple(b"OK".to_vec()));
    assert!(is_denied(&call(&mut client, "SET a 1")));
    assert!(!is_denied(&call(&mut client, "GET a")));
}

#[test]
fn connections_of_another_server_survive_a_start_with_the_same_users() {
    let Some(one) = serve(Settings::default()) else {
        return;
    };
    let mut admin = connect(&one);
    let lines = "enable-debug-command yes\nuser u on nopass +@all ~* &*\nuser default on nopass +@all ~* &*\n";
    let settings = |lines: &str| Settings {
        store: Some(one.store()),
        files: vec![("undercroft.conf".into(), lines.into())],
        ..Settings::default()
    };
    call(&mut admin, "ACL SETUSER gone on nopass +@all");
    let _two = serve(settings(lines));
    assert_eq!(call(&mut admin, "ACL GETUSER gone"), Reply::NullBulk);
    let mut user = logged_in(&one);
    // A third server defines the same users, and a fourth one changes the user.
    let _three = serve(settings(lines));
    assert!(!is_denied(&call(&mut user, "SET k v")));
    let _four = serve(settings(&lines.replace("~*", "~k*")));
    assert!(!is_denied(&call(&mut user, "SET k v")));
    assert!(is_denied(&call(&mut user, "SET other v")));
}

#[test]
fn rights_change_while_servers_are_busy() {
    let Some((one, two)) = start_two().expect("our servers start") else {
        return;
    };
    let mut admin = connect(&one);
    call(&mut admin, "ACL SETUSER u on nopass +@all ~*");
    let servers = [&one, &two];
    std::thread::scope(|scope| {
        let clients: Vec<_> = servers
            .map(|server| {
                scope.spawn(move || {
                    let mut user = logged_in(server);
                    let (mut allowed, mut denied) = (0, 0);
                    while denied < 50 || allowed < 50 {
                        match is_denied(&call(&mut user, "INCR n")) {
                            true => denied += 1,
                            false => allowed += 1,
                        }
                    }
                })
            })
            .into_iter()
            .collect();
        while clients.iter().any(|client| !client.is_finished()) {
            for rule in ["-incr", "+incr"] {
                call(&mut admin, &format!("ACL SETUSER u {rule}"));
            }
        }
    });
    // After the reply, no server runs a command with the old rights.
    let mut users = servers.map(logged_in);
    for _ in 0..200 {
        for (rule, denied) in [("-incr", true), ("+incr", false)] {
            call(&mut admin, &format!("ACL SETUSER u {rule}"));
            for user in &mut users {
                assert_eq!(is_denied(&call(user, "INCR n")), denied);
            }
        }
    }
}
