//! Compares CONFIG GET and CONFIG SET with a real server.

use undercroft_commands::config::{Config, Kind, PARAMETERS, Parameter};
use undercroft_commands::reply::Tree;

use crate::support::{RealServer, random};

fn pairs(tree: Tree) -> Vec<(Vec<u8>, Vec<u8>)> {
    let Tree::Array(items) = tree else {
        panic!("not an array: {tree:?}")
    };
    let texts: Vec<Vec<u8>> = items
        .into_iter()
        .map(|item| match item {
            Tree::Bulk(text) => text,
            other => panic!("not a string: {other:?}"),
        })
        .collect();
    let mut pairs: Vec<_> = texts
        .chunks(2)
        .map(|pair| (pair[0].clone(), pair[1].clone()))
        .collect();
    pairs.sort();
    pairs
}

/// Returns whether any value of a parameter is harmless to the tested server and causes little
/// work.
fn harmless(parameter: &&Parameter) -> bool {
    ![
        "bind",
        "port",
        "maxclients",
        "requirepass",
        "loglevel",
        // The store decides these.
        "durability",
        "appendonly",
        "appendfsync",
        // Redis raises it to 16 KiB.
        "repl-backlog-size",
        // Redis has no such parameters.
        "checkpoint-rate",
        "migrate-hosts",
        "replica-rdb-version",
        "audit-log",
        "audit-log-required",
        "sandbox",
        "unixsocketgroup",
        "proxy-protocol",
        "proxy-protocol-sources",
    ]
    .contains(&parameter.name)
        // Exclude parameters for which Undercroft supports only one value.
        && parameter.not_done.is_none()
        // These name files, which Redis reads at once.
        && !parameter.name.starts_with("tls-")
}

#[test]
fn values_and_errors_equal_those_of_redis() {
    let Some(server) = RealServer::start(&[]) else {
        return;
    };
    let mut client = server.connect();
    let config = Config::new();
    let mut random = random();
    let parameters: Vec<&Parameter> = PARAMETERS.iter().filter(harmless).collect();
    let general = [
        "",
        "0",
        "1",
        "-1",
        "5",
        "10",
        "64",
        "100",
        "101",
        "2147483647",
        "2147483648",
        "9223372036854775807",
        "x",
        "yes",
        "NO",
        "1k",
        "1KB",
        "2mb",
        "3Gb",
        "1.5mb",
        "mb",
        "18446744073709551615",
        "50",
        "50 99.9 0x10",
        "1e1 100.1",
        "-0",
        "33.33333333",
        "99999999999999999999",
        " 1",
        "1048575",
        "1048576",
        "900 1",
        "900 1 300 10",
        "0 1",
        "1 -1",
        "900",
        "KEA",
        "Ex",
        "q",
        "AKE",
        "mn",
        "Kg$lshzxetd",
        "normal 1mb 2 3",
        "pubsub 0 0 0 slave 1 2 3",
        "replica 5 5 5",
        "normal 0 0",
        "x 0 0 0",
        "normal a 0 0",
        "normal 0 0 -1",
    ];
    let (mut accepted, mut refused) = (0, 0);
    for round in 0..4_000 {
        let count = if random.u8(..3) == 0 {
            random.usize(2..4)
        } else {
            1
        };
        let mut chosen: Vec<(String, String)> = Vec::new();
        for _ in 0..count {
            let parameter = parameters[random.usize(..parameters.len())];
            let name = match random.u8(..20) {
                0 => "no-such-parameter".to_owned(),
                1 => parameter.name.to_uppercase(),
                2 => parameter.alias.unwrap_or(parameter.name).to_owned(),
                _ => parameter.name.to_owned(),
            };
            let value = match parameter.kind {
                Kind::Choice(_, words) if random.bool() => {
                    words[random.usize(..words.len())].to_owned()
                }
                _ => general[random.usize(..general.len())].to_owned(),
            };
            chosen.push((name, value));
        }
        let mut command: Vec<&[u8]> = vec![b"CONFIG", b"SET"];
        chosen
            .iter()
            .for_each(|(name, value)| command.extend([name.as_bytes(), value.as_bytes()]));
        let arguments: Vec<(&[u8], &[u8])> = chosen
            .iter()
            .map(|(name, value)| (name.as_bytes(), value.as_bytes()))
            .collect();
        let ours = match config.set(&arguments, true, |_| Ok(())) {
            Ok(()) => Tree::Simple("OK".into()),
            Err(error) => Tree::Error(error.text().into()),
        };
        match ours {
            Tree::Error(_) => refused += 1,
            _ => accepted += 1,
        }
        assert_eq!(ours, client.call(&command), "round {round}: {chosen:?}");
        for (name, _) in &chosen {
            let is_default = |parameter: &&Parameter| {
                parameter.immutable || ["hz", "dir"].contains(&parameter.name)
            };
            let known = PARAMETERS
                .iter()
                .find(|parameter| parameter.name.eq_ignore_ascii_case(name));
            // Skip `hz`, which Redis clamps on use, and parameters whose startup values depend on
            // the server.
            if known.as_ref().is_none_or(is_default) || ours_is_default(&config, name) {
                continue;
            }
            let mut found = config.get(&[name.as_bytes()]);
            found.sort();
            assert_eq!(
                found,
                pairs(client.call(&[b"CONFIG", b"GET", name.as_bytes()])),
                "round {round}: {chosen:?}"
            );
        }
    }
    println!("{accepted} accepted, {refused} refused");
    assert!(accepted > 300 && refused > 1_000);
}

/// Returns whether a parameter has a default that differs from Redis' default and has not been
/// changed.
fn ours_is_default(config: &Config, name: &str) -> bool {
    const OURS: &[(&str, &str, i64)] = &[
        ("maxmemory", "maxmemory", 1 << 30),
        // Undercroft's default is lower than Redis' default, so that other clients receive BUSY
        // before a slow script reaches its time limit.
        ("busy-reply-threshold", "lua-time-limit", 1000),
    ];
    OURS.iter().any(|(known, alias, default)| {
        let is_named = name.eq_ignore_ascii_case(known) || name.eq_ignore_ascii_case(alias);
        is_named && config.integer(known) == *default
    })
}

#[test]
fn patterns_match_the_same_names() {
    let Some(server) = RealServer::start(&[]) else {
        return;
    };
    let mut client = server.connect();
    let config = Config::new();
    let known: Vec<Vec<u8>> = config
        .get(&[b"*"])
        .into_iter()
        .map(|(name, _)| name)
        .collect();
    let cases: [&[&[u8]]; 9] = [
        &[b"*"],
        &[b"max*"],
        &[b"MAX*", b"maxmemory-policy"],
        &[b"*zip*", b"TimeOut"],
        &[b"nosuch"],
        &[b"h?"],
        &[b"[h-l]*entries"],
        &[b"Timeout"],
        &[b"slowlog-max-len", b"lazy*"],
    ];
    for patterns in cases {
        let mut command: Vec<&[u8]> = vec![b"CONFIG", b"GET"];
        command.extend(patterns);
        let theirs = pairs(client.call(&command))
            .into_iter()
            .map(|(name, _)| name);
        let theirs: Vec<Vec<u8>> = theirs
            .filter(|name| known.iter().any(|k| k.eq_ignore_ascii_case(name)))
            .collect();
        let mut ours: Vec<Vec<u8>> = config
            .get(patterns)
            .into_iter()
            .map(|(name, _)| name)
            // Redis has `appendonly` and `appendfsync` only, and MIGRATE reaches every host.
            .filter(|name| {
                let own: [&[u8]; 11] = [
                    b"replica-rdb-version",
                    b"tls-auth-clients-user",
                    b"unixsocketgroup",
                    b"proxy-protocol",
                    b"proxy-protocol-sources",
                    b"sandbox",
                    b"audit-log",
                    b"audit-log-required",
                    b"durability",
                    b"checkpoint-rate",
                    b"migrate-hosts",
                ];
                !own.contains(&&name[..])
            })
            .collect();
        ours.sort();
        assert_eq!(ours, theirs, "{patterns:?}");
    }
}

/// Redis' parameters that Undercroft does not have, by name prefix, each with the reason.
const NOT_THERE: &[(&str, &str)] = &[
    ("active-defrag", "memory is not moved to defragment it"),
    ("activedefrag", "memory is not moved to defragment it"),
    ("always-show-logo", "there is no logo"),
    ("aof", "the journal has another format"),
    ("appenddirname", "the journal's folder belongs to the store"),
    (
        "appendfilename",
        "the journal's folder belongs to the store",
    ),
    ("bgsave_cpulist", "no process is forked"),
    ("bind-source-addr", "no connection is made to others"),
    ("bio_cpulist", "there are no such threads"),
    ("cluster-", "there is no cluster mode"),
    ("crash-", "crashes are not reported in this way"),
    ("disable-thp", "the memory is a file's"),
    ("ignore-warnings", "there are none to ignore"),
    ("io-threads", "threads are counted by --threads"),
    ("jemalloc-bg-thread", "there is no jemalloc"),
    ("maxmemory-clients", "clients are not evicted"),
    ("no-appendfsync-on-rewrite", "checkpoints delay no sync"),
    ("oom-score-adj", "it is the service manager's"),
    ("pidfile", "the server stays in the foreground"),
    ("proc-title-template", "the title stays"),
    ("propagation-error-behavior", "there is no replication"),
    ("rdb", "a checkpoint has another format"),
    (
        "repl-disable-tcp-nodelay",
        "sockets of replicas have no options",
    ),
    ("repl-diskless", "data sets are never files"),
    ("replica", "replicas are configured by their own options"),
    ("sanitize-dump-payload", "RESTORE always checks"),
    ("server_cpulist", "it is the service manager's"),
    ("set-proc-title", "the title stays"),
    ("shutdown-", "there is nothing to wait for"),
    ("slave", "there is no replication"),
    ("socket-mark-id", "sockets are not marked"),
    ("syslog-", "the log goes to standard error"),
    ("tls-client-", "REPLICAOF does not encrypt"),
    ("tls-cluster", "one server serves a store"),
    ("tls-dh-params-file", "only elliptic curves are used"),
    ("tls-replication", "REPLICAOF does not encrypt"),
    (
        "tls-session-cache-timeout",
        "the lifetime of tickets is fixed",
    ),
];

#[test]
fn every_redis_parameter_exists_or_is_listed_as_missing() {
    let Some(server) = RealServer::start(&[]) else {
        return;
    };
    let theirs = pairs(server.connect().call(&[b"CONFIG", b"GET", b"*"]));
    let ours = Config::new().get(&[b"*"]);
    let (mut served, mut missing) = (0, 0);
    for (name, value) in theirs {
        let shown = String::from_utf8_lossy(&name).into_owned();
        let reason = NOT_THERE.iter().find(|(start, _)| shown.starts_with(start));
        let Some((_, own)) = ours.iter().find(|(other, _)| *other == name) else {
            assert!(reason.is_some(), "{shown} does not exist");
            missing += 1;
            continue;
        };
        assert!(reason.is_none(), "{shown} exists, though {reason:?}");
        let is_number = |value: &[u8]| !value.is_empty() && value.iter().all(u8::is_ascii_digit);
        let is_choice = |value: &[u8]| value == b"yes" || value == b"no";
        assert_eq!(is_number(own), is_number(&value), "{shown}");
        // Undercroft notifies systemd by default (`auto`).
        if shown != "supervised" {
            assert_eq!(is_choice(own), is_choice(&value), "{shown}");
        }
        served += 1;
    }
    assert!(
        served > 50 && missing > 90,
        "{served} served, {missing} not"
    );
}
