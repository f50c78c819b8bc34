//! Tests that the memory of removed values can be reused before a call fails for lack of memory,
//! and is freed as fast as new memory is used.

use undercroft_engine::eviction::{Eviction, EvictionPolicy};
use undercroft_engine::lists::End;
use undercroft_engine::sorted_sets::{AddRule, Bounds};
use undercroft_engine::{Error, Options, PackedLimits, Store, Writer};
use undercroft_memory::fault::die_after;

const LIMITS: PackedLimits = PackedLimits {
    entries: 20,
    value: 64,
};

fn new_store() -> (tempfile::TempDir, Store) {
    new_store_of(64 << 20)
}

fn new_store_of(capacity: u64) -> (tempfile::TempDir, Store) {
    let directory = tempfile::tempdir_in("/dev/shm").expect("a directory in shared memory");
    let options = Options {
        capacity: Some(capacity),
        shards: Some(1),
        ring: None,
    };
    let store = Store::create(&directory.path().join("store"), &options);
    (directory, store.expect("a new store"))
}

fn write<R>(
    store: &Store,
    act: impl Fn(&mut Writer<'_, '_>) -> Result<R, Error> + Sync,
) -> Result<R, Error> {
    store.write(store.all_shards(), act)
}

fn texts(count: usize) -> Vec<String> {
    (0..count)
        .map(|number| format!("text {number:08}"))
        .collect()
}

fn bytes(texts: &[String]) -> Vec<&[u8]> {
    texts.iter().map(String::as_bytes).collect()
}

fn trim(store: &Store, name: &[u8], start: i64) {
    let key = store.key(name);
    let trimmed = write(store, |writer| writer.list_trim(0, &key, start, -1));
    assert!(trimmed.expect("room"));
}

#[test]
fn trimmed_items_make_room_at_a_limit_without_eviction() {
    let (_directory, store) = new_store();
    let texts = texts(50_000);
    store
        .list_push(0, b"k", End::Right, &bytes(&texts))
        .expect("room");
    store
        .set_max_memory(store.used_memory() - 4096)
        .expect("writable");
    let refused = store.set(0, b"more", b"value");
    assert!(matches!(refused, Err(Error::MaxMemory)), "{refused:?}");
    trim(&store, b"k", -10);
    store
        .set(0, b"more", b"value")
        .expect("what was cut off is freed");
    assert!(store.used_memory() < store.max_memory());
}

#[test]
fn trimmed_items_make_room_in_a_full_store() {
    let (_directory, store) = new_store();
    let all = texts(20_000);
    let name = |round: u32, number: u32| format!("list {round} {number}").into_bytes();
    let push = |round, number| {
        let name = name(round, number);
        // Alternate between a single command and a transaction.
        if number % 2 == 0 {
            return store.list_push(0, &name, End::Right, &bytes(&all)).is_ok();
        }
        let pushed = store.transact(store.all_shards(), |running| {
            let key = store.key(&name);
            running.access().write(store.all_shards(), |writer| {
                writer.list_push(0, &key, End::Right, &bytes(&all), false)
            })
        });
        pushed.is_ok()
    };
    let fill = |round| (0..1000).take_while(|&number| push(round, number)).count() as u32;
    let full = fill(0);
    for number in 0..full {
        trim(&store, &name(0, number), -10);
    }
    let more = fill(1);
    assert!(more > full / 2, "{full} lists filled it, then {more}");
    let report = store.check().expect("checked");
    assert!(report.problems.is_empty(), "{:?}", report.problems);
}

#[test]
fn flushed_memory_makes_room_under_every_policy() {
    let all = texts(20_000);
    // Add values that fit in a slab, values that occupy entire pages, and values in an arena (a
    // separate memory area).
    let add = |store: &Store, number: u32| {
        let name = format!("key {number}").into_bytes();
        match number % 3 {
            0 => store.set(0, &name, &[7; 64]),
            1 => store.set(0, &name, &[7; 20_000]),
            _ => store
                .list_push(0, &name, End::Right, &bytes(&all))
                .map(drop),
        }
    };
    for policy in EvictionPolicy::ALL {
        let (_directory, store) = new_store_of(16 << 20);
        // Prevent upkeep from freeing the flushed memory.
        store.leave_upkeep_to_a_timer();
        // If the policy allows, a full store evicts instead of failing, so the first eviction also
        // ends the fill.
        let fill = || {
            let before = store.evicted_keys();
            let is_full = |number| add(&store, number).is_err() || store.evicted_keys() > before;
            (0..).find(|&number| is_full(number))
        };
        let full = fill().expect("an end");
        let eviction = Eviction {
            policy,
            ..store.eviction()
        };
        store.set_eviction(eviction).expect("writable");
        store.flush_all(false).expect("no lock is held");
        assert!(fill().expect("an end") * 10 > full * 9, "{policy:?}");
        store.flush_all(false).expect("no lock is held");
        store.set_max_memory(8 << 20).expect("writable");
        let before = store.evicted_keys();
        for number in 0..6 {
            add(&store, number).expect("room");
        }
        assert_eq!(store.evicted_keys(), before, "{policy:?}");
        let report = store.check().expect("checked");
        assert!(report.problems.is_empty(), "{:?}", report.problems);
    }
}

/// Returns the number of bytes in use after 11 rounds and after 100 rounds.
fn used(round: impl Fn(&Store)) -> (u64, u64) {
    let (_directory, store) = new_store();
    // Disable upkeep, because its steps would free all the memory at an unpredictable time.
    store.leave_upkeep_to_a_timer();
    let mut some = 0;
    for number in 0..100 {
        round(&store);
        if number == 10 {
            some = store.used_memory();
        }
    }
    (some, store.used_memory())
}

#[test]
fn removed_memory_is_freed_as_fast_as_more_is_added() {
    let many = texts(1000);
    let capped = used(|store| {
        store
            .list_push(0, b"log", End::Right, &bytes(&many))
            .expect("room");
        trim(store, b"log", -100);
    });
    let emptied = used(|store| {
        let key = store.key(b"s");
        store.delete(0, &[b"s"]).expect("room");
        let added = write(store, |writer| writer.set_add(0, &key, &bytes(&many), 512));
        assert_eq!(added.expect("room"), 1000);
    });
    let ranked = used(|store| {
        let key = store.key(b"z");
        let members: Vec<(&[u8], f64)> =
            bytes(&many).into_iter().zip((0..).map(f64::from)).collect();
        write(store, |writer| {
            writer.sorted_add(0, &key, &members, AddRule::default(), &LIMITS)
        })
        .expect("room");
        write(store, |writer| {
            writer.sorted_remove_range(0, &key, &Bounds::Ranks(0, -11))
        })
        .expect("room");
    });
    let fields = used(|store| {
        let key = store.key(b"h");
        store.delete(0, &[b"h"]).expect("room");
        let pairs: Vec<&[u8]> = bytes(&many)
            .into_iter()
            .flat_map(|text| [text, text])
            .collect();
        write(store, |writer| writer.hash_set(0, &key, &pairs, &LIMITS)).expect("room");
    });
    for (what, (some, all)) in [
        ("list", capped),
        ("set", emptied),
        ("sorted set", ranked),
        ("hash", fields),
    ] {
        assert!(all < some * 2, "{what}: {some} bytes became {all}");
    }
}

/// Makes a process die while it fills a block for a large value.
fn die_while_filling(store: &Store, value: &[u8]) {
    let dying = Store::open(store.path(), true).expect("a whole store");
    let used = store.used_memory();
    for steps in 0.. {
        let died = die_after(steps, || dying.set(0, b"k", value)).is_none();
        assert!(died, "it never has the block for itself");
        dying.abandon();
        if store.used_memory() >= used + value.len() as u64 {
            return;
        }
    }
}

#[test]
fn unfinished_blocks_of_dead_processes_are_freed_by_upkeep_and_on_demand() {
    let (_directory, store) = new_store();
    store.set(0, b"other", b"v").expect("room");
    let used = store.used_memory();
    let value = vec![7; 4 << 20];
    die_while_filling(&store, &value);
    store.upkeep_all().expect("upkeep");
    assert_eq!(store.used_memory(), used);
    store.leave_upkeep_to_a_timer();
    store.set_max_memory(6 << 20).expect("writable");
    die_while_filling(&store, &value);
    for key in 0..50_u8 {
        store.set(0, &[key], &value[..100_000]).expect("room");
    }
}
