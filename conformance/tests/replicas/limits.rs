//! Replicas that do not read what they are sent.

use std::time::Instant;

use rustix::process::Signal;
use undercroft_conformance::client::Client;
use undercroft_conformance::replication::{PATIENCE, field};
use undercroft_conformance::resp::Reply;
use undercroft_conformance::seed::seed;
use undercroft_conformance::servers::Kind;

use crate::data::Pair;
use crate::waiting::signal;

#[test]
fn replica_that_does_not_read_is_closed_at_the_limit_and_catches_up() {
    let Some(mut pair) = Pair::start(seed(), Kind::Redis, &[]) else {
        return;
    };
    pair.follow();
    pair.compare();
    let mut control = Client::connect(pair.ours.address()).expect("it accepts");
    for (name, value) in [
        ("client-output-buffer-limit", "replica 1mb 0 0"),
        ("repl-backlog-size", "16kb"),
    ] {
        let reply = control
            .call(["CONFIG", "SET", name, value])
            .expect("a reply");
        assert_eq!(reply, Reply::Simple(b"OK".to_vec()), "{name}");
    }
    signal(&pair.replica, Signal::STOP);
    let value = "v".repeat(256 << 10);
    let start = Instant::now();
    let mut number = 0;
    // Far less than `repl-timeout` passes until the limit is exceeded.
    while field(&mut control, "replication", "connected_slaves") != "0" {
        number += 1;
        let key = format!("key:{number}");
        control.call(["SET", &key, &value]).expect("a reply");
        assert!(
            number < 500 && start.elapsed() < PATIENCE,
            "{}",
            pair.describe()
        );
    }
    signal(&pair.replica, Signal::CONT);
    pair.change(500);
    pair.compare();
}
