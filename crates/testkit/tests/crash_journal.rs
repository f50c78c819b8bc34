//! Tests death at every machine instruction of a change to a store with a journal. After each
//! instruction that changed the store's file, a copy of the file is recovered from the death. Its state
//! must equal what recovery from its journal gives after the file is gone (J3).
//!
//! Real kills of many processes are tested in `crash_storm.rs`.

use std::fs::File;
use std::path::PathBuf;
use std::process::Command;

use undercroft_engine::{Durability, Store};
use undercroft_memory::{JournalOptions, Segment};
use undercroft_testkit::fresh::{self, Extent};
use undercroft_testkit::image::Image;
use undercroft_testkit::journals::copy_folder;
use undercroft_testkit::moved_disk::MovedDisk;
use undercroft_testkit::scenario::{self, Scenario, Steps};
use undercroft_testkit::state::{self, State};
use undercroft_testkit::trace::{Step, Traced};

/// The number of changes to step through, and the approximate number of states of each change to
/// recover, by extent.
const EXTENTS: [(usize, u64); 3] = [(3, 60), (12, 200), (usize::MAX, 1000)];
/// The sizes of the ring and of the journal's segments in bytes, so small that they are quick to copy.
const SIZES: JournalOptions = JournalOptions {
    ring: Some(64 << 10),
    segment: Some(256 << 10),
};

/// A store with a journal, prepared for one scenario.
struct Prepared {
    directory: tempfile::TempDir,
    /// The path of the store.
    path: PathBuf,
    /// The store before the change.
    base: Image,
    folder: PathBuf,
    /// The folder before the change.
    kept: PathBuf,
}

impl Prepared {
    fn new(scenario: &Scenario) -> Prepared {
        let directory = fresh::directory();
        let path = directory.path().join("store");
        let folder = directory.path().join("store.journal");
        let store = state::create(&path);
        (scenario.prepare)(&store);
        drop(store);
        let segment = Segment::open(&path, true).expect("a whole store");
        (segment.begin_journal(&folder, Durability::EverySecond, &SIZES)).expect("a journal");
        drop(segment);
        let base = Image::read(&File::open(&path).expect("the store")).expect("an image");
        let kept = directory.path().join("kept");
        copy_folder(&folder, &kept);
        Prepared {
            directory,
            path,
            base,
            folder,
            kept,
        }
    }

    /// Recovers a copy of the store from the death of its writer, then from its journal.
    fn verify(&self, image: &Image) -> Result<(), String> {
        let path = self.directory.path().join("copy");
        let folder = self.directory.path().join("copy.journal");
        image.write_to(&path).expect("room for a copy");
        copy_folder(&self.folder, &folder);
        let mut heir = state::open(&path).expect("a store that opens");
        heir.set_disk(Box::new(MovedDisk {
            from: self.folder.clone(),
            to: folder.clone(),
        }));
        heir.recover().expect("a recovery");
        heir.make_durable().expect("a durable journal");
        let survived = State::durable(&heir).expect("a sound store");
        drop(heir);
        std::fs::remove_file(&path).expect("just made");
        let recovered = Store::open_or_recover(&path, &folder).expect("a recovered store");
        assert!(recovered.recovery().is_some());
        recovered.set_time(state::NOW);
        let problems = state::problems(&recovered).expect("a check");
        let found = State::durable(&recovered).expect("a sound store");
        drop(recovered);
        std::fs::remove_file(&path).expect("just made");
        std::fs::remove_dir_all(&folder).expect("just made");
        match found == survived && problems.is_empty() {
            true => Ok(()),
            false => Err(format!(
                "{problems:?}\nexpected {survived:?}\nfound {found:?}"
            )),
        }
    }

    /// Starts a process that is about to make the change.
    fn start(&self, scenario: &Scenario) -> Result<(Traced, File), String> {
        let mut options = File::options();
        let file = options.read(true).write(true).open(&self.path);
        let file = file.expect("the store");
        self.base.write_into(&file).expect("room for the store");
        std::fs::remove_dir_all(&self.folder).expect("the folder");
        copy_folder(&self.kept, &self.folder);
        let mut command = Command::new(env!("CARGO_BIN_EXE_crash-child"));
        command.args(["act", scenario.name]).arg(&self.path);
        Ok((Traced::start(&mut command)?, file))
    }

    /// Steps through the change. Calls `each` with the number of each state of the file.
    fn step_through(
        &self,
        scenario: &Scenario,
        mut each: impl FnMut(u64, &Image),
    ) -> Result<u64, String> {
        let (mut traced, file) = self.start(scenario)?;
        let mut image = Image::read(&file).expect("an image");
        let mut states = 0;
        while traced.step() != Step::Marker {
            if image.update(&file).expect("an image") {
                states += 1;
                each(states, &image);
            }
        }
        traced.kill();
        Ok(states)
    }
}

#[test]
fn recovered_store_equals_the_survivor_after_a_kill_at_any_machine_instruction() {
    let seed = fresh::seed();
    let mut random = fastrand::Rng::with_seed(seed);
    let (count, states) = EXTENTS[Extent::asked() as usize];
    let extent = Extent::asked();
    let mut chosen = fresh::chosen(Extent::Full, &mut random, |scenario| match scenario.steps {
        Steps::Always => true,
        Steps::Full => extent == Extent::Full,
        Steps::Never => false,
    });
    random.shuffle(&mut chosen);
    scenario::choose_names();
    let mut verified = 0;
    for scenario in chosen.iter().take(count) {
        let prepared = Prepared::new(scenario);
        // The first run only counts the states.
        let total = match prepared.step_through(scenario, |_, _| {}) {
            Ok(total) => total,
            Err(why) => {
                println!("skipped: kills at machine instructions with a journal: {why}");
                return;
            }
        };
        assert!(total > 10, "{}: it changes the file", scenario.name);
        let every = total.div_ceil(states);
        let first = random.u64(..every);
        let stepped = prepared.step_through(scenario, |state, image| {
            if state % every != first && state != total {
                return;
            }
            verified += 1;
            if let Err(why) = prepared.verify(image) {
                panic!(
                    "{}: killed at state {state} of {total} (seed {seed}): {why}",
                    scenario.name
                );
            }
        });
        stepped.expect("it was allowed before");
        println!("{:47} {total:>6} states", scenario.name);
    }
    println!(
        "crash: {verified} states of {} changes recovered from their journals",
        count.min(chosen.len())
    );
}
