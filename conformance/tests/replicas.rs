//! Tests real servers as replicas of `undercroft serve`: after random commands of every family, they
//! have the same data, also when connections are cut, the backlog is lost, the server is killed, and
//! other processes change the store without a server.

use std::time::{Duration, Instant};

use undercroft_conformance::audit::audit;
use undercroft_conformance::client::{Address, Client};
use undercroft_conformance::command::Command;
use undercroft_conformance::compare::Rules;
use undercroft_conformance::generate::{FAMILIES, Family, Generator};
use undercroft_conformance::resp::Reply;
use undercroft_conformance::servers::{Kind, Server, Settings, start_undercroft};

/// The longest wait for an event, which only a hang exceeds.
const PATIENCE: Duration = Duration::from_secs(120);

/// Returns the seed of this run: `UNDERCROFT_SEED`, or a random one.
fn seed() -> u64 {
    let named = std::env::var("UNDERCROFT_SEED").ok();
    let seed = named.map_or_else(
        || fastrand::u64(..1 << 40),
        |s| s.parse().expect("UNDERCROFT_SEED is a number"),
    );
    println!("seed {seed} (replay with UNDERCROFT_SEED={seed})");
    seed
}

fn text(reply: &Reply) -> String {
    String::from_utf8_lossy(reply.bytes().unwrap_or_default()).into_owned()
}

/// Our server and a replica of it.
struct Pair {
    ours: Server,
    replica: Server,
    random: Generator,
    /// The connection through which the store is changed.
    writer: Client,
}

fn settings() -> Settings {
    // The address space of a snapshot is as large as the store's.
    Settings {
        memory_max: None,
        ..Settings::default()
    }
}

impl Pair {
    /// Starts a server with some data, and a server that does not follow it yet.
    fn start(seed: u64, kind: Kind, without: &[&str]) -> Option<Pair> {
        let ours = start_undercroft(settings()).expect("undercroft starts")?;
        let replica = Server::start(kind, settings()).expect("the replica starts");
        let writer = Client::connect(ours.address()).expect("it accepts");
        // Blocked clients and messages leave nothing to compare, and the source's own settings are
        // not replicated.
        let never = ["blocking", "messages", "server"];
        let families: Vec<Family> = FAMILIES
            .iter()
            .filter(|family| !never.contains(&family.name) && !without.contains(&family.name))
            .copied()
            .collect();
        let mut pair = Pair {
            ours,
            replica,
            random: Generator::new(seed, &families),
            writer,
        };
        pair.change(2000);
        Some(pair)
    }

    /// Sends random commands.
    fn change(&mut self, commands: usize) {
        for _ in 0..commands.div_ceil(100) {
            let mut batch: Vec<Command> = (0..100).map(|_| self.random.command()).collect();
            while self.random.is_amid() {
                batch.push(self.random.command());
            }
            self.writer.pipeline(&batch).expect("the server runs them");
        }
    }

    fn follow(&self) {
        let Address::Tcp(address) = self.ours.address() else {
            panic!("{} is no port", self.ours.address());
        };
        let (host, port) = address.rsplit_once(':').expect("a port");
        let mut client = Client::connect(self.replica.address()).expect("it accepts");
        let reply = client.call(["REPLICAOF", host, port]).expect("a reply");
        assert!(matches!(reply, Reply::Simple(_)), "{reply:?}");
    }

    /// Waits until the replica has applied everything, and compares the data.
    fn compare(&mut self) {
        let mut ours = Client::connect(self.ours.address()).expect("it accepts");
        let start = Instant::now();
        loop {
            let reply = ours.call(["WAIT", "1", "1000"]).expect("a reply");
            if reply == Reply::Integer(1) {
                break;
            }
            assert!(start.elapsed() < PATIENCE, "{}", self.describe());
        }
        let mut replica = Client::connect(self.replica.address()).expect("it accepts");
        // An encoding can depend on earlier values, which the replica never had.
        let rules = Rules {
            encodings: false,
            ..Rules::default()
        };
        let found = audit(&mut replica, &mut ours, rules).expect("both answer");
        assert_eq!(found, None, "{}", self.describe());
    }

    fn describe(&self) -> String {
        let mut client = Client::connect(self.ours.address()).expect("it accepts");
        text(&client.call(["INFO", "replication"]).expect("a reply"))
    }
}

#[test]
fn replicas_have_the_data_of_the_store() {
    // Later versions report scores of sorted sets and consumers of streams differently.
    let later = &[
        "sorted",
        "geo",
        "sort",
        "lua",
        "keys",
        "expire",
        "scripting",
        "streams",
        "transactions",
        "locks",
    ][..];
    for (kind, without) in [
        (Kind::Redis, &[][..]),
        (Kind::Undercroft, &[]),
        (Kind::Valkey, later),
        (Kind::Redis8, later),
    ] {
        println!("{kind:?}");
        let Some(mut pair) = Pair::start(seed(), kind, without) else {
            return;
        };
        pair.follow();
        pair.compare();
        for _ in 0..5 {
            pair.change(3000);
            pair.compare();
        }
    }
}

#[test]
fn cut_connection_of_a_replica_continues_with_the_next_change() {
    let Some(mut pair) = Pair::start(seed(), Kind::Redis, &[]) else {
        return;
    };
    let mut control = Client::connect(pair.ours.address()).expect("it accepts");
    let set = ["CONFIG", "SET", "repl-backlog-size", "64mb"];
    control.call(set).expect("a reply");
    pair.follow();
    pair.compare();
    for _ in 0..8 {
        pair.change(500);
        let kill = ["CLIENT", "KILL", "TYPE", "replica"];
        assert_eq!(control.call(kill).expect("a reply"), Reply::Integer(1));
        pair.change(500);
        pair.compare();
    }
}
