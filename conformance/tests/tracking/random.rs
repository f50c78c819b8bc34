//! Compares the invalidations of random commands with those of a real Redis 7.0.
//!
//! Every key that Redis invalidates must be invalidated by our server, for the same command. Our
//! server also invalidates keys whose values do not change (`docs/tracking.md`), which are counted.

use std::collections::BTreeSet;

use undercroft_conformance::generate::{FAMILIES, Family, Generator};
use undercroft_conformance::seed::seed;
use undercroft_conformance::servers::{Kind, Server, Settings};

use crate::support::{Tracked, serve};

/// The number of rounds, each with a command or a transaction.
const ROUNDS: usize = 6000;
/// The families whose effects do not depend on chance or on the time.
const CHOSEN: [&str; 9] = [
    "strings",
    "bitmaps",
    "hyperloglog",
    "keys",
    "lists",
    "hashes",
    "sorted",
    "expire",
    "transactions",
];
/// Keys that the generator uses and that a line can contain.
const KEYS: [&str; 6] = ["a", "b", "c", "d", "key:1", "key:2"];

/// The connections of one server: a writer, and clients that track keys in several ways.
struct Side {
    writer: Tracked,
    clients: Vec<Tracked>,
}

impl Side {
    fn connect(server: &Server) -> Side {
        let modes = ["", "BCAST", "BCAST PREFIX key: PREFIX a", "NOLOOP"];
        let clients = modes.map(|mode| {
            let mut client = Tracked::resp3(server);
            client.calls(&format!("CLIENT TRACKING on {mode}"));
            client
        });
        Side {
            writer: Tracked::connect(server),
            clients: clients.into(),
        }
    }
}

#[test]
fn random_changes_invalidate_what_redis_invalidates() {
    let Some(ours) = serve(Settings::default()) else {
        return;
    };
    let judge = Server::start(Kind::Redis, Settings::default()).expect("redis-server starts");
    let seed = seed();
    let families: Vec<Family> = FAMILIES
        .iter()
        .copied()
        .filter(|family| CHOSEN.contains(&family.name))
        .collect();
    assert_eq!(families.len(), CHOSEN.len());
    let mut random = fastrand::Rng::with_seed(seed);
    let mut generator = Generator::new(seed, &families);
    let (mut judge, mut ours) = (Side::connect(&judge), Side::connect(&ours));
    let mut extra: Vec<BTreeSet<String>> = vec![BTreeSet::new(); judge.clients.len()];
    let (mut both, mut more) = (0, 0);
    for _ in 0..ROUNDS {
        let reads: Vec<String> = (0..random.usize(..4))
            .map(|_| {
                let key = random.choice(KEYS).expect("a key");
                let read = random.choice(["EXISTS", "TYPE", "TTL"]).expect("a command");
                format!("{read} {key}")
            })
            .collect();
        let mut commands = vec![generator.command()];
        while generator.is_amid() {
            commands.push(generator.command());
        }
        let is_swap = |word: &[u8]| word.eq_ignore_ascii_case(b"SWAPDB");
        if commands
            .iter()
            .any(|command| command.0.iter().any(|word| is_swap(word)))
        {
            // Redis does not invalidate any key.
            continue;
        }
        for side in [&mut judge, &mut ours] {
            for client in &mut side.clients {
                reads.iter().for_each(|line| drop(client.call(line)));
            }
            for command in &commands {
                side.writer.run(command);
            }
        }
        for (index, extra) in extra.iter_mut().enumerate() {
            let [expected, found] = [&mut judge, &mut ours].map(|side| {
                side.clients[index]
                    .keys()
                    .into_iter()
                    .collect::<BTreeSet<_>>()
            });
            for key in &expected {
                let known = found.contains(key) || found.contains("*") || extra.contains("*");
                assert!(
                    known || extra.remove(key),
                    "client {index}: {key} is not invalidated by {commands:?} (seed {seed})"
                );
            }
            both += expected.len();
            more += found.difference(&expected).count();
            extra.extend(found.difference(&expected).cloned());
        }
    }
    println!("{both} invalidations, and {more} that Redis does not send");
    assert!(both > ROUNDS / 4 && more < both / 10, "{both} {more}");
}
