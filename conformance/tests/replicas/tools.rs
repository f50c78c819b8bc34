//! The commands of RedisShake, which copies data between servers: its readers and its writer.

use std::collections::HashSet;

use undercroft_conformance::audit::audit;
use undercroft_conformance::client::Client;
use undercroft_conformance::command::Command;
use undercroft_conformance::compare::Rules;
use undercroft_conformance::replication::text;
use undercroft_conformance::resp::Reply;
use undercroft_conformance::seed::seed;
use undercroft_conformance::servers::{Kind, Server, Settings, start_undercroft};

use crate::data::{Pair, settings};
use crate::played::Played;

fn compare(judge: &Server, other: &Server) {
    let [mut judge, mut other] =
        [judge, other].map(|server| Client::connect(server.address()).expect("it accepts"));
    let rules = Rules {
        encodings: false,
        ..Rules::default()
    };
    let found = audit(&mut judge, &mut other, rules).expect("both answer");
    assert_eq!(found, None);
}

/// Copies all keys as the scan reader and the writer do: SCAN, then DUMP and PTTL of each key in a
/// pipeline, then RESTORE in a pipeline.
fn copy_by_scan(from: &Server, to: &Server) {
    let mut reader = Client::connect(from.address()).expect("it accepts");
    let mut writer = Client::connect(to.address()).expect("it accepts");
    for database in 0..16 {
        let select = Command::of(["SELECT", &database.to_string()]);
        for client in [&mut reader, &mut writer] {
            client.call(&select.0).expect("a reply");
        }
        let mut cursor = "0".to_owned();
        let mut seen = HashSet::new();
        loop {
            let page = reader.call(["SCAN", &cursor, "COUNT", "100"]);
            let Reply::Array(page) = page.expect("a reply") else {
                panic!("expected a page");
            };
            cursor = text(&page[0]);
            let keys = page[1].items().expect("keys").iter();
            let keys: Vec<Vec<u8>> = keys
                .map(|key| key.bytes().expect("a key").to_vec())
                .collect();
            let keys: Vec<Vec<u8>> = keys
                .into_iter()
                .filter(|key| seen.insert(key.clone()))
                .collect();
            let questions = keys
                .iter()
                .flat_map(|key| [b"DUMP", b"PTTL"].map(|name| Command::of([&name[..], key])));
            let questions: Vec<Command> = questions.collect();
            let answers = reader.pipeline(&questions).expect("replies");
            let restores = keys
                .iter()
                .zip(answers.chunks(2))
                .filter_map(|(key, answers)| {
                    let [Reply::Bulk(payload), Reply::Integer(left)] = answers else {
                        // The key has expired.
                        return None;
                    };
                    let left = (*left).max(0).to_string();
                    let words = [&b"RESTORE"[..], key, left.as_bytes(), payload, b"REPLACE"];
                    Some(Command::of(words))
                });
            let restores: Vec<Command> = restores.collect();
            for (reply, restore) in writer
                .pipeline(&restores)
                .expect("replies")
                .iter()
                .zip(&restores)
            {
                assert_eq!(*reply, Reply::Simple(b"OK".to_vec()), "{restore}");
            }
            if cursor == "0" {
                break;
            }
        }
    }
}

#[test]
fn scan_reader_and_writer_copy_in_both_directions() {
    // Expiries are read at other moments than values.
    let without = &["expire", "scripting", "streams"];
    let Some(pair) = Pair::start(seed(), Kind::Redis, without) else {
        return;
    };
    copy_by_scan(&pair.ours, &pair.replica);
    compare(&pair.replica, &pair.ours);
    let back = start_undercroft(settings())
        .expect("it starts")
        .expect("it is built");
    copy_by_scan(&pair.replica, &back);
    compare(&pair.replica, &back);
}

#[test]
fn sync_reader_receives_the_data_set_and_the_changes() {
    // With PSYNC and the mark at the end, with PSYNC and a length, and with SYNC.
    let handshakes: [&[&[&str]]; 3] = [
        &[
            &["PING"],
            &["REPLCONF", "listening-port", "10007"],
            &["REPLCONF", "capa", "eof"],
            &["PSYNC", "?", "-1"],
        ],
        &[
            &["REPLCONF", "listening-port", "10007"],
            &["PSYNC", "?", "-1"],
        ],
        &[&["SYNC"]],
    ];
    for handshake in handshakes {
        let Some(mut pair) = Pair::start(seed(), Kind::Redis, &["scripting"]) else {
            return;
        };
        let mut played = Played::start(pair.ours.address(), handshake);
        let loaded = Settings {
            files: vec![("dump.rdb".into(), played.data.clone())],
            ..settings()
        };
        let other = Server::start(Kind::Redis, loaded).expect("it loads the data set");
        // The writer sends the commands of the stream unchanged.
        let mut writer = Client::connect(other.address()).expect("it accepts");
        let mut apply = |words: &[Vec<u8>]| {
            if words[0] != b"REPLCONF" {
                let reply = writer.call(words).expect("a reply");
                assert!(!reply.is_error(), "{words:?}: {reply:?}");
            }
        };
        // SWAPDB before the first change after a data set makes replicas load another one.
        for value in ["first", "second"] {
            let mut control = Client::connect(pair.ours.address()).expect("it accepts");
            control.call(["SET", "last", value]).expect("a reply");
            played.take_until(value, &mut apply);
            if value == "first" {
                pair.change(2000);
            }
        }
        compare(&other, &pair.ours);
    }
}
