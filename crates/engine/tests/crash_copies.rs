//! Tests every kind of change during a copy of the store. The copy must contain the state from
//! before the change, and a death in the middle of a change or a copy must damage neither.

use std::collections::BTreeMap;
use std::path::Path;

use undercroft_engine::{Error, Store};
use undercroft_memory::fault::{die_after, steps_taken};
use undercroft_memory::layout::control;
use undercroft_testkit::fresh::{self, Extent};
use undercroft_testkit::image::{Image, copy_store};
use undercroft_testkit::scenario::{self, Scenario, choose_names};
use undercroft_testkit::state::{self, Expected};

/// The content of a copy, which maps each database and key to the type, the expiry and the items.
/// The items of a set are in no particular order.
type Shown = BTreeMap<(usize, Vec<u8>), (u8, Option<u64>, Vec<Vec<u8>>)>;

/// Copies a store, calling `between` before each page. Returns the content of the copy and its
/// number of pages.
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

/// Creates a directory with the store on which a scenario makes its change.
fn prepare(scenario: &Scenario) -> tempfile::TempDir {
    let directory = tempfile::tempdir_in("/dev/shm").expect("a directory in /dev/shm");
    let store = state::create(&directory.path().join("base"));
    (scenario.prepare)(&store);
    directory
}

/// Opens a new copy of the file of the prepared store.
fn open_fresh(directory: &Path) -> Store {
    let path = directory.join("store");
    let _ = std::fs::remove_file(&path);
    copy_store(&directory.join("base"), &path).expect("room for a copy");
    state::open(&path).expect("a whole store")
}

#[test]
fn copy_contains_the_state_before_any_concurrent_change() {
    choose_names();
    let seed = fresh::seed();
    let mut random = fastrand::Rng::with_seed(seed);
    let (mut changes, mut changed) = (0, 0);
    for scenario in scenario::all() {
        let directory = prepare(scenario);
        let store = open_fresh(directory.path());
        let (expected, pages) = copy(&store, |_| ()).expect("a sound store");
        // A store without pages is copied without a pause between pages, so no change can be made
        // during the copy.
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
    println!("copies: {changes} kinds of change during a copy, {changed} visible later");
    assert!(changes > 100 && changed > changes, "{changes}, {changed}");
}

/// Leaves the prepared store with an active copy whose copying process died after the copy began.
/// Returns false if the store has no page to copy.
fn die_while_copying(directory: &Path) -> bool {
    // All runs take the same steps, so the copy always begins after the same number of steps.
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
fn death_during_a_change_and_an_abandoned_copy_leaves_the_old_or_new_state() {
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
        // The size of an arena (a separate memory area) depends on the free memory, so compute the
        // expected result during a copy, too.
        let expected = Expected::of(scenario, &path);
        // Each run checks a random part of the steps. Several runs together cover all steps.
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
    println!("copies: {deaths} deaths during a change while a copy was running");
    assert!(
        deaths > 1000 && on > 100,
        "{deaths} deaths, {on} copies (seed {seed})"
    );
}

/// Reads the word of the file that indicates whether a copy is active.
fn copy_state(path: &Path) -> u64 {
    use std::os::unix::fs::FileExt;
    let mut word = [0; 8];
    let file = std::fs::File::open(path).expect("a store");
    file.read_exact_at(&mut word, control::COPY_STATE)
        .expect("a control page");
    u64::from_le_bytes(word)
}
