//! A store without memory for the changes of its source: they are applied once there is memory.

use std::time::{Duration, Instant};

use undercroft_engine::{AppliedPosition, Source, Store, loading_database};

use crate::played::{ID, Played, Script, command, full};

/// The longest wait for an event, which only a hang exceeds.
const PATIENCE: Duration = Duration::from_secs(60);

/// Returns another handle that applies the source's changes.
fn applier(played: &Played) -> Store {
    let applier = Store::open(played.store.path(), true).expect("the store");
    applier.apply_source();
    applier
}

/// Makes the store a replica that is up to date at position 0, and fills it.
fn full_replica(played: &Played) -> usize {
    let id = ID.as_bytes().try_into().expect("40 bytes");
    let position = AppliedPosition::default();
    played.store.set(0, b"n", b"0").expect("room");
    let source = Source { id, position };
    played.store.set_source(&source).expect("room");
    let applier = applier(played);
    for size in [1 << 20, 16 << 10, 100] {
        let value = vec![b'b'; size];
        for number in 0.. {
            let key = format!("{size}-{number}");
            match applier.set(5, key.as_bytes(), &value) {
                Ok(()) => {}
                Err(error) if error.is_out_of_memory() => break,
                Err(error) => panic!("{error}"),
            }
        }
    }
    applier.keys(5) as usize
}

/// Waits until the process that follows the source has recorded that it lacks space, and then empties
/// the store.
fn make_room(played: &Played) {
    let start = Instant::now();
    let error = || {
        let link = played.store.source_link().expect("a whole store");
        link.unwrap_or_default().error
    };
    while !error().contains("no space for a change of the source: ") {
        assert!(start.elapsed() < PATIENCE, "{}", error());
        std::thread::sleep(Duration::from_millis(1));
    }
    let applier = applier(played);
    applier.flush(&[5], false).expect("it can be emptied");
}

#[test]
fn changes_wait_for_memory_and_are_applied_once() {
    let long = "v".repeat(3 << 20);
    let changes: [Vec<Vec<u8>>; 3] = [
        // Single changes.
        vec![command(&["INCR", "n"]), command(&["SET", "long", &long])],
        // A transaction of the source.
        vec![
            command(&["MULTI"]),
            command(&["INCR", "n"]),
            command(&["RPUSH", "list", &long, "b"]),
            command(&["EXEC"]),
        ],
        // The transaction selects another database.
        vec![
            command(&["MULTI"]),
            command(&["INCR", "n"]),
            command(&["SELECT", "3"]),
            command(&["SET", "long", &long]),
            command(&["SELECT", "0"]),
            command(&["EXEC"]),
        ],
    ];
    for changes in changes {
        let played = Played::new();
        assert!(full_replica(&played) > 50);
        let mut sent = b"+CONTINUE\r\n".to_vec();
        let before = sent.len();
        sent.extend(changes.concat());
        sent.extend(command(&["INCR", "n"]));
        let length = (sent.len() - before) as u64;
        let (ended, progress) = std::thread::scope(|scope| {
            scope.spawn(|| make_room(&played));
            played.follow(&Script {
                sent: &sent,
                connections: 1,
            })
        });
        ended.expect("following does not end");
        assert_eq!(played.get("n").as_deref(), Some("2"), "{progress:?}");
        assert_eq!((progress.failed_changes, progress.partial_resyncs), (0, 1));
        let source = played.store.source().expect("a whole store");
        assert_eq!(source.expect("a source").position.offset, length);
        let keys: u64 = (0..16).map(|number| played.store.keys(number)).sum();
        assert_eq!(keys, 2);
    }
}

#[test]
fn data_set_that_does_not_fit_is_given_up_and_its_memory_freed() {
    let played = Played::new();
    played.store.set(0, b"old", b"value").expect("room");
    // More than the store's capacity.
    let long = "v".repeat(8 << 20);
    let names: Vec<String> = (0..12).map(|number| format!("k{number}")).collect();
    let values: Vec<(&str, &str)> = names.iter().map(|name| (&name[..], &long[..])).collect();
    let (ended, progress) = played.follow(&Script {
        sent: &full(7, &values, b""),
        connections: 1,
    });
    ended.expect("following does not end");
    let error = progress.error.expect("an error");
    assert!(error.contains("storing the key"), "{error}");
    assert_eq!(played.get("old").as_deref(), Some("value"));
    assert_eq!(played.store.source().expect("a whole store"), None);
    assert_eq!(played.store.keys(loading_database(0)), 0);
    // The freed memory is there for a smaller data set.
    let (ended, _) = played.follow(&Script {
        sent: &full(9, &values[..4], b""),
        connections: 1,
    });
    ended.expect("following does not end");
    assert_eq!(played.get("k3").map(|value| value.len()), Some(long.len()));
}
