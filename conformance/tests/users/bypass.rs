//! Tries to reach keys and channels by detours. Each reply must be an error, and equal to that of Redis.

use undercroft_conformance::resp::Reply;

use crate::support::{Pair, call, connect, serve, text, wait_for_end};

/// Logs a pair of connections in as a user that may run every command, but use only the keys and
/// channels that begin with `my:`.
fn restricted(pair: &Pair) -> crate::support::Both {
    let mut admin = pair.connect();
    admin.calls(
        "SET secret hidden
        RPUSH list 1 2
        RPUSH my:list 1 2
        SET w_1 2
        XADD stream 1-1 f v
        GEOADD geo 1 1 m
        GEOADD my:geo 1 1 m
        ACL SETUSER u reset on nopass +@all ~my:* &my:*",
    );
    let mut user = pair.connect();
    user.call("AUTH u x");
    user
}

#[test]
fn commands_that_use_several_keys_check_each_of_them() {
    let Some(pair) = Pair::start() else {
        return;
    };
    let mut user = restricted(&pair);
    for line in [
        "GET secret",
        "COPY secret my:copy",
        "COPY my:list secret",
        "RENAME secret my:copy",
        "RENAME my:list secret",
        "MGET my:a secret",
        "MSET my:a 1 secret 2",
        "SINTERSTORE my:a list",
        "ZUNIONSTORE my:a 2 my:b secret",
        "BITOP AND my:a secret",
        "PFMERGE my:a secret",
        "LMOVE list my:a LEFT LEFT",
        "LMPOP 2 my:a list LEFT",
        "BLPOP my:a list 0.01",
        "SMOVE my:a secret m",
        "OBJECT ENCODING secret",
        "MEMORY USAGE secret",
        "DUMP secret",
        "RESTORE secret 0 x",
        "XREAD STREAMS my:a stream 0 0",
        "XREADGROUP GROUP g c STREAMS my:a stream > >",
        "XGROUP CREATE stream g $",
        "GEORADIUS my:geo 1 1 1 m STORE geo",
        "GEORADIUS my:geo 1 1 1 m STOREDIST geo",
        "GEORADIUS_RO geo 1 1 1 m",
        "GEOSEARCHSTORE my:a geo FROMLONLAT 1 1 BYRADIUS 1 m",
        "SORT list",
        "SORT my:list STORE list",
        "SORT my:list BY w_*",
        "SORT my:list GET w_*",
        "SORT_RO my:list GET w_*",
        "SORT my:list BY w_* STORE my:a",
        "MIGRATE 127.0.0.1 1 secret 0 10",
        "MIGRATE 127.0.0.1 1 \"\" 0 10 KEYS my:a secret",
        "MIGRATE 127.0.0.1 1 \"\" 0 10 KEYS secret KEYS my:a",
        "MIGRATE 127.0.0.1 1 \"\" 0 10 AUTH KEYS KEYS secret",
        "EVAL \"return redis.call('get', 'secret')\" 0",
        "EVAL \"return redis.call('get', KEYS[1])\" 1 secret",
        "EVAL \"return redis.call('sort', 'my:list', 'by', 'w_*')\" 0",
        "EVAL \"return redis.call('publish', 'other', 'x')\" 0",
        "EVAL \"return redis.pcall('get', 'secret')\" 0",
        "EVAL_RO \"return redis.call('get', 'secret')\" 0",
        "EVALSHA e0e1f9fabfc9d4800c877a703b823ac0578ff8db 1 secret",
        "WATCH secret",
        "PUBLISH other x",
        "SPUBLISH other x",
        "SUBSCRIBE other",
        "SUBSCRIBE my:a other",
        "PSUBSCRIBE *",
        "PSUBSCRIBE my:a",
        "SSUBSCRIBE other",
        "SUBSCRIBE __keyspace@0__:secret",
        "PSUBSCRIBE __key*",
    ] {
        let reply = user.call(line);
        assert!(reply.is_error(), "{line}: {reply:?}");
    }
    user.calls(
        "EVAL \"return {redis.acl_check_cmd('get','secret'), redis.acl_check_cmd('get','my:a')}\" 0
        SORT my:list BY nosort
        SUBSCRIBE my:a
        UNSUBSCRIBE my:a
        PSUBSCRIBE my:*",
    );
}

#[test]
fn functions_check_the_rights_of_their_caller() {
    let Some(pair) = Pair::start() else {
        return;
    };
    let mut admin = pair.connect();
    admin.calls(
        "SET secret hidden
        FUNCTION LOAD \"#!lua name=l\\nredis.register_function('f', function(keys, args) return redis.call('get', args[1]) end)\"
        ACL SETUSER u on nopass +fcall +get ~my:*
        ACL SETUSER v on nopass +fcall ~*",
    );
    let mut user = pair.connect();
    user.calls(
        "AUTH u x
        FCALL f 0 my:a
        FCALL f 0 secret
        FCALL f 1 secret my:a
        FCALL_RO f 0 my:a
        AUTH v x
        FCALL f 0 my:a",
    );
}

#[test]
fn transactions_check_rights_when_they_queue_and_when_they_run() {
    let Some(pair) = Pair::start() else {
        return;
    };
    let mut user = restricted(&pair);
    let mut admin = pair.connect();
    user.calls(
        "MULTI
        GET secret
        SET my:a 1
        EXEC
        GET my:a
        MULTI
        SET my:a 1
        GET my:b
        PUBLISH my:c x
        PING
        EVAL \"return redis.pcall('set', 'my:a', '2')\" 0",
    );
    admin.call("ACL SETUSER u resetkeys ~my:b resetchannels -ping");
    user.calls(
        "EXEC
        GET my:b",
    );
    assert_eq!(admin.call("GET my:a"), Reply::NullBulk);
    // EXEC itself can be denied, and AUTH in a transaction changes the rights of later commands.
    admin.calls(
        "ACL SETUSER u -exec
        ACL SETUSER v on nopass +@all ~v*",
    );
    user.calls(
        "MULTI
        GET my:b
        EXEC
        DISCARD
        AUTH v x
        MULTI
        SET v1 1
        AUTH u wrong
        GET v1
        EXEC",
    );
}

#[test]
fn revoked_channels_end_subscriptions() {
    let Some(pair) = Pair::start() else {
        return;
    };
    let mut admin = pair.connect();
    for (subscribe, rules) in [
        ("SUBSCRIBE c1", "resetchannels &d*"),
        ("SSUBSCRIBE c1", "resetchannels"),
        ("PSUBSCRIBE c*", "resetchannels &c &c1"),
    ] {
        admin.call("ACL SETUSER u reset on nopass +@all &c*");
        let mut user = pair.connect();
        user.call("AUTH u x");
        user.call(subscribe);
        // Channels that still fit, or more of them, end nothing.
        admin.call("ACL SETUSER u &d*");
        user.call("PING");
        admin.call(&format!("ACL SETUSER u {rules}"));
        for client in [&mut admin.judge, &mut admin.ours] {
            call(client, "PUBLISH c1 secret");
        }
        for client in [&mut user.judge, &mut user.ours] {
            let ended = client.receive();
            assert!(ended.is_err(), "{subscribe}: {ended:?}");
        }
    }
}

#[test]
fn subscriber_with_resp3_that_revokes_its_own_channel_is_closed_after_the_reply() {
    let Some(ours) = serve(Default::default()) else {
        return;
    };
    let mut user = connect(&ours);
    call(&mut user, "ACL SETUSER u on nopass +@all &c");
    call(&mut user, "HELLO 3 AUTH u x");
    call(&mut user, "SUBSCRIBE c");
    let reply = call(&mut user, "ACL SETUSER u resetchannels");
    assert_eq!(reply, Reply::Simple(b"OK".to_vec()));
    wait_for_end(&mut user);
}

#[test]
fn monitor_and_client_list_need_their_own_rights() {
    let Some(pair) = Pair::start() else {
        return;
    };
    let mut admin = pair.connect();
    admin.call("ACL SETUSER u on nopass +@all -@dangerous ~*");
    let mut user = pair.connect();
    user.calls(
        "AUTH u x
        MONITOR
        CLIENT LIST
        CLIENT KILL TYPE normal
        CONFIG GET *
        INFO
        KEYS *
        DEBUG SLEEP 0
        ACL LIST
        ACL SETUSER u +@all
        ACL WHOAMI
        REPLICAOF NO ONE
        FLUSHALL
        SWAPDB 0 1
        SLOWLOG GET
        LATENCY RESET
        ROLE
        RESTORE k 0 x
        SORT k",
    );
}

#[test]
fn own_commands_check_rights_too() {
    let Some(ours) = serve(Default::default()) else {
        return;
    };
    let (mut admin, mut user) = (connect(&ours), connect(&ours));
    call(
        &mut admin,
        "ACL SETUSER u on nopass +@feed -feed.del %R~f %W~g",
    );
    call(&mut admin, "FEED.CREATE f SIZE 4");
    call(&mut user, "AUTH u x");
    for (line, allowed) in [
        ("FEED.RANGE f 0 1", true),
        ("FEED.ADD f 0 abcd", false),
        ("FEED.CREATE g SIZE 4", true),
        ("FEED.ADD g 0 abcd", true),
        ("FEED.RANGE g 0 1", false),
        ("FEED.DEL g abcd", false),
        ("REPLICA.WAIT 0 0", false),
        ("GET f", false),
    ] {
        let reply = call(&mut user, line);
        assert_eq!(
            text(&reply).starts_with("NOPERM"),
            !allowed,
            "{line}: {reply:?}"
        );
    }
    let members = call(&mut admin, "ACL CAT feed");
    let members = members.items().expect("an array");
    assert!(members.len() > 10 && members.iter().all(|name| text(name).starts_with("feed.")));
}

#[test]
fn long_value_is_checked_when_it_is_complete() {
    let Some(ours) = serve(Default::default()) else {
        return;
    };
    let (mut admin, mut user) = (connect(&ours), connect(&ours));
    call(
        &mut admin,
        "ACL SETUSER u on nopass allcommands allkeys allchannels",
    );
    call(&mut user, "AUTH u x");
    // The server receives such a value directly into the store.
    let length = 1 << 20;
    let start = format!("*3\r\n$3\r\nSET\r\n$1\r\nk\r\n${length}\r\n");
    user.send_raw(start.as_bytes()).expect("the server reads");
    user.send_raw(&vec![b'x'; length / 2])
        .expect("the server reads");
    call(&mut admin, "ACL SETUSER u -set");
    user.send_raw(&vec![b'x'; length / 2])
        .expect("the server reads");
    user.send_raw(b"\r\n").expect("the server reads");
    let reply = user.receive().expect("a reply");
    assert!(text(&reply).starts_with("NOPERM"), "{reply:?}");
    assert_eq!(call(&mut admin, "EXISTS k"), Reply::Integer(0));
}
