//! A failover by a real Sentinel while a store follows the master.

use undercroft_conformance::replication::{Sentinel, host_and_port};
use undercroft_conformance::servers::Server;
use undercroft_engine::LinkStatus;

use crate::served::compare;
use crate::support::{Follower, Place, call, changes_of, field, offset_of, place_of, redis, until};

fn replica_of(master: &Server) -> Server {
    let replica = redis(&["--replica-priority", "1"]);
    let address = place_of(master);
    let (host, port) = address.split_once(':').expect("a port");
    call(&replica, &["REPLICAOF", host, port]);
    until(
        || field(&replica, "replication", "master_link_status") == "up",
        || replica.log(),
    );
    replica
}

#[test]
fn store_follows_the_successor_that_a_sentinel_promotes() {
    let master = redis(&[]);
    let mut changes = changes_of(&master);
    changes.make(1000);
    let successor = replica_of(&master);
    let place = Place::new();
    let directory = tempfile::tempdir().expect("a directory");
    let mut sentinel = Sentinel::start(directory.path(), "main", master.address());
    // The Sentinel must know the successor before the master dies. The store is no candidate, because
    // it listens on no port.
    sentinel.expect("+slave", host_and_port(successor.address()).1);
    let url = format!("redis+sentinel://{}/main", sentinel.address());
    let _follower = Follower::start(&url, place.store.path(), &[]);
    place.wait_for_status(LinkStatus::Up);
    changes.make(1000);
    until(
        || offset_of(&successor) >= offset_of(&master),
        || successor.log(),
    );
    place.catch_up(&master);
    let before = field(&master, "replication", "master_replid");
    // Dropping the master kills it.
    drop((changes, master));
    sentinel.expect("+switch-master", host_and_port(successor.address()).1);
    until(
        || field(&successor, "replication", "role") == "master",
        || successor.log(),
    );
    let mut changes = changes_of(&successor);
    changes.make(1000);
    let after = field(&successor, "replication", "master_replid");
    assert_ne!(before, after);
    until(
        || {
            let source = place.store.source().expect("a whole store");
            source.is_some_and(|source| source.id == after.as_bytes())
        },
        || place.describe(),
    );
    place.catch_up(&successor);
    compare(&place, &successor);
}
