//! Following a cluster: all masters at once, while slots move, masters fail, and followers die.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use undercroft_conformance::client::Client;
use undercroft_conformance::seed::seed;
use undercroft_conformance::servers::Kind;
use undercroft_engine::{Error, LinkStatus, Store, key_slot};

use crate::cluster_nodes::{Cluster, ClusterChanges, id_of, slots_of};
use crate::support::{Follower, Place, call, field, offset_of, run, until, url_of};

fn url(cluster: &Cluster) -> String {
    url_of(cluster.living().next().expect("a node"))
}

fn check(place: &Place) {
    let path = place.path("store");
    let check = run(&["check", &path]);
    assert_eq!(check.status, 0, "{check:?}");
}

#[test]
fn store_has_all_keys_of_a_cluster_at_once() {
    let cluster = Cluster::start(3, 0);
    let names: Vec<String> = (0..3000).map(|number| format!("key:{number}")).collect();
    for master in cluster.masters() {
        let mut client = Client::connect(master.address()).expect("it accepts");
        let slots = slots_of(master);
        for name in &names {
            if slots.contains(&key_slot(name.as_bytes())) {
                client.call(["SET", name, "value"]).expect("a reply");
            }
        }
    }
    for round in 0..5 {
        let place = Place::new();
        let is_done = AtomicBool::new(false);
        thread::scope(|scope| {
            let reader = scope.spawn(|| {
                let keys: Vec<_> = names
                    .iter()
                    .step_by(100)
                    .map(|name| place.store.key(name.as_bytes()))
                    .collect();
                while !is_done.load(Ordering::Relaxed) {
                    // One read of all shards sees one moment.
                    let found = place.store.read(place.store.all_shards(), |reader| {
                        keys.iter()
                            .map(|key| Ok(reader.find(0, key)?.is_some()))
                            .collect::<Result<Vec<bool>, Error>>()
                    });
                    let found = found.expect("a whole store");
                    assert!(found.iter().all(|&one| one == found[0]), "{found:?}");
                }
            });
            let _follower = Follower::start(&url(&cluster), place.store.path(), &[]);
            place.wait_for_status(LinkStatus::Up);
            is_done.store(true, Ordering::Relaxed);
            reader.join().expect("a reader");
        });
        assert_eq!(place.store.keys(0), 3000, "round {round}");
    }
}

#[test]
fn store_equals_a_cluster_whose_slots_move() {
    let seed = seed();
    let mut random = fastrand::Rng::with_seed(seed);
    let mut cluster = Cluster::start(3, 0);
    let mut changes = ClusterChanges::new(seed);
    changes.make(&cluster, 3000);
    let place = Place::new();
    let _follower = Follower::start(&url(&cluster), place.store.path(), &[]);
    place.wait_for_status(LinkStatus::Up);
    cluster.catch_up(&place);
    cluster.compare(&place);
    // A slot that moves again at once makes data sets load again; see the test of kills.
    for (round, slot) in changes.slots().into_iter().enumerate() {
        if round == 15 {
            cluster.grow();
        }
        let from = cluster.owner(slot);
        let others: Vec<usize> = (0..cluster.nodes.len())
            .filter(|&index| index != from)
            .collect();
        let to = *random.choice(&others).expect("others");
        // Some moves stay unfinished for a while.
        cluster.begin_move(slot, from, to);
        changes.make(&cluster, random.usize(..100));
        loop {
            let moved = cluster.move_keys(slot, from, to, random.usize(1..5));
            changes.make(&cluster, random.usize(..20));
            if random.u8(..8) == 0 {
                cluster.catch_up(&place);
                cluster.compare(&place);
            }
            if moved == 0 {
                break;
            }
        }
        while cluster.move_keys(slot, from, to, 100) > 0 {}
        cluster.end_move(slot, from, to);
        changes.make(&cluster, random.usize(..100));
        if round % 4 == 0 {
            cluster.catch_up(&place);
            cluster.compare(&place);
        }
    }
    cluster.settle(&place);
    cluster.catch_up(&place);
    cluster.compare(&place);
    println!("{:?} commands succeeded and failed", changes.counts);
    let full: Vec<String> = cluster
        .living()
        .map(|node| field(node, "stats", "sync_full"))
        .collect();
    assert!(full.iter().all(|count| count == "1"), "{full:?}");
    check(&place);
}

#[test]
fn store_follows_the_replica_that_takes_a_failed_masters_place() {
    let seed = seed();
    let mut cluster = Cluster::start(3, 3);
    let mut changes = ClusterChanges::new(seed);
    changes.make(&cluster, 2000);
    let place = Place::new();
    let _follower = Follower::start(&url(&cluster), place.store.path(), &[]);
    place.wait_for_status(LinkStatus::Up);
    for victim in [1, 0] {
        changes.make(&cluster, 500);
        cluster.catch_up(&place);
        let master = cluster.node(victim);
        let slots = slots_of(master).len();
        // The successor must have the last changes, or it begins another history.
        let successor = cluster.node(3 + victim);
        until(
            || offset_of(successor) == offset_of(master),
            || successor.log(),
        );
        cluster.kill(victim);
        until(
            || slots_of(cluster.node(3 + victim)).len() == slots,
            || cluster.node(3 + victim).log(),
        );
        cluster.agree(6);
        changes.make(&cluster, 500);
        cluster.catch_up(&place);
        cluster.compare(&place);
    }
    cluster.settle(&place);
    let partial: u64 = [3, 4]
        .iter()
        .map(|&index| field(cluster.node(index), "stats", "sync_partial_ok"))
        .map(|count| count.parse::<u64>().expect("a number"))
        .sum();
    assert!(partial >= 2, "{partial}");
    // A failover by hand, after which the old master is a replica.
    changes.make(&cluster, 100);
    call(cluster.node(5), &["CLUSTER", "FAILOVER"]);
    until(
        || !slots_of(cluster.node(5)).is_empty() && slots_of(cluster.node(2)).is_empty(),
        || cluster.node(5).log(),
    );
    changes.make(&cluster, 500);
    cluster.settle(&place);
    cluster.catch_up(&place);
    cluster.compare(&place);
    check(&place);
}

#[test]
fn killed_followers_and_cut_connections_lose_and_repeat_nothing() {
    let seed = seed();
    let mut random = fastrand::Rng::with_seed(seed);
    let cluster = Cluster::start(3, 0);
    let mut changes = ClusterChanges::new(seed);
    changes.make(&cluster, 2000);
    let place = Place::new();
    let start = || Follower::start(&url(&cluster), place.store.path(), &["--elect"]);
    let mut followers = [start(), start()];
    for round in 1..=30 {
        changes.make(&cluster, random.usize(1..200));
        let slot = changes.slot();
        let from = cluster.owner(slot);
        let to = (from + random.usize(1..3)) % 3;
        let is_split = random.u8(..3) == 0;
        if is_split {
            cluster.begin_move(slot, from, to);
            cluster.move_keys(slot, from, to, 5);
            changes.make(&cluster, random.usize(1..100));
        }
        // The moment is random, not awaited.
        thread::sleep(Duration::from_micros(random.u64(0..60_000)));
        match random.bool() {
            true => {
                let follower = random.choice(&mut followers).expect("two");
                follower.kill();
                *follower = start();
            }
            false => {
                let node = cluster.node(random.usize(..3));
                call(node, &["CLIENT", "KILL", "TYPE", "replica"]);
            }
        }
        changes.make(&cluster, random.usize(1..100));
        if is_split {
            while cluster.move_keys(slot, from, to, 100) > 0 {}
            cluster.end_move(slot, from, to);
        }
        if round % 10 == 0 {
            cluster.catch_up(&place);
            cluster.compare(&place);
        }
    }
    cluster.settle(&place);
    cluster.catch_up(&place);
    cluster.compare(&place);
    let count = |name| {
        let counts = cluster.living().map(|node| field(node, "stats", name));
        counts
            .map(|count| count.parse::<u64>().expect("a number"))
            .sum::<u64>()
    };
    let (full, partial) = (count("sync_full"), count("sync_partial_ok"));
    println!("{full} full and {partial} partial resynchronisations");
    assert!(partial > 3, "{full} {partial}");
    check(&place);
}

#[test]
fn lost_backlog_replaces_only_the_keys_of_its_master() {
    let cluster = Cluster::start_with(Kind::Redis, (3, 0), &["--repl-backlog-size", "16kb"]);
    let seed = seed();
    let mut changes = ClusterChanges::new(seed);
    changes.make(&cluster, 2000);
    let place = Place::new();
    let mut follower = Follower::start(&url(&cluster), place.store.path(), &[]);
    place.wait_for_status(LinkStatus::Up);
    cluster.catch_up(&place);
    follower.kill();
    // Key names whose slots belong to each master.
    let own = |index: usize| {
        let slots = slots_of(cluster.node(index));
        let mut names = (0..).map(|number| format!("own:{number}"));
        names
            .find(|name| slots.contains(&key_slot(name.as_bytes())))
            .expect("a name")
    };
    let (first, second) = (own(0), own(1));
    call(cluster.node(1), &["SET", &second, "small"]);
    let mut client = Client::connect(cluster.node(0).address()).expect("it accepts");
    for number in 0..100 {
        let value = format!("{number}{}", "x".repeat(1000));
        client.call(["SET", &first, &value]).expect("a reply");
    }
    let before = place.store.keys(0);
    let is_done = AtomicBool::new(false);
    thread::scope(|scope| {
        let reader = scope.spawn(|| {
            let mut least = u64::MAX;
            while !is_done.load(Ordering::Relaxed) {
                least = least.min(place.store.keys(0));
            }
            least
        });
        let _follower = Follower::start(&url(&cluster), place.store.path(), &[]);
        cluster.catch_up(&place);
        cluster.compare(&place);
        is_done.store(true, Ordering::Relaxed);
        let least = reader.join().expect("a reader");
        // Random keys expire in the meantime.
        assert!(least + 50 >= before, "{least} of {before} keys");
    });
    assert_eq!(place.get(0, &second).as_deref(), Some("small"));
    let full: Vec<String> = (0..3)
        .map(|index| field(cluster.node(index), "stats", "sync_full"))
        .collect();
    assert_eq!(full, ["2", "1", "1"]);
    check(&place);
}

#[test]
fn master_that_removes_all_of_its_keys_keeps_those_of_others() {
    let cluster = Cluster::start(3, 0);
    let mut changes = ClusterChanges::new(seed());
    changes.make(&cluster, 2000);
    let place = Place::new();
    let _follower = Follower::start(&url(&cluster), place.store.path(), &[]);
    place.wait_for_status(LinkStatus::Up);
    call(cluster.node(1), &["FLUSHALL"]);
    changes.make(&cluster, 100);
    cluster.catch_up(&place);
    cluster.compare(&place);
    assert!(place.store.keys(0) > 0);
}

#[test]
fn move_that_is_given_up_leaves_the_keys_of_the_owner() {
    let cluster = Cluster::start(2, 0);
    let place = Place::new();
    let _follower = Follower::start(&url(&cluster), place.store.path(), &[]);
    place.wait_for_status(LinkStatus::Up);
    let slot = key_slot(b"{t}");
    let from = cluster.owner(slot);
    let to = 1 - from;
    for number in 0..20 {
        call(cluster.node(from), &["SET", &format!("{{t}}{number}"), "v"]);
    }
    cluster.begin_move(slot, from, to);
    assert_eq!(cluster.move_keys(slot, from, to, 5), 5);
    // The follower has applied the changes of both nodes once it has a later key of each.
    for node in [from, to] {
        let mut names = (0..).map(|number| format!("later{number}"));
        let name = names.find(|name| cluster.owner(key_slot(name.as_bytes())) == node);
        call(cluster.node(node), &["SET", &name.expect("a key"), "v"]);
    }
    until(|| place.store.keys(0) == 22, || place.describe());
    let slot_text = slot.to_string();
    for index in [from, to] {
        call(
            cluster.node(index),
            &["CLUSTER", "SETSLOT", &slot_text, "STABLE"],
        );
    }
    // Clients do not find the keys that have moved any more.
    until(|| place.store.keys(0) == 17, || place.describe());
    cluster.settle(&place);
    cluster.compare(&place);
    // The next attempt finds them.
    cluster.move_slot(slot, from, to);
    until(|| place.store.keys(0) == 22, || place.describe());
    cluster.settle(&place);
    cluster.compare(&place);
}

#[test]
fn master_that_gives_up_its_slots_and_leaves_is_forgotten() {
    let mut cluster = Cluster::start(2, 0);
    let added = cluster.grow();
    let place = Place::new();
    let _follower = Follower::start(&url(&cluster), place.store.path(), &[]);
    place.wait_for_status(LinkStatus::Up);
    for number in 0..20 {
        let key = format!("{{t}}{number}");
        call(
            cluster.node(cluster.owner(key_slot(b"{t}"))),
            &["SET", &key, "v"],
        );
    }
    let slot = key_slot(b"{t}");
    let home = cluster.owner(slot);
    cluster.move_slot(slot, home, added);
    cluster.settle(&place);
    cluster.move_slot(slot, added, home);
    cluster.settle(&place);
    let gone = id_of(cluster.node(added));
    cluster.kill(added);
    for node in cluster.living() {
        call(node, &["CLUSTER", "FORGET", &gone]);
    }
    let has_lane = || {
        let source = place.store.cluster_source().expect("a whole store");
        let lanes = source.expect("a cluster").lanes;
        lanes.iter().any(|lane| lane.node == gone)
    };
    until(|| !has_lane(), || place.describe());
    until(|| place.status() == LinkStatus::Up, || place.describe());
    cluster.catch_up(&place);
    cluster.compare(&place);
}

#[test]
fn filter_of_a_prefix_applies_to_all_masters() {
    let cluster = Cluster::start(3, 0);
    let place = Place::new();
    let options = ["--prefix", "a:"];
    let set = |name: &str| {
        let owner = cluster.owner(key_slot(name.as_bytes()));
        call(cluster.node(owner), &["SET", name, "v"]);
    };
    (0..50).for_each(|number| set(&format!("a:{number}")));
    (0..50).for_each(|number| set(&format!("b:{number}")));
    let follower = Follower::start(&url(&cluster), place.store.path(), &options);
    place.wait_for_status(LinkStatus::Up);
    assert_eq!(place.store.keys(0), 50);
    set("a:new");
    set("b:new");
    cluster.catch_up(&place);
    assert_eq!(place.store.keys(0), 51);
    drop(follower);
    let other = Follower::start(&url(&cluster), place.store.path(), &["--db", "3"]);
    let run = other.finish();
    assert!(
        run.status != 0 && run.errors.contains("only database 0"),
        "{run:?}"
    );
}

#[test]
fn slots_move_atomically_between_nodes_of_valkey() {
    if Kind::Valkey.program().is_none() {
        println!("skipped: Valkey 9.1 is missing; type: scripts/setup/servers.sh");
        return;
    }
    let seed = seed();
    let cluster = Cluster::start_with(Kind::Valkey, (3, 0), &[]);
    let mut changes = ClusterChanges::new(seed);
    changes.make(&cluster, 2000);
    let place = Place::new();
    let _follower = Follower::start(&url(&cluster), place.store.path(), &[]);
    place.wait_for_status(LinkStatus::Up);
    for _ in 0..6 {
        changes.make(&cluster, 200);
        let slot = changes.slot();
        let from = cluster.owner(slot);
        let to = (from + 1) % 3;
        let (text, id) = (slot.to_string(), id_of(cluster.node(to)));
        let words = [
            "CLUSTER",
            "MIGRATESLOTS",
            "SLOTSRANGE",
            &text,
            &text,
            "NODE",
            &id,
        ];
        call(cluster.node(from), &words);
        // Valkey gives up a migration that takes long, and this one begins again.
        for turn in 1.. {
            if cluster.owner(slot) == to {
                break;
            }
            if turn % 100 == 0 {
                let mut client = Client::connect(cluster.node(from).address()).expect("it accepts");
                client.call(words).expect("a reply");
            }
            changes.make(&cluster, 50);
        }
    }
    changes.make(&cluster, 200);
    cluster.settle(&place);
    cluster.catch_up(&place);
    cluster.compare(&place);
    check(&place);
}

/// Ends the writers of a test, also if it panics.
struct EndOnDrop<'f>(&'f AtomicBool);

impl Drop for EndOnDrop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

#[test]
fn promotion_compares_all_masters_and_ends_the_role() {
    let cluster = Cluster::start(3, 0);
    ClusterChanges::new(seed()).make(&cluster, 2000);
    let place = Place::new();
    let follower = Follower::start(&url(&cluster), place.store.path(), &[]);
    place.wait_for_status(LinkStatus::Up);
    let path = place.path("store");
    let promote = |options: &[&str]| {
        let url = url(&cluster);
        let all = ["follow", &url, "--store", &path, "--promote"];
        run(&[&all[..], options].concat())
    };
    // Writers of all masters make changes until the pause.
    let is_done = AtomicBool::new(false);
    let keys = thread::scope(|scope| {
        let ends = EndOnDrop(&is_done);
        let writer = scope.spawn(|| {
            let mut changes = ClusterChanges::new(seed() + 1);
            while !is_done.load(Ordering::Relaxed) {
                changes.make(&cluster, 20);
            }
        });
        // A slot that moves cannot be compared.
        let slot = slots_of(cluster.node(0))[0];
        cluster.begin_move(slot, 0, 1);
        let refused = promote(&[]);
        assert_eq!(refused.status, 1, "{refused:?}");
        assert!(refused.errors.contains("slots move between"), "{refused:?}");
        assert!(place.store.is_replica());
        while cluster.move_keys(slot, 0, 1, 10) > 0 {}
        cluster.end_move(slot, 0, 1);
        let mut promoted = promote(&["--pause", "20"]);
        until(
            || {
                let is_over = !promoted.errors.contains("try again");
                if !is_over {
                    promoted = promote(&["--pause", "20"]);
                }
                is_over
            },
            || "the move does not end".into(),
        );
        assert_eq!(promoted.status, 0, "{promoted:?}");
        let keys = place.store.keys(0);
        let line = "is no replica any more; it has all changes of the source's 3 masters, ";
        assert!(promoted.out.contains(line), "{promoted:?}");
        let words = promoted.out.split_once("  db 0: ").map(|(_, words)| words);
        let told = words.and_then(|words| words.split_once(" keys on both sides, "));
        let told: u64 = told
            .and_then(|(told, _)| told.parse().ok())
            .expect("a count");
        // Some keys may have expired in the store since they were counted.
        assert!(
            told >= keys && told < keys + 50,
            "{told}, {keys}: {promoted:?}"
        );
        assert!(!place.store.is_replica());
        let sizes = cluster.masters().into_iter().map(|master| {
            let size = call(master, &["DBSIZE"]);
            format!("{size:?}")
                .chars()
                .filter(char::is_ascii_digit)
                .collect::<String>()
        });
        let sum: u64 = sizes
            .map(|size| size.parse::<u64>().expect("a number"))
            .sum();
        assert_eq!(sum, told);
        drop(ends);
        // The writer waits for a master.
        until(
            || {
                let masters = cluster.masters();
                let mut blocked = masters
                    .iter()
                    .map(|master| field(master, "clients", "blocked_clients"));
                blocked.any(|count| count != "0")
            },
            || "no writer is paused".into(),
        );
        for master in cluster.masters() {
            call(master, &["CLIENT", "UNPAUSE"]);
        }
        writer.join().expect("a writer");
        keys
    });
    assert_eq!(place.store.keys(0), keys);
    assert_eq!(follower.finish().status, 0);
    place
        .store
        .set(0, b"mine", b"1")
        .expect("an ordinary store");
    check(&place);
}

#[test]
fn difference_of_a_master_keeps_the_role_and_all_writers() {
    let cluster = Cluster::start(2, 0);
    ClusterChanges::new(seed()).make(&cluster, 500);
    let place = Place::new();
    let _follower = Follower::start(&url(&cluster), place.store.path(), &[]);
    place.wait_for_status(LinkStatus::Up);
    cluster.catch_up(&place);
    let applier = Store::open(place.store.path(), true).expect("the store");
    applier.apply_source();
    applier.set(0, b"more", b"1").expect("room");
    let path = place.path("store");
    let refused = run(&["follow", &url(&cluster), "--store", &path, "--promote"]);
    assert_eq!(refused.status, 1, "{refused:?}");
    assert!(
        refused.errors.contains("keys on the source, but"),
        "{refused:?}"
    );
    assert!(place.store.is_replica());
    // Both masters accept changes at once.
    for master in cluster.masters() {
        let slots = slots_of(master);
        let mut names = (0..).map(|number| format!("after{number}"));
        let name = names.find(|name| slots.contains(&key_slot(name.as_bytes())));
        call(master, &["SET", &name.expect("a name"), "v"]);
    }
}
