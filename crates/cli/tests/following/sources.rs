//! Sources of other versions: Redis 8.2 and Valkey 9.1.

use undercroft_conformance::servers::{Kind, Server, Settings};

use crate::support::{Follower, Place, call, changes_of, run, url_of};

/// Follows a server of this kind through changes, lost connections and a new data set.
fn follow(kind: Kind) {
    if kind.program().is_none() {
        println!("skipped: {kind:?} as a source (type: scripts/setup/servers.sh)");
        return;
    }
    let arguments = ["--repl-diskless-sync-delay", "0"].map(str::to_owned);
    let settings = Settings {
        arguments: arguments.into(),
        ..Settings::default()
    };
    let source = Server::start(kind, settings).expect("it starts");
    let mut changes = changes_of(&source);
    changes.make(2000);
    let place = Place::new();
    let start = || Follower::start(&url_of(&source), place.store.path(), &[]);
    let mut follower = start();
    for round in 0..4 {
        changes.make(1000);
        call(&source, &["CLIENT", "KILL", "TYPE", "replica"]);
        changes.make(1000);
        place.catch_up(&source);
        if round % 2 == 1 {
            follower.kill();
            // More than the backlog, so that the data set is loaded again.
            call(&source, &["SET", "long", &"x".repeat(2 << 20)]);
            follower = start();
            place.catch_up(&source);
        }
    }
    // These versions show scores in another form, so the comparison is that of a promotion.
    let (url, path) = (url_of(&source), place.path("store"));
    let promoted = run(&["follow", &url, "--store", &path, "--promote"]);
    assert_eq!(promoted.status, 0, "{promoted:?}");
    drop(follower);
}

#[test]
fn redis_8_is_followed() {
    follow(Kind::Redis8);
}

#[test]
fn valkey_9_is_followed() {
    follow(Kind::Valkey);
}
