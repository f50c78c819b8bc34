//! Tests every kind of change with a journal on, completed or cut off by a death. What the surviving
//! store holds must equal what recovery from its journal gives after the store's file is gone (J3).

use std::path::Path;
use std::sync::mpsc::channel;

use undercroft_engine::{Durability, Options, Store, Terms};
use undercroft_memory::fault::die_after;
use undercroft_testkit::fresh::{self, Extent};
use undercroft_testkit::image::Image;
use undercroft_testkit::journals::compare_with_journal;
use undercroft_testkit::scenario::{Scenario, choose_names};
use undercroft_testkit::state::{self, State};

/// The number of deaths in each kind of change. One more run completes the change.
const DEATHS: usize = 2;

/// Makes the change in a store with a journal and dies after `steps` steps. Returns the number of
/// steps of the change, if it completed first.
fn run(scenario: &Scenario, image: &Image, directory: &Path, steps: u64) -> Result<(), String> {
    let (path, folder) = (directory.join("store"), directory.join("store.journal"));
    image.write_to(&path).expect("room for a copy");
    let store = state::open(&path).expect("a whole store");
    let terms = Terms {
        journal: Some(folder.clone()),
        ..Terms::default()
    };
    store
        .set_durability(Durability::EverySecond, &terms)
        .expect("a journal");
    if die_after(steps, || (scenario.act)(&store)).is_none() {
        store.abandon();
    }
    drop(store);
    let heir = state::open(&path).expect("a store that opens");
    heir.recover().expect("a recovery");
    heir.make_durable().expect("a durable journal");
    let survived = State::durable(&heir).expect("a sound store");
    drop(heir);
    std::fs::remove_file(&path).expect("it exists");
    let recovered = Store::open_or_recover(&path, &folder).expect("a recovered store");
    if recovered.recovery().is_none() {
        return Err("the store was not recovered".into());
    }
    recovered.set_time(state::NOW);
    let problems = state::problems(&recovered).expect("a check");
    let found = State::durable(&recovered).expect("a sound store");
    drop(recovered);
    std::fs::remove_file(&path).expect("it exists");
    undercroft_engine::remove_journal(&folder).expect("it exists");
    match found == survived && problems.is_empty() {
        true => Ok(()),
        false => Err(format!(
            "{problems:?}\nexpected {survived:?}\nfound {found:?}"
        )),
    }
}

#[test]
fn recovered_store_equals_the_survivor_after_every_kind_of_change() {
    choose_names();
    let seed = fresh::seed();
    let mut random = fastrand::Rng::with_seed(seed);
    let directory = fresh::directory();
    let scenarios = fresh::chosen(Extent::asked(), &mut random, |_| true);
    for scenario in &scenarios {
        let base = directory.path().join("base");
        let store = state::create(&base);
        (scenario.prepare)(&store);
        drop(store);
        let file = std::fs::File::open(&base).expect("just made");
        let image = Image::read(&file).expect("an image");
        std::fs::remove_file(&base).expect("just made");
        let deaths = (0..DEATHS).map(|_| random.u64(1..400));
        for steps in deaths.chain([u64::MAX]) {
            if let Err(why) = run(scenario, &image, directory.path(), steps) {
                panic!(
                    "{}: dead after {steps} steps (seed {seed}): {why}",
                    scenario.name
                );
            }
        }
    }
    println!("durable: {} kinds of change recovered", scenarios.len());
}

/// The number of kinds of change that are made in one store.
const KINDS_PER_STORE: usize = 8;
/// The capacity of these stores in bytes. In smaller ones, the kinds of change leave too little memory
/// in one piece for the next ones.
const CAPACITY: u64 = 64 << 20;

/// Makes changes of random kinds one after another in a store, with checkpoints in between.
#[test]
fn recovered_store_equals_the_survivor_after_random_kinds_of_change() {
    choose_names();
    let seed = fresh::seed();
    let mut random = fastrand::Rng::with_seed(seed);
    let mut kinds = fresh::chosen(Extent::asked(), &mut random, |_| true);
    random.shuffle(&mut kinds);
    for kinds in kinds.chunks(KINDS_PER_STORE) {
        let names: Vec<&str> = kinds.iter().map(|scenario| scenario.name).collect();
        let context = format!("{names:?} (seed {seed})");
        let directory = fresh::directory();
        let path = directory.path().join("store");
        let terms = Terms {
            journal: Some(directory.path().join("store.journal")),
            ..Terms::default()
        };
        let store = state::create_of(&path, CAPACITY);
        let begun = store.set_durability(Durability::EverySecond, &terms);
        drop(store);
        begun.expect("a journal");
        for scenario in kinds {
            make_change(scenario, &path, &mut random);
        }
        let store = state::open(&path).expect("a whole store");
        store.recover().expect(&context);
        if let Err(why) = compare_with_journal(&store, state::NOW) {
            panic!("{context}: {why}");
        }
    }
}

/// Empties a store and makes a change.
fn make_change(scenario: &Scenario, path: &Path, random: &mut fastrand::Rng) {
    let store = state::open(path).expect("a whole store");
    store.flush_all(random.bool()).expect("room");
    store.forget_texts().expect("room");
    // Long messages occupy memory for a while.
    store.set_time(state::NOW + state::MESSAGES_KEPT);
    store.upkeep_all().expect("a sound store");
    store.set_time(state::NOW);
    (scenario.prepare)(&store);
    if random.u32(..8) == 0 {
        store.checkpoint().expect(scenario.name);
    }
    // Another handle, as another process would have, which holds no lease.
    drop(store);
    let store = state::open(path).expect("a whole store");
    (scenario.act)(&store);
}

/// Creates a store with a journal in a directory.
fn journaled(directory: &Path, mode: Durability) -> Store {
    let options = Options {
        capacity: Some(64 << 20),
        ..Options::default()
    };
    let terms = Terms {
        durability: Some(mode),
        journal: Some(directory.join("store.journal")),
        ..Terms::default()
    };
    Store::open_or_create_so(&directory.join("store"), &options, &terms).expect("a new store")
}

#[test]
fn group_is_durable_when_it_ends() {
    let directory = fresh::directory();
    let store = journaled(directory.path(), Durability::Always);
    store.set(0, b"k", b"0").expect("room");
    let durable = || store.journal().expect("a journal").durable;
    let before = durable();
    let seen = store.group(|| {
        for number in 0..100u64 {
            store.set(0, b"k", &number.to_le_bytes()).expect("room");
        }
        durable()
    });
    assert_eq!(seen.expect("a durable journal"), before);
    assert!(durable() > before && store.is_durable(durable()));
}

#[test]
fn checkpoint_in_the_background_reports_its_end() {
    let directory = fresh::directory();
    let store = journaled(directory.path(), Durability::EverySecond);
    let first = store.journal().expect("a journal").checkpoint;
    store.set(0, b"k", b"v").expect("room");
    let (sender, ended) = channel();
    let begun = store.begin_checkpoint(move |result| {
        sender.send(result.is_ok()).expect("the test waits");
    });
    begun.expect("a thread");
    assert_eq!(ended.recv(), Ok(true));
    let journal = store.journal().expect("a journal");
    assert!(journal.checkpoint > first && journal.checkpoint_age.is_some());
    store
        .set_durability(Durability::None, &Terms::default())
        .expect("a journal");
    let refused = store.begin_checkpoint(|_| panic!("it has not begun"));
    assert!(refused.is_err());
}
