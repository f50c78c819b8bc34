//! Tests which keys are evicted when the store itself is full, how much one command evicts, and how
//! soon freed memory can be used.

use undercroft_engine::eviction::{EvictionChange, EvictionPolicy};
use undercroft_engine::streams::{EntryId, StreamLimits};
use undercroft_engine::strings::{Condition, SetOptions};
use undercroft_engine::{Expiry, Options, Store};
use undercroft_testkit::fresh;

fn store(capacity: u64, policy: EvictionPolicy) -> (tempfile::TempDir, Store) {
    let directory = fresh::directory();
    let options = Options {
        capacity: Some(capacity),
        shards: Some(4),
        ring: Some(64 << 10),
    };
    let store = Store::create(&directory.path().join("store"), &options).expect("a new store");
    store.set_max_memory(0).expect("writable");
    store
        .change_eviction(EvictionChange::Policy(policy))
        .expect("writable");
    (directory, store)
}

fn keys(store: &Store) -> u64 {
    store.count_keys(0).expect("counted")
}

fn sound(store: &Store) {
    let report = store.check().expect("a walk");
    assert!(report.problems.is_empty(), "{:?}", report.problems);
}

#[test]
fn store_without_a_limit_evicts_when_its_capacity_is_used_up() {
    for policy in [EvictionPolicy::AllKeysLru, EvictionPolicy::AllKeysRandom] {
        let (_directory, store) = store(8 << 20, policy);
        for number in 0..20_000_u32 {
            let key = format!("key:{number}");
            store
                .set(0, key.as_bytes(), &[7; 900])
                .expect("keys are evicted");
        }
        assert!(
            store.evicted_keys() > 10_000,
            "{policy:?}: {}",
            store.evicted_keys()
        );
        assert!(keys(&store) > 2000, "{policy:?}: {} are left", keys(&store));
        // Also test longer values, some of which are written before the lock is acquired.
        for length in [20_000, 300_000, 1 << 20] {
            store
                .set(0, b"long", &vec![7; length])
                .expect("keys are evicted");
        }
        let items = vec![&[7_u8; 50][..]; 2000];
        store
            .list_push(0, b"list", undercroft_engine::lists::End::Right, &items)
            .expect("keys are evicted");
        sound(&store);
    }
}

/// Fills a store with small values of many sizes until keys are evicted. Returns the number of
/// keys that remain.
fn fill(store: &Store) -> u64 {
    let mut number = 0_u64;
    while store.evicted_keys() == 0 {
        let key = format!("key:{number}");
        let value = vec![7; 50 + (number * 37 % 100) as usize];
        store
            .set(0, key.as_bytes(), &value)
            .expect("keys are evicted");
        number += 1;
    }
    keys(store)
}

#[test]
fn value_of_many_pages_evicts_in_proportion_at_the_capacity_limit() {
    let lengths = [
        (
            EvictionPolicy::AllKeysLru,
            &[3000, 20_000, 300_000, 5 << 20][..],
        ),
        (EvictionPolicy::AllKeysLfu, &[20_000]),
        (EvictionPolicy::AllKeysRandom, &[1 << 20]),
    ];
    for (policy, lengths) in lengths {
        for &length in lengths {
            let (_directory, store) = store(32 << 20, policy);
            let before = fill(&store);
            let bytes = store.used_memory() / before;
            let mut set = 0_u64;
            for number in 0..10 {
                let key = format!("long:{number}");
                set += length;
                store
                    .set(0, key.as_bytes(), &vec![7; length as usize])
                    .expect("keys are evicted");
                // The bound allows for eviction by age and by place, and for the minimum that one
                // step of each evicts.
                let most = set * 3 + (4 << 20);
                let gone = (before - keys(&store)) * bytes;
                assert!(
                    gone <= most,
                    "{policy:?}: {gone} bytes went for {set}, {number} values of {length}"
                );
                if set > 10 << 20 {
                    break;
                }
            }
            sound(&store);
        }
    }
}

#[test]
fn eviction_by_place_keeps_keys_without_a_deadline() {
    let (_directory, store) = store(32 << 20, EvictionPolicy::VolatileLru);
    let mut number = 0_u64;
    while store.evicted_keys() == 0 {
        let key = format!("{number}");
        let expiry = match number % 1000 {
            0 => Expiry::Never,
            _ => Expiry::At(u64::MAX >> 8),
        };
        let options = SetOptions {
            condition: Condition::Always,
            expiry,
        };
        store
            .set_with(0, key.as_bytes(), &[7; 100], options)
            .expect("keys are evicted");
        number += 1;
    }
    for long in 0..10 {
        store
            .set(0, format!("long:{long}").as_bytes(), &[7; 20_000])
            .expect("keys are evicted");
    }
    for kept in (0..number).step_by(1000) {
        let key = format!("{kept}");
        let there = store.exists(0, &[key.as_bytes()]).expect("read");
        assert_eq!(there, 1, "{key}");
    }
    assert!(keys(&store) > number / 2, "{} of {number}", keys(&store));
    sound(&store);
}

#[test]
fn collections_of_every_size_make_room_by_place() {
    let (_directory, store) = store(32 << 20, EvictionPolicy::AllKeysLru);
    let limits = undercroft_engine::Limits::DEFAULT.hash;
    let mut number = 0_u64;
    while store.evicted_keys() == 0 {
        let name = format!("hash:{number}");
        let key = store.key(name.as_bytes());
        // Create collections in one block, in several blocks of the shard, and in an arena (a
        // separate memory area).
        let fields = [5, 300, 2000][(number % 3) as usize];
        let names: Vec<Vec<u8>> = (0..fields)
            .map(|field: u32| field.to_string().into_bytes())
            .collect();
        let fields: Vec<&[u8]> = names
            .iter()
            .flat_map(|name| [&name[..], b"some value"])
            .collect();
        store
            .write(store.all_shards(), |writer| {
                writer.hash_set(0, &key, &fields, &limits)
            })
            .expect("keys are evicted");
        number += 1;
    }
    let before = keys(&store);
    for long in 0..5 {
        store
            .set(0, format!("long:{long}").as_bytes(), &vec![7; 500_000])
            .expect("keys are evicted");
    }
    assert!(keys(&store) > before / 2, "{} of {before}", keys(&store));
    sound(&store);
}

#[test]
fn value_that_cannot_fit_evicts_nothing() {
    let (_directory, store) = store(8 << 20, EvictionPolicy::AllKeysLru);
    for number in 0..1000_u32 {
        let key = format!("key:{number}");
        store.set(0, key.as_bytes(), &[7; 900]).expect("room");
    }
    let refused = store.set(0, b"long", &vec![7; 7 << 20]);
    assert!(refused.is_err_and(|error| error.is_out_of_memory()));
    assert_eq!((keys(&store), store.evicted_keys()), (1000, 0));
}

#[test]
fn full_store_without_eviction_keeps_all_keys() {
    let (_directory, store) = store(8 << 20, EvictionPolicy::NoEviction);
    let mut set = 0;
    let refused = loop {
        let key = format!("key:{set}");
        match store.set(0, key.as_bytes(), &[7; 900]) {
            Ok(()) => set += 1,
            Err(error) => break error,
        }
    };
    assert!(refused.is_out_of_memory(), "{refused}");
    assert_eq!((keys(&store), store.evicted_keys()), (set, 0));
}

#[test]
fn removals_evict_nothing() {
    let (_directory, store) = store(4 << 20, EvictionPolicy::AllKeysLru);
    let names: Vec<Vec<u8>> = (0..1000)
        .map(|number| format!("{number}").into_bytes())
        .collect();
    let fields: Vec<&[u8]> = names
        .iter()
        .flat_map(|name| [&name[..], b"value"])
        .collect();
    let key = store.key(b"hash");
    let limits = undercroft_engine::Limits::DEFAULT.hash;
    store
        .write(store.all_shards(), |writer| {
            writer.hash_set(0, &key, &fields, &limits)
        })
        .expect("room");
    let mut number = 0;
    while store.evicted_keys() == 0 {
        store
            .set(0, format!("key:{number}").as_bytes(), &[7; 900])
            .expect("evicted");
        number += 1;
    }
    let before = store.evicted_keys();
    let gone: Vec<&[u8]> = names.iter().map(|name| &name[..]).collect();
    let _removing = undercroft_engine::removing();
    let removed = store.write(store.all_shards(), |writer| {
        writer.hash_delete(0, &key, &gone)
    });
    let removed = removed.expect("a removal");
    assert!(removed == 1000 || before > 1, "{removed}");
    assert_eq!(store.evicted_keys(), before);
}

#[test]
fn command_evicts_in_proportion_to_the_bytes_it_adds() {
    const KEYS: u32 = 40_000;
    let (_directory, store) = store(64 << 20, EvictionPolicy::AllKeysLru);
    for number in 0..KEYS {
        let key = format!("key:{number}");
        store.set(0, key.as_bytes(), &[7; 200]).expect("room");
    }
    store.leave_upkeep_to_a_timer();
    let limit = store.used_memory() / 4;
    store.set_max_memory(limit).expect("writable");
    store.set(0, b"small", b"value").expect("room");
    let evicted = store.evicted_keys();
    assert!(
        (1..4000).contains(&evicted),
        "{evicted} for one small value"
    );
    let before = store.used_memory();
    store.set(0, b"large", &vec![7; 1 << 20]).expect("room");
    // With its key and its entry, the value occupies slightly more than 1 MiB.
    let freed = (before + (1 << 20) + 256).saturating_sub(store.used_memory());
    assert!(freed >= 2 << 20, "{freed} bytes for one of a mebibyte");
    assert!(keys(&store) > u64::from(KEYS) / 4);
    // Upkeep evicts the rest, in bounded steps.
    let mut steps = 0;
    while store.used_memory() > limit {
        let before = store.evicted_keys();
        store.upkeep_step().expect("upkeep");
        let evicted = store.evicted_keys() - before;
        assert!(evicted < 4000, "{evicted} in one step");
        steps += 1;
        assert!(steps < 100_000, "it comes to an end");
    }
    sound(&store);
}

/// Fills a store with streams of one entry, and then deletes them, `at_once` keys in each call.
fn streams_come_and_go(store: &Store, at_once: usize) {
    let mut names = Vec::new();
    loop {
        let name = format!("stream:{}", names.len()).into_bytes();
        let field = [b"field".as_slice(), b"a value of some length"];
        let (id, limits) = (EntryId::Now, StreamLimits::DEFAULT);
        match store.stream_add(0, &name, id, &field, true, None, &limits) {
            Ok(_) => names.push(name),
            Err(error) => {
                assert!(error.is_out_of_memory(), "{error}");
                break;
            }
        }
    }
    assert!(names.len() > 30_000, "{} streams", names.len());
    for some in names.chunks(at_once) {
        let some: Vec<&[u8]> = some.iter().map(|name| &name[..]).collect();
        assert_eq!(store.delete(0, &some).expect("removed"), some.len() as u64);
    }
}

#[test]
fn memory_of_many_deleted_keys_can_hold_one_large_value() {
    let (_directory, store) = store(64 << 20, EvictionPolicy::NoEviction);
    store.leave_upkeep_to_a_timer();
    streams_come_and_go(&store, 10);
    store
        .set(0, b"large", &vec![7; 44 << 20])
        .expect("room for what is most of the store");
    sound(&store);
}

#[test]
fn memory_of_many_deleted_keys_is_freed_by_a_few_steps_of_upkeep() {
    let (_directory, store) = store(64 << 20, EvictionPolicy::NoEviction);
    store.leave_upkeep_to_a_timer();
    streams_come_and_go(&store, 50_000);
    let in_use = || {
        let statistics = store.statistics();
        statistics.reserved - statistics.free
    };
    let mut steps = 0;
    while in_use() > 8 << 20 {
        store.upkeep_step().expect("upkeep");
        steps += 1;
        assert!(steps < 100, "{:?}", store.statistics());
    }
    sound(&store);
}

#[test]
fn default_limit_leaves_three_eighths_of_the_file_system() {
    let directory = fresh::directory();
    let store = Store::create(&directory.path().join("store"), &Options::default());
    let limit = store.expect("a new store").max_memory();
    let shown = std::process::Command::new("df")
        .args(["--block-size=1", "--output=size"])
        .arg(directory.path())
        .output()
        .expect("df");
    let text = String::from_utf8(shown.stdout).expect("a number");
    let size = text.lines().last().expect("a line").trim();
    let size: u64 = size.parse().expect("a number");
    assert_eq!(limit, (1 << 30).min(size / 8 * 5));
}
