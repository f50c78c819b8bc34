//! Tests that a real Redis configured to follow an undercroft server, which cannot replicate to it,
//! neither floods the server nor stops trying.

use std::time::{Duration, Instant};

use undercroft_conformance::client::{Address, Client};
use undercroft_conformance::servers::{Kind, Server, Settings, start_undercroft};

/// Returns how many times the server has been asked for a copy.
fn asked(client: &mut Client) -> u64 {
    let reply = client.call(["INFO", "commandstats"]).expect("a reply");
    let text = String::from_utf8_lossy(reply.bytes().unwrap_or_default()).into_owned();
    let calls = |name: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(name))?;
        line.split(',').next()?.parse::<u64>().ok()
    };
    let [psync, sync] = ["cmdstat_psync:calls=", "cmdstat_sync:calls="].map(calls);
    psync.unwrap_or(0) + sync.unwrap_or(0)
}

#[test]
fn a_replica_asks_for_a_copy_once_a_second() {
    let Some(ours) = start_undercroft(Settings::default()).expect("it starts") else {
        return;
    };
    let replica = Server::start(Kind::Redis, Settings::default()).expect("redis-server starts");
    let Address::Tcp(address) = ours.address() else {
        panic!("{} is no port", ours.address());
    };
    let (host, port) = address.rsplit_once(':').expect("a port");
    let mut client = Client::connect(replica.address()).expect("it accepts");
    client.call(["REPLICAOF", host, port]).expect("a reply");
    let mut own = Client::connect(ours.address()).expect("it accepts");
    let start = Instant::now();
    while asked(&mut own) < 4 {
        assert!(start.elapsed() < Duration::from_secs(60), "it gave up");
    }
    // The first request arrives immediately, and the next three at one-second intervals.
    assert!(
        start.elapsed() > Duration::from_millis(2500),
        "four times in {:?}",
        start.elapsed()
    );
}
