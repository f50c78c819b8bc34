//! The cases of Redis' own tests (`tests/unit/tracking.tcl`), each run on our server and on a real
//! Redis.

use undercroft_conformance::resp::Reply;

use crate::support::{Invalidated, Tracked, info, keys, on_both, redirection, text};

#[test]
fn redirected_client_is_told_about_fetched_keys_only() {
    on_both(|server| {
        let (mut other, id) = redirection(server);
        let mut client = Tracked::connect(server);
        client.calls(&format!("CLIENT TRACKING on REDIRECT {id}"));
        client.calls("SET a 1\nSET b 1\nGET a\nINCR b\nINCR a");
        assert_eq!(other.next(), keys(&["a"]));
        client.calls("MGET a b c d e f g\nCLIENT TRACKING off\nINCR a");
        // The client is not told any more: the next invalidation is that of another key.
        client.calls(&format!("CLIENT TRACKING on BCAST REDIRECT {id}"));
        client.calls("MSET x 1 y 2 z 3");
        assert_eq!(other.next(), keys(&["x", "y", "z"]));
    });
}

#[test]
fn prefixes_are_told_separately_and_can_be_added() {
    on_both(|server| {
        let (mut other, id) = redirection(server);
        let mut client = Tracked::connect(server);
        client.calls(&format!(
            "CLIENT TRACKING on BCAST REDIRECT {id} PREFIX a: PREFIX b:
             MULTI
             INCR a:1
             INCR a:2
             INCR b:1
             INCR b:2
             INCR c:1
             EXEC"
        ));
        let mut both = [other.next(), other.next()];
        both.sort();
        assert_eq!(both, [keys(&["a:1", "a:2"]), keys(&["b:1", "b:2"])]);
        client.calls(&format!(
            "CLIENT TRACKING on BCAST REDIRECT {id} PREFIX c:\nINCR c:1234"
        ));
        assert_eq!(other.next(), keys(&["c:1234"]));
    });
}

#[test]
fn no_loop_omits_own_changes() {
    on_both(|server| {
        let (mut other, id) = redirection(server);
        let (mut client, mut writer) = (Tracked::connect(server), Tracked::connect(server));
        for mode in ["", "BCAST"] {
            client.calls("CLIENT TRACKING off");
            client.calls(&format!("CLIENT TRACKING on {mode} REDIRECT {id} NOLOOP"));
            client.calls("MGET other1 loop other2");
            writer.calls("SET other1 1");
            client.calls("SET loop 1");
            if mode.is_empty() {
                // In BCAST mode, Redis attributes the changes of a script to no client.
                client.calls("EVAL \"return redis.call('set', KEYS[1], '2')\" 1 loop");
            }
            client.calls("MULTI\nSET loop 2\nEXEC");
            writer.calls("SET other2 1");
            let told = [other.next(), other.next()];
            assert_eq!(told, [keys(&["other1"]), keys(&["other2"])], "{mode}");
        }
    });
}

#[test]
fn expired_keys_are_told_even_without_loop() {
    on_both(|server| {
        let (mut other, id) = redirection(server);
        let mut client = Tracked::connect(server);
        client.calls(&format!("CLIENT TRACKING on BCAST REDIRECT {id} NOLOOP"));
        client.calls("SET mykey myval PX 1\nSET mykeyotherkey myval");
        assert_eq!(other.next(), keys(&["mykey"]));
        // The key expires within a command of its client.
        client.calls("SET again myval PX 1");
        while client.call("GET again") != Reply::NullBulk {}
        assert_eq!(other.next(), keys(&["again"]));
    });
}

#[test]
fn hello_reports_the_protocol() {
    on_both(|server| {
        let mut client = Tracked::connect(server);
        let mut protocol = |line: &str| {
            let reply = client.call(line);
            let items = reply.items().expect("a map");
            let place = items.iter().position(|item| text(item) == "proto");
            items[place.expect("a field") + 1].clone()
        };
        for (line, expected) in [("HELLO 3", 3), ("HELLO", 3), ("HELLO 2", 2), ("HELLO", 2)] {
            assert_eq!(protocol(line), Reply::Integer(expected), "{line}");
        }
    });
}

#[test]
fn invalidations_follow_changes_of_the_protocol() {
    on_both(|server| {
        let (mut other, id) = redirection(server);
        let (mut client, mut writer) = (Tracked::resp3(server), Tracked::connect(server));
        client.calls("CLIENT TRACKING on");
        writer.calls("SET key1 1");
        client.calls("GET key1");
        writer.calls("SET key1 2");
        assert_eq!(client.next(), keys(&["key1"]));
        client.calls(&format!("CLIENT TRACKING on REDIRECT {id}"));
        for hello in ["HELLO 3", "HELLO 2", "HELLO 3"] {
            client.calls("GET key1");
            client.calls(hello);
            writer.calls("INCR key1");
            assert_eq!(other.next(), keys(&["key1"]));
        }
    });
}

#[test]
fn scripts_track_their_keys_once_they_read() {
    on_both(|server| {
        let (mut client, mut writer) = (Tracked::resp3(server), Tracked::connect(server));
        client.calls("CLIENT TRACKING on");
        writer.calls("MSET key2 1 key2 1");
        client.call("EVAL \"redis.call('set', 'key3', 'bar')\" 2 key1 key2");
        writer.calls("MSET key2 2 key1 2");
        assert!(client.keys().is_empty());
        client.call("EVAL \"redis.call('get', 'key3')\" 2 key1 key2");
        writer.calls("MSET key2 2 key1 2");
        assert_eq!(client.keys(), ["key1", "key2"]);
        client.call("EVAL_RO \"redis.call('ping')\" 2 key1 key2");
        writer.calls("MSET key2 2 key1 2");
        assert!(client.keys().is_empty());
        client.call("EVAL_RO \"redis.call('get', 'key1')\" 2 key1 key2");
        writer.calls("MSET key2 3 key1 3");
        assert_eq!(client.keys(), ["key1", "key2"]);
    });
}

#[test]
fn client_is_told_that_its_redirection_is_gone() {
    on_both(|server| {
        let (mut other, id) = redirection(server);
        let (mut client, mut writer) = (Tracked::resp3(server), Tracked::connect(server));
        client.calls(&format!("CLIENT TRACKING on REDIRECT {id}"));
        writer.calls("SET key1 1");
        client.calls("GET key1");
        other.send("QUIT");
        other.receive();
        while writer.text("CLIENT LIST").contains(&format!("id={id} ")) {}
        writer.calls("SET key1 2");
        assert_eq!(client.next(), Invalidated::Broken(id));
        let shown = client.call("CLIENT TRACKINGINFO");
        let items = shown.items().expect("a map");
        let flags: Vec<String> = items[1].items().expect("flags").iter().map(text).collect();
        assert_eq!(flags, ["on", "broken_redirect"]);
        assert_eq!(items[3], Reply::Integer(id));
        let line = client.text("CLIENT INFO");
        assert!(
            line.contains(" flags=tR ") && line.contains(&format!(" redir={id} ")),
            "{line}"
        );
    });
}

#[test]
fn several_clients_redirect_to_one() {
    on_both(|server| {
        let (mut other, id) = redirection(server);
        let mut clients = [Tracked::connect(server), Tracked::connect(server)];
        let mut writer = Tracked::connect(server);
        writer.calls("MSET key1 1 key2 1");
        for (client, key) in clients.iter_mut().zip(["key1", "key2"]) {
            client.calls(&format!("CLIENT TRACKING on REDIRECT {id}\nGET {key}"));
        }
        writer.calls("INCR key1\nINCR key2");
        assert_eq!(
            [other.next(), other.next()],
            [keys(&["key1"]), keys(&["key2"])]
        );
        // A client that uses RESP3 tracks the same key.
        clients[1].calls("HELLO 3\nCLIENT TRACKING on\nGET key1");
        clients[0].calls("GET key1");
        writer.calls("INCR key1");
        assert_eq!(other.next(), keys(&["key1"]));
        assert_eq!(clients[1].all(), [keys(&["key1"])]);
    });
}

#[test]
fn caching_is_chosen_for_each_command() {
    on_both(|server| {
        let (mut client, mut writer) = (Tracked::resp3(server), Tracked::connect(server));
        client.calls("CLIENT TRACKING on OPTIN\nGET key1");
        writer.calls("SET key1 2");
        assert!(client.keys().is_empty(), "without CLIENT CACHING");
        client.calls("CLIENT CACHING yes\nGET key1\nGET key2");
        writer.calls("MSET key1 3 key2 3");
        assert_eq!(client.keys(), ["key1"]);
        // The setting holds for a whole transaction, and can be made in it.
        client.calls("CLIENT CACHING yes\nMULTI\nGET key1\nGET key2\nEXEC\nGET key3");
        writer.calls("MSET key1 4 key2 4 key3 4");
        assert_eq!(client.keys(), ["key1", "key2"]);
        client.calls("MULTI\nGET key1\nCLIENT CACHING yes\nGET key2\nEXEC\nGET key3");
        writer.calls("MSET key1 5 key2 5 key3 5");
        assert_eq!(client.keys(), ["key2"]);
        client.calls("CLIENT TRACKING off\nCLIENT TRACKING on OPTOUT\nGET key1");
        writer.calls("SET key1 2");
        assert_eq!(client.keys(), ["key1"]);
        client.calls("CLIENT CACHING no\nGET key1\nGET key2");
        writer.calls("MSET key1 3 key2 3");
        assert_eq!(client.keys(), ["key2"]);
    });
}

#[test]
fn redirection_to_a_client_that_uses_resp3() {
    on_both(|server| {
        let mut other = Tracked::resp3(server);
        let id = other.id();
        let (mut client, mut writer) = (Tracked::connect(server), Tracked::connect(server));
        client.calls(&format!("CLIENT TRACKING on REDIRECT {id}\nGET key1"));
        writer.calls("INCR key1");
        assert_eq!(other.next(), keys(&["key1"]));
    });
}

#[test]
fn keys_read_before_broadcasting_are_told_once() {
    on_both(|server| {
        let (mut client, mut writer) = (Tracked::resp3(server), Tracked::connect(server));
        client.calls("CLIENT TRACKING on\nGET key1\nCLIENT TRACKING off\nCLIENT TRACKING on BCAST");
        writer.calls("INCR key1");
        assert_eq!(client.all(), [keys(&["key1"])]);
    });
}

#[test]
fn wrong_options_have_the_errors_of_redis() {
    const LINES: &str = "
        CLIENT TRACKING
        CLIENT TRACKING maybe
        CLIENT TRACKING on nonsense
        CLIENT TRACKING on REDIRECT
        CLIENT TRACKING on REDIRECT x
        CLIENT TRACKING on REDIRECT 99999
        CLIENT TRACKING on REDIRECT -1
        CLIENT TRACKING off REDIRECT 99999
        CLIENT TRACKING on PREFIX a
        CLIENT TRACKING on BCAST PREFIX
        CLIENT TRACKING on BCAST OPTIN
        CLIENT TRACKING on BCAST OPTOUT
        CLIENT TRACKING on OPTIN OPTOUT
        CLIENT TRACKING on BCAST PREFIX FOOBAR PREFIX FOO
        CLIENT TRACKING on BCAST PREFIX FOO PREFIX FOOBAR
        CLIENT CACHING yes
        CLIENT TRACKING on BCAST PREFIX FOO PREFIX BAR
        CLIENT TRACKING on BCAST PREFIX FO
        CLIENT TRACKING on BCAST PREFIX BARB
        CLIENT TRACKING on
        CLIENT TRACKINGINFO
        CLIENT TRACKING off
        CLIENT CACHING no
        CLIENT TRACKING on OPTIN
        CLIENT TRACKING on OPTOUT
        CLIENT TRACKING on BCAST
        CLIENT CACHING no
        CLIENT CACHING maybe
        CLIENT CACHING yes
        CLIENT TRACKINGINFO
        CLIENT TRACKING on OPTIN NOLOOP
        CLIENT TRACKINGINFO
        CLIENT GETREDIR
        CLIENT TRACKING off
        CLIENT GETREDIR
        CLIENT TRACKING on OPTOUT
        CLIENT CACHING yes
        CLIENT CACHING no
        CLIENT TRACKINGINFO
        RESET
        CLIENT TRACKINGINFO
        CLIENT TRACKING on BCAST PREFIX foo PREFIX bar
        CLIENT TRACKINGINFO
        CLIENT TRACKING off
        CLIENT TRACKING on BCAST
        CLIENT TRACKINGINFO
        CLIENT GETREDIR x";
    let replies = std::sync::Mutex::new(Vec::<Vec<Reply>>::new());
    on_both(|server| {
        let mut client = Tracked::connect(server);
        let lines = LINES.lines().map(str::trim).filter(|line| !line.is_empty());
        let all = lines.map(|line| client.call(line)).collect();
        replies.lock().expect("no panic").push(all);
    });
    let replies = replies.into_inner().expect("no panic");
    let lines = LINES.lines().map(str::trim).filter(|line| !line.is_empty());
    if let [judge, ours] = &replies[..] {
        for ((line, judge), ours) in lines.zip(judge).zip(ours) {
            assert_eq!(ours, judge, "{line}");
        }
    }
}

#[test]
fn own_invalidations_follow_the_reply() {
    on_both(|server| {
        let mut client = Tracked::resp3(server);
        client.calls("CLIENT TRACKING on\nHSET myhash f 1\nHGET myhash f");
        client.send("HDEL myhash f");
        assert_eq!(client.receive(), Reply::Integer(1));
        assert_eq!(client.next(), keys(&["myhash"]));
        client.calls("MSET a 1 b 2\nGET a\nMULTI");
        client.calls("INCR a\nGET b");
        client.send("EXEC");
        assert!(matches!(client.receive(), Reply::Array(_)));
        assert_eq!(client.next(), keys(&["a"]));
        client.calls("GET a\nMULTI\nFLUSHDB");
        client.send("EXEC");
        assert!(matches!(client.receive(), Reply::Array(_)));
        assert_eq!(client.next(), Invalidated::All);
        // In a pipeline, too, they precede the next reply.
        client.calls("GET a");
        for line in ["SET a 1", "PING", "GET a", "SET a 2", "PING"] {
            client.send(line);
        }
        let order: String = (0..7).map(|_| client.receive().marker()).collect();
        assert_eq!(order, "+>+$+>+");
    });
}

#[test]
fn expired_key_is_invalidated_after_the_reply_that_found_it() {
    on_both(|server| {
        let mut client = Tracked::resp3(server);
        client.calls("CLIENT TRACKING on\nMULTI\nMSET x 1 y 2\nPEXPIRE y 20\nGET y\nEXEC");
        // The first key that the client finds expired may have been removed by upkeep before.
        while client.call("MGET x y").items().expect("two")[1] != Reply::Null {}
        let told = client.next();
        assert_eq!(told, keys(&["y"]));
    });
}

#[test]
fn evicted_keys_are_invalidated() {
    on_both(|server| {
        let mut client = Tracked::resp3(server);
        client.calls(
            "CLIENT TRACKING on
             CONFIG SET maxmemory-policy volatile-random
             SETEX volatile-key 10000 x
             GET volatile-key
             CONFIG SET maxmemory 1",
        );
        client.call("SETBIT big 10 0");
        assert_eq!(client.next(), keys(&["volatile-key"]));
        client.calls("CONFIG SET maxmemory 0");
    });
}

#[test]
fn evicted_keys_are_invalidated_before_the_reply() {
    on_both(|server| {
        let mut client = Tracked::resp3(server);
        client.calls(
            "CLIENT TRACKING on
             CONFIG SET maxmemory-policy allkeys-random
             SET key x
             GET key
             CONFIG SET maxmemory 1",
        );
        client.send("SETBIT big 10 0");
        let told = client.receive();
        assert!(matches!(told, Reply::Push(_)), "{told:?}");
        client.reply();
        client.calls("CONFIG SET maxmemory 0");
    });
}

#[test]
fn unblocked_client_is_told_after_its_reply() {
    on_both(|server| {
        let (mut client, mut writer) = (Tracked::resp3(server), Tracked::connect(server));
        writer.calls("RPUSH list2 a");
        client.calls("CLIENT TRACKING on\nLRANGE list2 0 -1");
        client.send("BLMOVE list1 list2 LEFT LEFT 0");
        while info(&mut writer, "blocked_clients") == 0 {}
        writer.calls("RPUSH list1 foo");
        assert_eq!(client.receive(), Reply::Bulk(b"foo".to_vec()));
        assert_eq!(client.next(), keys(&["list2"]));
    });
}

#[test]
fn table_has_a_limit() {
    on_both(|server| {
        const KEYS: usize = 250;
        let (mut other, id) = redirection(server);
        let (mut client, mut writer) = (Tracked::connect(server), Tracked::connect(server));
        client.calls(&format!("CLIENT TRACKING on REDIRECT {id} NOLOOP"));
        for key in 0..KEYS {
            client.calls(&format!("GET key{key}"));
        }
        assert_eq!(info(&mut writer, "tracking_total_keys"), KEYS as u64);
        writer.calls("CONFIG SET tracking-table-max-keys 1");
        while info(&mut writer, "tracking_total_keys") > 1 {}
        let mut told: Vec<Invalidated> = (1..KEYS).map(|_| other.next()).collect();
        told.sort();
        told.dedup();
        assert_eq!(told.len(), KEYS - 1, "each key at most once");
        writer.calls("CONFIG SET tracking-table-max-keys 1000000");
    });
}

#[test]
fn flushed_keys_are_invalidated_together() {
    on_both(|server| {
        for flush in ["FLUSHALL", "FLUSHDB", "FLUSHALL ASYNC", "FLUSHALL SYNC"] {
            let (mut other, id) = redirection(server);
            let (mut client, mut writer) = (Tracked::connect(server), Tracked::connect(server));
            client.calls(&format!("CLIENT TRACKING on REDIRECT {id}"));
            writer.calls("SET key1 1");
            client.calls("GET key1\nGET key2");
            assert_eq!(info(&mut writer, "tracking_total_keys"), 2);
            writer.calls(flush);
            assert_eq!(other.next(), Invalidated::All, "{flush}");
            assert_eq!(info(&mut writer, "tracking_total_keys"), 0);
            // Without any keys, as well.
            writer.calls(flush);
            assert_eq!(other.next(), Invalidated::All, "{flush}");
            writer.calls("SET key1 1");
            client.calls("GET key1");
            writer.calls("INCR key1");
            assert_eq!(other.next(), keys(&["key1"]), "{flush}");
        }
    });
}

#[test]
fn info_counts_tracking() {
    on_both(|server| {
        let (_other, id) = redirection(server);
        let (mut client, mut second) = (Tracked::connect(server), Tracked::connect(server));
        client.calls(&format!(
            "CLIENT TRACKING on REDIRECT {id}\nGET key1\nGET key2"
        ));
        second.calls("CLIENT TRACKING on BCAST PREFIX prefix:\nSET prefix:key1 1");
        let mut writer = Tracked::connect(server);
        let fields = ["total_items", "total_keys", "total_prefixes", "clients"];
        let mut count = |field: &str| info(&mut writer, &format!("tracking_{field}"));
        assert_eq!(fields.map(&mut count), [2, 2, 1, 2]);
        let line = client.text("CLIENT INFO");
        assert!(
            line.contains(" flags=t ") && line.contains(&format!(" redir={id} ")),
            "{line}"
        );
        let line = second.text("CLIENT INFO");
        assert!(
            line.contains(" flags=tB ") && line.contains(" redir=0 "),
            "{line}"
        );
        client.calls("CLIENT TRACKING off");
        second.send("QUIT");
        while info(&mut writer, "tracking_clients") != 0 {}
        assert_eq!(info(&mut writer, "tracking_total_prefixes"), 0);
        assert_eq!(client.call("CLIENT GETREDIR"), Reply::Integer(-1));
    });
}

#[test]
fn pushes_are_sent_although_replies_are_off() {
    on_both(|server| {
        let (mut client, mut writer) = (Tracked::resp3(server), Tracked::connect(server));
        client.calls("CLIENT TRACKING on");
        client.send("CLIENT REPLY off");
        client.send("GET key1");
        client.send("CLIENT REPLY on");
        assert_eq!(client.receive(), Reply::Simple(b"OK".to_vec()));
        client.send("CLIENT REPLY off");
        writer.calls("INCR key1");
        assert_eq!(client.next(), keys(&["key1"]));
    });
}
