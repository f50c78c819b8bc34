//! Tests watched keys and the changes that they detect.

use undercroft_engine::changes::Watch;
use undercroft_engine::strings::{Condition, SetOptions};
use undercroft_engine::{Error, Expiry, Store};
use undercroft_testkit::fresh;

fn watch(store: &Store, key: &[u8]) -> Watch {
    let watched = store.access().watch(0, std::iter::once(key));
    watched.expect("no lock is held").remove(0)
}

fn unchanged(store: &Store, watch: &Watch) -> bool {
    let within = store.transact(store.all_shards(), |running| running.is_unchanged(watch));
    let within = within.expect("no lock is held");
    let outside = store.access().is_unchanged(watch).expect("readable");
    assert_eq!(within, outside, "EXEC and CLIENT INFO agree");
    within
}

fn set_until(store: &Store, key: &[u8], time: u64) {
    let options = SetOptions {
        condition: Condition::Always,
        expiry: Expiry::At(time),
    };
    store.set_with(0, key, b"value", options).expect("room");
}

#[test]
fn changes_of_other_handles_are_detected_and_reads_are_ignored() {
    let (directory, store) = fresh::store(2);
    store.set(0, b"k", b"1").expect("room");
    let other = Store::open(&directory.path().join("store"), true).expect("the store");
    let watched = watch(&store, b"k");
    let mut out = Vec::new();
    other.get(0, b"k", &mut out).expect("readable");
    other.set(1, b"k", b"of another database").expect("room");
    assert!(unchanged(&store, &watched));
    other.set(0, b"k", b"1").expect("room");
    assert!(!unchanged(&store, &watched));
}

#[test]
fn only_committed_changes_count() {
    let (_directory, store) = fresh::store(2);
    let watched = watch(&store, b"k");
    let failed = store.transact(store.all_shards(), |running| {
        running.access().set(0, b"k", b"1")?;
        // The transaction's own changes do not count before it commits, because it may have to run
        // again.
        assert!(running.is_unchanged(&watched)?);
        Err::<(), _>(Error::TooLong)
    });
    assert!(failed.is_err());
    assert!(unchanged(&store, &watched));
    let one_of_them_failed = store.transact(store.all_shards(), |running| {
        let before = running.savepoint();
        running.access().set(0, b"k", b"1")?;
        running.roll_back_to(&before)?;
        running.access().set(0, b"other", b"1")
    });
    one_of_them_failed.expect("room");
    assert!(unchanged(&store, &watched));
    store.set(0, b"k", b"1").expect("room");
    assert!(!unchanged(&store, &watched));
}

#[test]
fn expiry_counts_as_a_change_but_the_later_removal_does_not() {
    let (_directory, store) = fresh::store(2);
    store.set_time(1000);
    set_until(&store, b"lives", 2000);
    set_until(&store, b"is dead", 1500);
    let lives = watch(&store, b"lives");
    store.set_time(1800);
    let dead = watch(&store, b"is dead");
    assert!(unchanged(&store, &lives) && unchanged(&store, &dead));
    let found = store.access().exists(0, &[b"is dead"]);
    assert_eq!(found.expect("readable"), 0);
    assert_eq!(store.remove_met().expect("no lock is held"), 1);
    assert!(unchanged(&store, &dead));
    store.set_time(2000);
    assert!(!unchanged(&store, &lives) && unchanged(&store, &dead));
    store.set(0, b"is dead", b"alive again").expect("room");
    assert!(!unchanged(&store, &dead));
}

#[test]
fn flush_and_swap_change_only_existing_keys() {
    let (_directory, store) = fresh::store(2);
    store.set(0, b"there", b"1").expect("room");
    store.set(2, b"elsewhere", b"1").expect("room");
    let (there, missing) = (watch(&store, b"there"), watch(&store, b"missing"));
    store.flush(&[1], true).expect("no lock is held");
    assert!(unchanged(&store, &there) && unchanged(&store, &missing));
    store.flush(&[0], true).expect("no lock is held");
    assert!(!unchanged(&store, &there) && unchanged(&store, &missing));
    let (elsewhere, missing) = (watch(&store, b"elsewhere"), watch(&store, b"missing"));
    store
        .write(store.all_shards(), |writer| writer.swap_databases(0, 2))
        .expect("no lock is held");
    assert!(!unchanged(&store, &elsewhere) && unchanged(&store, &missing));
}
