//! Compares the keys that the records of a journal are said to have changed with a naive model.

use std::collections::{BTreeMap, BTreeSet};

use fastrand::Rng;
use undercroft_engine::{
    ChangedKeys, Durability, JournalRecordKind, Options, RecoveryWatch, Store, Terms, Until,
    read_journal_keys,
};

type Name = (usize, Vec<u8>);
type Model = BTreeMap<Name, Vec<u8>>;

/// The journal's position and the model after an operation.
type Moment = (u64, Model);

fn head(store: &Store) -> u64 {
    store.journal().expect("a journal").head
}

/// Applies a random operation to a store and to the model.
fn change(store: &Store, model: &mut Model, random: &mut Rng, number: u64) {
    let database = random.usize(..2);
    let mut key = || format!("key:{}", random.u32(..400)).into_bytes();
    let key = key();
    // Every value is another one, so that a change changes something.
    let value = |length: usize| format!("{number:08}").into_bytes().repeat(length / 8 + 1);
    match random.u32(..40) {
        0 => {
            store.flush(&[database], true).expect("a flush");
            model.retain(|(known, _), _| *known != database);
        }
        1 => {
            let names: Vec<String> = (0..100)
                .map(|index| format!("many:{number}:{index}"))
                .collect();
            let value = value(30);
            let pairs: Vec<(&[u8], &[u8])> = names
                .iter()
                .map(|name| (name.as_bytes(), &value[..]))
                .collect();
            store.set_many(database, &pairs).expect("room");
            for name in &names {
                model.insert((database, name.clone().into_bytes()), value.clone());
            }
        }
        2..14 => {
            store.delete(database, &[&key]).expect("a removal");
            model.remove(&(database, key));
        }
        kind => {
            let length = match kind {
                14 => 200_000,
                15..18 => 6_000,
                _ => random.usize(..300),
            };
            let value = value(length);
            store.set(database, &key, &value).expect("room");
            model.insert((database, key), value);
        }
    }
}

/// Returns how one state of the model differs from an earlier one.
fn difference(before: &Model, after: &Model) -> ChangedKeys {
    let mut keys = ChangedKeys::default();
    for (name, value) in after {
        match before.get(name) {
            None => keys.added.insert(name.clone()),
            Some(old) if old != value => keys.changed.insert(name.clone()),
            Some(_) => true,
        };
    }
    let names = before.keys().filter(|name| !after.contains_key(*name));
    keys.removed = names.cloned().collect();
    keys
}

/// Adds the changes of a record to those of the records before it.
fn add(sum: &mut ChangedKeys, keys: &ChangedKeys) {
    let all = |keys: &ChangedKeys| -> BTreeSet<Name> { keys.removed.clone() };
    for name in all(keys) {
        sum.changed.remove(&name);
        if !sum.added.remove(&name) {
            sum.removed.insert(name);
        }
    }
    for name in &keys.added {
        match sum.removed.remove(name) {
            true => sum.changed.insert(name.clone()),
            false => sum.added.insert(name.clone()),
        };
    }
    for name in &keys.changed {
        if !sum.added.contains(name) {
            sum.changed.insert(name.clone());
        }
    }
}

/// Reads the keys that were changed after a moment, and compares them with the model.
fn compare(folder: &std::path::Path, since: usize, moments: &[Moment]) {
    let scratch = folder.with_extension("scratch");
    let mut sums: Vec<ChangedKeys> = vec![ChangedKeys::default(); moments.len()];
    let begin = moments[since].0;
    read_journal_keys(
        folder,
        &scratch,
        Some(Until::Position(begin)),
        &RecoveryWatch::default(),
        &mut |record, keys| {
            let operation = moments.partition_point(|(head, _)| *head < record.end);
            if record.kind == JournalRecordKind::Transaction {
                add(&mut sums[operation.min(moments.len() - 1)], keys);
            }
            true
        },
    )
    .expect("an intact journal");
    assert!(!scratch.exists());
    for operation in since + 1..moments.len() {
        let expected = difference(&moments[operation - 1].1, &moments[operation].1);
        assert_eq!(sums[operation], expected, "operation {operation}");
    }
}

#[test]
fn changed_keys_are_those_of_the_model() {
    let seed = undercroft_testkit::fresh::seed();
    let mut random = Rng::with_seed(seed);
    let directory = tempfile::tempdir_in("/dev/shm").expect("a directory in /dev/shm");
    let options = Options {
        capacity: Some(64 << 20),
        shards: Some(2),
        ring: None,
    };
    let store = Store::create(&directory.path().join("store"), &options).expect("a store");
    store.leave_upkeep_to_a_timer();
    let folder = directory.path().join("journal");
    let terms = Terms {
        journal: Some(folder.clone()),
        ..Terms::default()
    };
    store
        .set_durability(Durability::EverySecond, &terms)
        .expect("a journal");
    let mut model = Model::new();
    let mut moments = vec![(head(&store), model.clone())];
    for number in 0..400 {
        change(&store, &mut model, &mut random, number);
        moments.push((head(&store), model.clone()));
    }
    store.make_durable().expect("a durable journal");
    compare(&folder, 0, &moments);
    compare(&folder, random.usize(..moments.len()), &moments);
}
