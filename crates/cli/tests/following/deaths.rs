//! Followers that are killed: at random moments, and between the function libraries of a data set and
//! its keys.

use std::thread;
use std::time::Duration;

use undercroft_conformance::seed::seed;

use crate::served::compare;
use crate::support::{Follower, Place, call, changes_of, field, redis, run, until, url_of};

const KILLS: usize = 40;

#[test]
fn elected_followers_that_are_killed_lose_and_repeat_nothing() {
    let mut random = fastrand::Rng::with_seed(seed());
    let source = redis(&["--repl-backlog-size", "256kb"]);
    let mut changes = changes_of(&source);
    changes.make(2000);
    let place = Place::new();
    let start = || Follower::start(&url_of(&source), place.store.path(), &["--elect"]);
    let mut followers = [start(), start()];
    for round in 1..=KILLS {
        changes.make(random.usize(1..300));
        // The moment of the kill is random, not awaited.
        thread::sleep(Duration::from_micros(random.u64(0..60_000)));
        let follower = random.choice(&mut followers).expect("two");
        follower.kill();
        *follower = start();
        if round % 10 == 0 {
            // A data set that is loaded later hides a difference.
            place.catch_up(&source);
            compare(&place, &source);
            // The backlog loses the changes that were made without a follower.
            followers.iter_mut().for_each(Follower::kill);
            changes.make(10_000);
            followers = [start(), start()];
        }
    }
    changes.make(100);
    drop(changes);
    place.catch_up(&source);
    compare(&place, &source);
    let count = |name| {
        field(&source, "stats", name)
            .parse::<usize>()
            .expect("a number")
    };
    let (full, partial) = (count("sync_full"), count("sync_partial_ok"));
    println!("{full} full and {partial} partial resynchronisations");
    assert!(full > 1 && partial > 5);
    let path = place.path("store");
    let check = run(&["check", &path]);
    assert_eq!(check.status, 0, "{check:?}");
}

/// The number of function libraries, which take long enough to load that a kill falls in between.
const LIBRARIES: usize = 400;

#[test]
fn follower_killed_between_the_libraries_and_the_keys_is_replaced() {
    let source = redis(&[]);
    for number in 0..LIBRARIES {
        let text = format!(
            "#!lua name=library{number}\nredis.register_function('f{number}', function() return 1 end)"
        );
        call(&source, &["FUNCTION", "LOAD", &text]);
    }
    for number in 0..100 {
        call(&source, &["SET", &format!("key:{number}"), "new"]);
    }
    let mut hits = 0;
    for _ in 0..20 {
        let place = Place::new();
        place.store.set(0, b"key:1", b"old").expect("room");
        let mut follower = Follower::start(&url_of(&source), place.store.path(), &[]);
        let path = place.path("store");
        // The first library is there, and the others follow.
        until(
            || {
                let listed = run(&["exec", "--store", &path, "FUNCTION", "LIST"]);
                listed.out.contains("library")
            },
            || place.describe(),
        );
        follower.kill();
        if place.store.source().expect("a whole store").is_some() {
            // The follower was faster.
            continue;
        }
        hits += 1;
        // The old keys are visible, and no place in the stream is recorded.
        assert_eq!(place.get(0, "key:1").as_deref(), Some("old"));
        assert_eq!(place.store.keys(0), 1);
        let _follower = Follower::start(&url_of(&source), place.store.path(), &[]);
        place.catch_up(&source);
        compare(&place, &source);
        if hits == 3 {
            break;
        }
    }
    assert!(hits > 0, "no kill fell between the libraries and the keys");
}
