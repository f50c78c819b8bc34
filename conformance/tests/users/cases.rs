//! The cases of Redis' own tests (unit/acl, unit/acl-v2, unit/auth) that random comparison does not
//! cover. Both servers run the same lines, and their replies must be equal.

use crate::support::{Pair, call, normal, text};

#[test]
fn users_are_created_changed_and_deleted() {
    let Some(pair) = Pair::start() else {
        return;
    };
    let mut admin = pair.connect();
    admin.calls(
        "ACL WHOAMI
        ACL SETUSER newuser
        ACL USERS
        ACL SETUSER \"a a\"
        ACL SETUSER \"a\\x00a\"
        ACL SETUSER newuser >passwd1
        AUTH newuser passwd1
        ACL SETUSER newuser on +acl
        AUTH newuser passwd1
        ACL WHOAMI
        ACL SETUSER newuser >passwd2
        AUTH newuser passwd1
        AUTH newuser passwd2
        AUTH newuser passwd3
        ACL SETUSER newuser <passwd1
        AUTH newuser passwd1
        ACL SETUSER newuser #34344e4d60c2b6d639b7bd22e18f2b0b91bc34bf0ac5f9952744435093cfb4e6
        AUTH newuser passwd4
        ACL SETUSER newuser #34344e4d60c2b6d639b7bd22e18f2b0b91bc34bf0ac5f9952744435093cfb4e
        ACL SETUSER newuser #34344e4d60c2b6d639b7bd22e18f2b0b91bc34bf0ac5f9952744435093cfb4eq
        ACL GETUSER newuser
        ACL SETUSER newuser !34344e4d60c2b6d639b7bd22e18f2b0b91bc34bf0ac5f9952744435093cfb4e6
        ACL GETUSER newuser
        SET foo bar
        ACL SETUSER newuser +set
        SET foo bar
        ACL SETUSER newuser allcommands ~foo:* ~bar:*
        SET foo:1 a
        SET zap:3 c
        ACL SETUSER newuser nopass
        AUTH newuser zipzapblabla
        ACL SETUSER newuser -ping
        PING
        ACL SETUSER newuser +@all -client +client|id +client|setname
        CLIENT SETNAME foo
        CLIENT KILL TYPE master
        ACL SETUSER newuser -@all +acl +select|0
        SELECT 0
        SELECT 1
        ACL SETUSER newuser -@all +acl +del +incr +debug|object
        INCR key
        DEBUG SEGFAULT
        ACL SETUSER newuser +@all +config|asdf
        ACL SETUSER newuser +@all -config|asdf
        ACL SETUSER newuser +@all +get|key1|key2
        ACL SETUSER newuser +config|get|appendonly
        ACL SETUSER newuser reset -debug +debug|a +debug|b +debug|c
        ACL SETUSER newuser -debug
        ACL GETUSER newuser",
    );
    let mut admin = pair.connect();
    admin.calls(
        "ACL SETUSER not_used on >passwd
        ACL DELUSER not_used absent not_used
        PING
        ACL DELUSER default
        ACL GENPASS -236
        ACL GENPASS 5000
        ACL HELP xxx
        ACL LOAD
        ACL SAVE
        ACL CAT NON_EXISTS
        ACL CAT NON_EXISTS NON_EXISTS2
        ACL SETUSER bob +memory|doctor
        ACL GETUSER bob
        ACL SETUSER bob +memory
        ACL GETUSER bob",
    );
    // The client that deletes its own user gets the reply, and is closed then.
    let mut own = pair.connect();
    own.calls(
        "ACL SETUSER using on +acl >passwd
        AUTH using passwd
        ACL DELUSER using",
    );
    for client in [&mut own.judge, &mut own.ours] {
        let ended = client.receive();
        assert!(ended.is_err(), "{ended:?}");
    }
}

#[test]
fn each_category_is_described_by_its_name() {
    let Some(pair) = Pair::start() else {
        return;
    };
    let mut admin = pair.connect();
    let categories = call(&mut admin.judge, "ACL CAT");
    for category in categories.items().expect("an array").iter().map(text) {
        for rules in [format!("+@all -@{category}"), format!("-@all +@{category}")] {
            admin.call(&format!("ACL SETUSER u reset {rules}"));
            let user = call(&mut admin.ours, "ACL GETUSER u");
            let shown = normal(&user);
            assert!(shown.contains(&rules), "{rules}: {shown:?}");
            let judge = call(&mut admin.judge, "ACL GETUSER u");
            assert_eq!(shown, normal(&judge));
        }
    }
}

#[test]
fn logins_depend_on_the_default_user() {
    let Some(pair) = Pair::start() else {
        return;
    };
    let mut admin = pair.connect();
    admin.calls(
        "AUTH foo
        AUTH a b c
        AUTH default anything
        CONFIG SET requirepass foobar
        SET foo bar",
    );
    let mut stranger = pair.connect();
    stranger.calls(
        "AUTH wrong!
        SET foo bar
        HELLO 3
        HELLO 2 AUTH default wrong SETNAME x
        AUTH foobar
        CLIENT GETNAME
        INCR n
        RESET
        INCR n
        CLIENT SETNAME x
        CLIENT GETNAME",
    );
    // The password of the default user can contain any bytes.
    admin.call("CONFIG SET requirepass \"abc\\x00def\"");
    let mut stranger = pair.connect();
    stranger.calls(
        "AUTH abc
        AUTH \"abc\\x00def\"
        PING",
    );
    // A connection that began with a password required may run commands while none is required.
    let mut waiting = pair.connect();
    waiting.call("PING");
    admin.call("ACL SETUSER default nopass");
    waiting.call("PING");
    admin.call("ACL SETUSER default resetpass >z");
    waiting.call("PING");
    admin.call("ACL SETUSER default off nopass");
    let mut stranger = pair.connect();
    stranger.calls(
        "PING
        AUTH x
        AUTH default x",
    );
    admin.calls(
        "ACL SETUSER default on
        ACL SETUSER one >supass on +@all
        ACL SETUSER two >supass on +@all
        AUTH one supass
        ACL WHOAMI
        HELLO 2 AUTH one supass AUTH two supass AUTH one pass
        ACL WHOAMI
        HELLO 2 SETNAME client5 SETNAME \"client name\"
        CLIENT GETNAME
        CLIENT KILL USER absent
        CLIENT KILL USER two
        ACL SETUSER one -@all
        PING
        AUTH default x
        PING",
    );
    // A user that is switched off keeps its connections.
    admin.call("ACL SETUSER two on nopass +@all");
    let mut user = pair.connect();
    user.call("AUTH two x");
    admin.call("ACL SETUSER two off");
    user.calls(
        "PING
        AUTH two x",
    );
}

#[test]
fn denied_calls_are_logged() {
    let Some(pair) = Pair::start() else {
        return;
    };
    let mut admin = pair.connect();
    admin.calls(
        "ACL SETUSER u on >foo +set ~object:1234 +eval +multi +exec resetchannels +publish
        ACL SETUSER s on nopass +mget ~key (+mget ~key ~otherkey)",
    );
    let mut user = pair.connect();
    let log = |admin: &mut crate::support::Both| {
        let entries = |client| {
            let log = call(client, "ACL LOG 100");
            let entries = log.items().expect("an array").iter();
            let shown = entries.map(|entry| {
                let fields = entry.items().expect("fields");
                // The first five fields do not depend on the time and the connection.
                fields[..10].to_vec()
            });
            shown.collect::<Vec<_>>()
        };
        let (judge, ours) = (entries(&mut admin.judge), entries(&mut admin.ours));
        assert_eq!(ours, judge);
        ours.len()
    };
    user.calls(
        "AUTH u foo
        GET foo
        GET foo
        SCRIPT HELP
        SET somekeynotallowed 1234
        PUBLISH somechannelnotallowed nullmsg
        MULTI
        INCR foo
        EXEC
        EVAL \"redis.call('incr','foo')\" 0
        EVAL \"redis.pcall('incr','foo') return redis.pcall('set','x',1)\" 0
        AUTH u wrong-password
        HELLO 2 AUTH absent x",
    );
    assert_eq!(log(&mut admin), 9);
    // The key that no selector allows is logged.
    user.calls(
        "AUTH s x
        GET key
        MGET otherkey someotherkey
        MGET key otherkey someotherkey",
    );
    log(&mut admin);
    admin.calls(
        "ACL LOG RESET
        ACL LOG
        ACL LOG x
        ACL SETUSER u +incr",
    );
    user.calls(
        "AUTH u foo
        MULTI
        INCR object:1234",
    );
    admin.call("ACL SETUSER u -incr");
    user.call("EXEC");
    assert_eq!(log(&mut admin), 1);
    admin.call("CONFIG SET acllog-max-len 2");
    user.calls(
        "SET a 1
        SET b 1
        SET c 1",
    );
    assert_eq!(log(&mut admin), 2);
    admin.call("CONFIG SET acllog-max-len 0");
    assert_eq!(log(&mut admin), 2);
    user.call("SET d 1");
    assert_eq!(log(&mut admin), 0);
    let client = text(&admin.ours.call(["CLIENT", "LIST"]).expect("a reply"));
    assert!(
        client.contains(" user=u ") && client.contains(" user=default "),
        "{client}"
    );
}

#[test]
fn blocked_command_is_served_although_its_key_was_revoked() {
    let Some(pair) = Pair::start() else {
        return;
    };
    let mut admin = pair.connect();
    admin.call("ACL SETUSER u on nopass +@all ~*");
    let mut user = pair.connect();
    user.call("AUTH u x");
    for (client, admin) in [
        (&mut user.judge, &mut admin.judge),
        (&mut user.ours, &mut admin.ours),
    ] {
        client
            .send_raw(b"BLPOP list 0\r\n")
            .expect("the server reads");
        crate::support::wait_until("BLPOP does not wait", || {
            text(&call(admin, "CLIENT LIST")).contains("cmd=blpop")
        });
    }
    admin.calls(
        "ACL SETUSER u resetkeys
        RPUSH list item",
    );
    let judge = user.judge.receive().expect("a reply");
    let ours = user.ours.receive().expect("a reply");
    assert_eq!(ours, judge);
    user.call("BLPOP list 0");
}

#[test]
fn rights_to_read_and_write_differ() {
    let Some(pair) = Pair::start() else {
        return;
    };
    let mut user = pair.connect();
    user.calls(
        "ACL SETUSER command-test on nopass +@all %R~read* %W~write* %RW~rw*
        ACL SETUSER channels +@all resetchannels &channel
        SET read bar
        ACL DRYRUN command-test GET read
        ACL DRYRUN not-a-user GET read
        ACL DRYRUN command-test not-a-command read
        ACL DRYRUN command-test SET read
        ACL DRYRUN command-test MIGRATE whatever whatever rw 0 500
        ACL DRYRUN command-test MIGRATE whatever whatever read 0 500
        ACL DRYRUN command-test MIGRATE whatever whatever \"\" 0 5000 KEYS rw
        ACL DRYRUN command-test MIGRATE whatever whatever \"\" 0 5000 KEYS read
        ACL DRYRUN command-test MIGRATE whatever whatever \"\" 0 5000 AUTH KEYS KEYS write
        ACL DRYRUN command-test MIGRATE whatever whatever \"\" 0 5000 AUTH2 KEYS 123 KEYS rw
        ACL DRYRUN command-test MIGRATE whatever whatever \"\" 0 5000 AUTH2 USER KEYS KEYS read
        ACL DRYRUN command-test MIGRATE whatever whatever \"\" 0 5000 KEYS read KEYS rw
        ACL DRYRUN command-test MIGRATE whatever whatever other 0 5000 KEYS
        ACL DRYRUN command-test MIGRATE whatever whatever \"\" 0 5000 COPY KEYS
        ACL DRYRUN command-test SORT read STORE write
        ACL DRYRUN command-test SORT read STORE read
        ACL DRYRUN command-test SORT write STORE write
        ACL DRYRUN command-test EVAL \"\" 1 rw1
        ACL DRYRUN command-test EVAL \"\" 1 read
        ACL DRYRUN command-test EVAL_RO \"\" 1 read
        ACL DRYRUN command-test EVAL \"\" 0 read
        ACL DRYRUN command-test EVAL \"\" -1 read
        ACL DRYRUN command-test EVAL \"\" 3 rw read
        ACL DRYRUN command-test GEORADIUS read longitude latitude radius M STOREDIST write
        ACL DRYRUN command-test GEORADIUS read1 longitude latitude radius M STORE read2
        ACL DRYRUN command-test GEORADIUS write1 longitude latitude radius M STORE write2
        ACL DRYRUN command-test HEXISTS write foo
        ACL DRYRUN command-test SISMEMBER nothing foo
        ACL DRYRUN command-test PFCOUNT write read
        ACL DRYRUN command-test TOUCH write
        ACL DRYRUN command-test MEMORY USAGE nothing
        ACL DRYRUN command-test STRLEN write
        ACL DRYRUN command-test XLEN nothing
        ACL DRYRUN channels SPUBLISH channel foo
        ACL DRYRUN channels SSUBSCRIBE channel other
        ACL DRYRUN channels SUNSUBSCRIBE other
        AUTH command-test x
        SET read bar
        SET write bar get
        SET write bar ex get
        SET write bar
        GET write
        BITFIELD read get u4 0
        BITFIELD read get u4 0 set u4 0 1
        BITFIELD write get u4 0
        COPY read write
        COPY write read",
    );
}
