//! The lag of a replica, in `undercroft stat` and in INFO.

use undercroft_engine::LinkStatus;

use crate::support::{Follower, Place, call, place_of, redis, run, until, url_of};

/// Returns the replica's part of `undercroft stat --json`.
fn figures(place: &Place) -> serde_json::Value {
    let path = place.path("store");
    let stat = run(&["stat", &path, "--json"]);
    assert_eq!(stat.status, 0, "{stat:?}");
    let all: serde_json::Value = serde_json::from_str(&stat.out).expect("JSON");
    all["replica"].clone()
}

#[test]
fn lag_is_reported_while_following_and_after_the_follower_has_died() {
    let source = redis(&[]);
    let place = Place::new();
    assert_eq!(figures(&place), serde_json::Value::Null);
    let mut follower = Follower::start(&url_of(&source), place.store.path(), &[]);
    for number in 0..100 {
        call(&source, &["SET", &format!("k{number}"), "v"]);
    }
    place.catch_up(&source);
    // The source is asked for its position every second.
    until(
        || {
            let figures = figures(&place);
            figures["link"] == "up" && figures["lag"] == 0 && figures["lag_seconds"] == 0.0
        },
        || place.describe(),
    );
    let path = place.path("store");
    let stat = run(&["stat", &path]).out;
    let expected = format!("replica      of {}, up", place_of(&source));
    assert!(stat.contains(&expected), "{stat}");
    let info = run(&["exec", "--store", &path, "INFO", "replication"]).out;
    for line in ["master_lag_bytes:0", "master_lag_sec:0.000"] {
        assert!(info.lines().any(|found| found == line), "{line}: {info}");
    }
    follower.kill();
    place.wait_for_status(LinkStatus::Down);
    // The source may have changed since then.
    let figures = figures(&place);
    let seconds = figures["lag_seconds"].as_f64().expect("a number");
    assert!(seconds > 0.0 && figures["link"] == "down", "{figures}");
    let stat = run(&["stat", &path]).out;
    assert!(
        stat.contains("that are not applied, the oldest for at most"),
        "{stat}"
    );
}
