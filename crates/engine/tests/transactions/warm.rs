//! Tests that prefetching changes nothing, regardless of the keys and the state of the tables.

use undercroft_engine::lists::End;
use undercroft_engine::sorted_sets::AddRule;
use undercroft_engine::{Error, Expiry, PackedLimits};
use undercroft_testkit::fresh;

#[test]
fn warming_keys_changes_nothing() {
    let (_directory, store) = fresh::store(4);
    let keys: Vec<Vec<u8>> = (0..3_000)
        .map(|n| format!("key {n}").into_bytes())
        .collect();
    let all: Vec<&[u8]> = keys.iter().map(Vec::as_slice).collect();
    // Also prefetch keys in the empty store, and while its tables grow.
    for (number, key) in all.iter().enumerate() {
        if number % 97 == 0 {
            store.warm(0, &all[..(number + 50).min(all.len())]);
            store.warm(7, &all[..3]);
        }
        store.set(0, key, key).expect("room");
    }
    store.warm(0, &all);
    store.warm(0, &[]);
    for key in &all {
        let mut value = Vec::new();
        assert!(store.get(0, key, &mut value).expect("no lock is held"));
        assert_eq!(value, *key);
    }
    assert_eq!(store.count_keys(0).expect("no lock is held"), 3_000);
    let report = store.check().expect("no lock is held");
    assert!(report.problems.is_empty(), "{:?}", report.problems);
}

#[test]
fn warming_elements_changes_nothing() {
    let (_directory, store) = fresh::store(2);
    let limits = PackedLimits {
        entries: 8,
        value: 64,
    };
    let names: [&[u8]; 6] = [b"hash", b"set", b"sorted", b"list", b"text", b"absent"];
    let texts: Vec<Vec<u8>> = (0..1_000)
        .map(|n| format!("element {n}").into_bytes())
        .collect();
    store.set(0, b"text", b"a text").expect("room");
    // Also prefetch elements while the collections are small, and while their tables grow.
    for (number, text) in texts.iter().enumerate() {
        let written = store.write(store.all_shards(), |writer| {
            writer.hash_set(0, &store.key(b"hash"), &[text, b"value"], &limits)?;
            writer.set_add(0, &store.key(b"set"), &[text], 8)?;
            let member: [(&[u8], f64); 1] = [(text, number as f64)];
            let key = store.key(b"sorted");
            writer.sorted_add(0, &key, &member, AddRule::default(), &limits)?;
            writer.list_push(0, &store.key(b"list"), End::Right, &[text], false)
        });
        written.expect("no lock is held");
        if number % 97 == 0 {
            let all: Vec<(&[u8], &[u8])> = (names.iter())
                .flat_map(|name| texts[..number + 2].iter().map(|text| (*name, &text[..])))
                .collect();
            store.warm_elements(0, &all);
            store.warm_elements(3, &all[..3]);
        }
    }
    store.warm_elements(0, &[]);
    let lengths = store.read(store.all_shards(), |reader| {
        let hash = reader.hash(0, &store.key(b"hash"))?.expect("the hash");
        let set = reader.set(0, &store.key(b"set"))?.expect("the set");
        let sorted = reader.sorted_set(0, &store.key(b"sorted"))?;
        let view = reader.view();
        Ok::<_, Error>([
            hash.length(view)?,
            set.length(view)?,
            sorted.expect("the sorted set").length(view)?,
            reader.list_length(0, &store.key(b"list"))?,
        ])
    });
    assert_eq!(lengths.expect("no lock is held"), [1_000; 4]);
    let report = store.check().expect("no lock is held");
    assert!(report.problems.is_empty(), "{:?}", report.problems);
}

#[test]
fn warming_never_waits_for_a_lock() {
    let place = fresh::place(1);
    let (store, other) = (place.open(), place.open());
    store.set(0, b"k", b"v").expect("room");
    let keys = vec![&b"k"[..]; 100];
    let key = store.key(b"k");
    let written = store.write(store.all_shards(), |writer| {
        writer.set(0, &key, b"w", Expiry::Never)?;
        other.warm(0, &keys);
        Ok::<_, Error>(())
    });
    written.expect("the lock is this thread's");
    let mut value = Vec::new();
    assert!(other.get(0, b"k", &mut value).expect("free again"));
    assert_eq!(value, b"w");
}
