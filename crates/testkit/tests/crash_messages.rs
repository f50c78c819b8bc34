//! Runs a storm of messages: publishers and subscribers are killed with SIGKILL at random moments
//! while others continue. No process may hang, no message may be torn, each publisher's messages
//! must stay in order, and subscribers must learn how many messages they lost. At the end, the
//! store must be structurally sound, hold no locks and use no memory.

use std::time::{Duration, Instant};

use undercroft_engine::messages::Topic;
use undercroft_engine::{Options, Store};
use undercroft_testkit::fresh::{self, Extent};
use undercroft_testkit::state::{MESSAGES_KEPT, problems};
use undercroft_testkit::storm::member::{HANGS_AFTER, Member, wait_for_progress};
use undercroft_testkit::storm::messages::{CHANNELS, Ledger};

/// The minimum number of kills, by extent.
const KILLS: [u32; 3] = [20, 60, 1000];
/// The number of kills in each store.
const KILLS_PER_STORE: u32 = 20;
/// The number of publishers. The last publisher and the last subscriber are not killed.
const PUBLISHERS: usize = 3;
const SUBSCRIBERS: usize = 3;
/// The size, in bytes, of the message ring. It is small, so that publishers overwrite messages that
/// a slow subscriber has not read.
const RING: u64 = 64 << 10;
const PROGRAM: &str = env!("CARGO_BIN_EXE_crash-child");

#[derive(Debug, Default)]
struct Tally {
    kills: u32,
    received: u64,
    lost: u64,
}

impl Tally {
    /// Adds the numbers of messages that a dead process received and lost.
    fn bury(&mut self, member: &Member) {
        let (received, lost) = member.progress.messages();
        self.received += received;
        self.lost += lost;
    }
}

/// Runs the storm on one store, from the first message to the final check.
fn storm(seed: u64, random: &mut fastrand::Rng, tally: &mut Tally) {
    let directory = tempfile::tempdir_in("/dev/shm").expect("a directory in /dev/shm");
    let options = Options {
        capacity: Some(32 << 20),
        shards: Some(4),
        ring: Some(RING),
    };
    let store = Store::create(&directory.path().join("store"), &options).expect("a new store");
    // The test's own subscriber must receive every message or a report of its loss.
    let mut subscriber = store.subscriber();
    subscriber
        .subscribe(Topic::Channel, &CHANNELS)
        .expect("room");
    let mut ledger = Ledger::default();

    let mut started = 0;
    let mut start = |role: &str, random: &mut fastrand::Rng| {
        started += 1;
        let name = format!("{role}-{started}");
        Member::start(PROGRAM, directory.path(), &name, role, 1, random.u64(..))
    };
    let mut members: Vec<Member> = Vec::new();
    for role in [["publish"; PUBLISHERS], ["subscribe"; SUBSCRIBERS]].concat() {
        members.push(start(role, random));
    }
    let go_on = |members: &mut Vec<Member>| {
        let mut all: Vec<&mut Member> = members.iter_mut().collect();
        wait_for_progress(&mut all, &store, seed);
    };
    go_on(&mut members);
    let wrong = |error: String| panic!("the master's subscriber (seed {seed}): {error}");
    for _ in 0..KILLS_PER_STORE {
        std::thread::sleep(Duration::from_micros(random.u64(0..3000)));
        let (victim, role) = match random.bool() {
            true => (random.usize(0..PUBLISHERS - 1), "publish"),
            false => (PUBLISHERS + random.usize(0..SUBSCRIBERS - 1), "subscribe"),
        };
        members[victim].expect_alive(seed);
        members[victim].kill();
        tally.bury(&members[victim]);
        tally.kills += 1;
        members[victim] = start(role, random);
        go_on(&mut members);
        // Receive only occasionally, so that this subscriber can lag.
        for _ in 0..random.u32(0..4) * 500 {
            ledger
                .receive(&mut subscriber, Some(Duration::ZERO))
                .unwrap_or_else(wrong);
        }
    }
    for member in &mut members {
        member.expect_alive(seed);
        member.kill();
        tally.bury(member);
    }
    store.recover().expect("a recovery");
    while ledger
        .receive(&mut subscriber, Some(Duration::ZERO))
        .unwrap_or_else(wrong)
    {}
    assert_eq!(
        ledger.received + ledger.lost,
        store.statistics().messages,
        "received {} and told of {} (seed {seed})",
        ledger.received,
        ledger.lost
    );
    tally.received += ledger.received;
    tally.lost += ledger.lost;
    drop(subscriber);
    // A process that was found alive continues to count as alive for a few milliseconds.
    let start = Instant::now();
    let reached = || store.publish(Topic::Channel, CHANNELS[0], b"");
    while reached().expect("room") > 0 {
        assert!(
            start.elapsed() < HANGS_AFTER,
            "the dead count as subscribed for {HANGS_AFTER:?} (seed {seed})"
        );
        std::thread::yield_now();
    }
    store.free_all_of_the_dead().expect("a walk");
    let found = problems(&store).expect("a check");
    assert!(found.is_empty(), "after the storm (seed {seed}): {found:?}");
    // Long messages occupy memory until their retention period ends, so advance the time.
    store.set_time(store.now() + MESSAGES_KEPT);
    store.upkeep_all().expect("upkeep");
    assert_eq!(store.used_memory(), 0, "a leak (seed {seed})");
}

#[test]
fn a_storm_of_killed_publishers_and_subscribers() {
    let extent = Extent::asked();
    let seed = fresh::seed();
    let mut random = fastrand::Rng::with_seed(seed);
    let mut tally = Tally::default();
    while tally.kills < KILLS[extent as usize] {
        storm(seed, &mut random, &mut tally);
    }
    assert!(
        tally.received > 0 && tally.lost > 0,
        "{} received and {} lost (seed {seed}): both are to be seen",
        tally.received,
        tally.lost
    );
    println!(
        "storm: {} kill -9 of publishers and subscribers; {} messages received and checked, {} \
         lost and told of; no process hung, nothing torn, out of order or leaked ({}; seed {seed})",
        tally.kills,
        tally.received,
        tally.lost,
        if extent == Extent::Full {
            "the whole storm"
        } else {
            "a part; `make crash` runs all"
        }
    );
}
