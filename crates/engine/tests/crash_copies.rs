//! Changes of every kind while the store is copied: the copy shows what was there before, and whoever dies in the midst
//! of a change, or of a copy, spoils neither.

use std::collections::BTreeMap;
use std::path::Path;

use undercroft_engine::{Error, Store};
use undercroft_memory::fault::{die_after, steps_taken};
use undercroft_memory::layout::control;
use undercroft_testkit::fresh::{self, Extent};
use undercroft_testkit::image::{Image, copy_store};
use undercroft_testkit::scenario::{self, Scenario, choose_names};
use undercroft_testkit::state::{self, Expected};

/// What a copy shows: by database and key, type, expiry and items. A set's items may come in any order.
type Shown = BTreeMap<(usize, Vec<u8>), (u8, Option<u64>, Vec<Vec<u8>>)>;

/// Copies a store, and does something after each page; says what the copy shows, and how many pages it has.
fn copy(store: &Store, mut between: impl FnMut(u64)) -> Result<(Shown, u64), Error> {
    let (mut shown, mut pages) = (Shown::new(), 0);
    let mut next = || {
        between(pages);
        pages += 1;
    };
    store.snapshot_interrupted(&mut next, |item| {
        let items = item.items.iter().map(<[u8]>::to_vec).collect();
        let value = (item.value_type as u8, item.expiry, items);
        let twice = shown.insert((item.database, item.key.to_vec()), value);
        assert_eq!(twice, None, "{:?} is shown twice", item.key);
        Ok::<_, Error>(())
    })?;
    Ok((shown, pages))
}

/// A directory with the store that a scenario's change is made to.
fn prepare(scenario: &Scenario) -> tempfile::TempDir {
    let directory = tempfile::tempdir_in("/dev/shm").expect("a directory in /dev/shm");
    let store = state::create(&directory.path().join("base"));
    (scenario.prepare)(&store);
    directory
}

/// A fresh copy of the prepared store's file.
fn open_fresh(directory: &Path) -> Store {
    let path = directory.join("store");
    let _ = std::fs::remove_file(&path);
    copy_store(&directory.join("base"), &path).expect("room for a copy");
    state::open(&path).expect("a whole store")
}

#[test]
fn a_copy_shows_what_was_there_before_any_change_that_is_made_meanwhile() {
    choose_names();
    let seed = fresh::seed();
    let mut random = fastrand::Rng::with_seed(seed);
    let (mut changes, mut changed) = (0, 0);
    for scenario in scenario::all() {
        let directory = prepare(scenario);
        let store = open_fresh(directory.path());
        let (expected, pages) = copy(&store, |_| ()).expect("a sound store");
        // A store without a page has nothing to change between two.
        let places = [0, random.u64(0..pages.max(1)), pages.saturating_sub(1)];
        for place in places.into_iter().take(pages.min(3) as usize) {
            let store = open_fresh(directory.path());
            let path = directory.path().join("store");
            let other = state::open(&path).expect("a whole store");
            let (found, _) = copy(&store, |page| {
                if page == place {
                    (scenario.act)(&other);
                }
            })
            .expect("a sound store");
            assert!(
                found == expected,
                "{}: made after page {place} of {pages} (seed {seed})",
                scenario.name
            );
            let (after, _) = copy(&store, |_| ()).expect("a sound store");
            changed += u32::from(after != expected);
            let problems = state::problems(&store).expect("a check");
            assert_eq!(problems, Vec::<String>::new(), "{}", scenario.name);
        }
        changes += 1;
    }
    println!("copies: {changes} kinds of change in the midst of one, {changed} that show later");
    assert!(changes > 100 && changed > changes, "{changes}, {changed}");
}

/// Leaves the prepared store with a copy that is on, by a copier that died behind its moment. False where the store has
/// no page to copy.
fn die_while_copying(directory: &Path) -> bool {
    // Runs are alike: the moment is over after as many steps each time.
    let begin = |store: &Store, steps: u64| {
        let (start, mut begun) = (steps_taken(), None);
        let died = die_after(steps, || {
            copy(store, |_| {
                begun.get_or_insert(steps_taken() - start);
            })
        });
        (died.is_none(), begun)
    };
    let (_, Some(steps)) = begin(&open_fresh(directory), u64::MAX) else {
        return false;
    };
    let copier = open_fresh(directory);
    let (died, _) = begin(&copier, steps - 1);
    assert!(died, "it dies with its last step before the first page");
    copier.abandon();
    assert_eq!(copy_state(&directory.join("store")), 1);
    true
}

#[test]
fn who_dies_in_the_midst_of_a_change_while_a_dead_copy_is_on_leaves_the_old_or_the_new() {
    choose_names();
    let seed = fresh::seed();
    let mut random = fastrand::Rng::with_seed(seed);
    let is_full = Extent::asked() == Extent::Full;
    let (mut deaths, mut on) = (0, 0);
    for scenario in scenario::all() {
        let directory = prepare(scenario);
        let path = directory.path().join("store");
        if !die_while_copying(directory.path()) {
            continue;
        }
        on += 1;
        let file = std::fs::File::open(&path).expect("just made");
        let image = Image::read(&file).expect("an image");
        // The memory that an arena takes depends on how much is free: so the change is made beside the copy here, too.
        let expected = Expected::of(scenario, &path);
        // Each step in some runs, a part of them in each.
        let mut steps = random.u64(0..4);
        loop {
            std::fs::remove_file(&path).expect("made before");
            image.write_to(&path).expect("room for a copy");
            let store = state::open(&path).expect("a whole store");
            let died = die_after(steps, || (scenario.act)(&store)).is_none();
            if died {
                store.abandon();
            }
            drop(store);
            let heir = state::open(&path).expect("a store that opens");
            if let Err(why) = state::verify(&heir, &expected, steps) {
                panic!(
                    "{}: dead after {steps} steps (seed {seed}): {why}",
                    scenario.name
                );
            }
            heir.recover().expect("a recovery");
            assert_eq!(heir.statistics().copy, 0, "{}", scenario.name);
            if !died {
                break;
            }
            deaths += 1;
            steps += random.u64(1..if is_full { 4 } else { 40 });
        }
    }
    println!("copies: {deaths} deaths in the midst of a change while a copy was on");
    assert!(
        deaths > 1000 && on > 100,
        "{deaths} deaths, {on} copies (seed {seed})"
    );
}

/// The word that says whether a copy is on, as it is in the file.
fn copy_state(path: &Path) -> u64 {
    use std::os::unix::fs::FileExt;
    let mut word = [0; 8];
    let file = std::fs::File::open(path).expect("a store");
    file.read_exact_at(&mut word, control::COPY_STATE)
        .expect("a control page");
    u64::from_le_bytes(word)
}
