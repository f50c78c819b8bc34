//! Tests death at every machine instruction: a process makes one change to a store, and its parent
//! runs it one instruction at a time. After each instruction that changes the store's file, the
//! test recovers and checks a copy of the file. In the copy, the writer counts as dead, because it
//! holds no lock on the copied file. Real kills after a random number of instructions verify that
//! such a copy equals the file that a killed process leaves.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;
use std::thread;

use nix::sched::{CpuSet, sched_setaffinity};
use nix::unistd::Pid;
use undercroft_memory::layout::control;
use undercroft_testkit::fresh::{self, Extent};
use undercroft_testkit::image::{Image, copy_store};
use undercroft_testkit::scenario::{self, Scenario, Steps};
use undercroft_testkit::state::{self, Expected, Outcome};
use undercroft_testkit::trace::{Step, Traced};

/// The minimum and maximum number of real kills per change.
const KILLS: std::ops::RangeInclusive<u64> = 3..=20;
/// The approximate number of instructions to run for the real kills of a change, by extent. It
/// determines how many kills exceed the minimum.
const STEPS_TO_KILLS: [u64; 3] = [0, 0, 200_000];

/// A directory with a prepared store for one scenario.
struct Prepared {
    directory: tempfile::TempDir,
    base: PathBuf,
    expected: Expected,
}

impl Prepared {
    fn new(scenario: &Scenario) -> Prepared {
        let directory = tempfile::tempdir_in("/dev/shm").expect("a directory in /dev/shm");
        let base = directory.path().join("base");
        let store = state::create(&base);
        (scenario.prepare)(&store);
        drop(store);
        let expected = Expected::of(scenario, &base);
        Prepared {
            directory,
            base,
            expected,
        }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }
}

fn start(scenario: &Scenario, path: &Path) -> Result<Traced, String> {
    start_as(&["act", scenario.name], path)
}

fn start_as(words: &[&str], path: &Path) -> Result<Traced, String> {
    let mut command = Command::new(env!("CARGO_BIN_EXE_crash-child"));
    Traced::start(command.args(words).arg(path))
}

/// The totals of the test for one scenario.
#[derive(Clone, Copy, Default)]
struct Count {
    instructions: u64,
    points: u64,
    old: u64,
    between: u64,
    new: u64,
    kills: u64,
}

impl Count {
    fn add(&mut self, other: &Count) {
        self.instructions += other.instructions;
        self.points += other.points;
        self.old += other.old;
        self.between += other.between;
        self.new += other.new;
        self.kills += other.kills;
    }
}

/// Steps through the change once, and recovers a copy of the file after each instruction that
/// changed it.
fn step_through(scenario: &Scenario, prepared: &Prepared) -> Result<Count, String> {
    step_through_as("act", 1, scenario, prepared)
}

/// Steps through the change like [`step_through`], but in a child with the given role. Recovers
/// copies only of every `each`-th state and of the last state.
fn step_through_as(
    role: &str,
    each: u64,
    scenario: &Scenario,
    prepared: &Prepared,
) -> Result<Count, String> {
    let path = prepared.path("stepped");
    copy_store(&prepared.base, &path).expect("room for a copy");
    let mut traced = start_as(&[role, scenario.name], &path)?;
    let file = File::open(&path).expect("the store");
    let mut image = Image::read(&file).expect("an image");
    let mut count = Count::default();
    let copy = prepared.path("copy");
    let mut last = Outcome::Old;
    loop {
        let step = traced.step();
        count.instructions += 1;
        let changed = image.update(&file).expect("an image");
        count.points += u64::from(changed);
        let is_last = each > 1 && step == Step::Marker;
        if is_last || changed && count.points.is_multiple_of(each) {
            image.write_to(&copy).expect("room for a copy");
            let store = state::open(&copy).expect("a store that opens");
            let outcome = state::verify(&store, &prepared.expected, count.points);
            let outcome = outcome
                .and_then(|outcome| outcome.after(&mut last, scenario))
                .unwrap_or_else(|why| {
                    panic!(
                        "{}: killed after {} instructions (kill point {}): {why}",
                        scenario.name, count.instructions, count.points
                    )
                });
            match outcome {
                Outcome::Old => count.old += 1,
                Outcome::Between => count.between += 1,
                Outcome::New => count.new += 1,
            }
            drop(store);
            std::fs::remove_file(&copy).expect("just made");
        }
        if step == Step::Marker {
            break;
        }
    }
    traced.kill();
    std::fs::remove_file(path).expect("just made");
    Ok(count)
}

/// Kills a process after a number of instructions. Another process, which opened the store earlier,
/// must be able to recover it.
fn kill_after(scenario: &Scenario, prepared: &Prepared, instructions: u64, turn: u64) {
    let path = prepared.path("killed");
    copy_store(&prepared.base, &path).expect("room for a copy");
    let witness = state::open(&path).expect("a whole store");
    witness.recover().expect("a whole store");
    let mut traced = start(scenario, &path).expect("it was allowed before");
    for _ in 0..instructions {
        if traced.step() == Step::Marker {
            break;
        }
    }
    let file = File::open(&path).expect("the store");
    let standing = Image::read(&file).expect("an image");
    traced.kill();
    let killed = Image::read(&file).expect("an image");
    assert!(
        standing == killed,
        "{}: killed after {instructions} instructions, the file is not what it was before",
        scenario.name
    );
    if let Err(why) = state::verify(&witness, &prepared.expected, turn) {
        panic!(
            "{}: killed after {instructions} instructions: {why}",
            scenario.name
        );
    }
    drop(witness);
    std::fs::remove_file(path).expect("just made");
}

#[test]
fn a_kill_at_every_machine_instruction() {
    let seed = fresh::seed();
    let mut random = fastrand::Rng::with_seed(seed);
    let extent = Extent::asked();
    let chosen = fresh::chosen(extent, &mut random, |scenario| match scenario.steps {
        Steps::Always => true,
        Steps::Full => extent == Extent::Full,
        Steps::Never => false,
    });
    let chosen: Vec<_> = chosen
        .into_iter()
        .map(|scenario| (scenario, random.fork()))
        .collect();
    let build = if undercroft_memory::fault::ENABLED {
        "with fail points compiled in"
    } else {
        "the code as it is released"
    };
    println!("the kill test at every machine instruction: {build}");
    println!(
        "{:47} {:>12} {:>11} {:>6} {:>7} {:>6} {:>6}",
        "operation", "instructions", "kill points", "old", "between", "new", "kills"
    );
    let waiting = Mutex::new(chosen.iter());
    let total = Mutex::new(Count::default());
    let work = &|core: usize| -> Result<(), String> {
        stay_on(core);
        loop {
            let next = waiting.lock().expect("no panic").next();
            let Some((scenario, random)) = next else {
                return Ok(());
            };
            let count = kill_everywhere(scenario, random.clone())?;
            print_line(scenario.name, &count);
            total.lock().expect("no panic").add(&count);
        }
    };
    // Only the thread that started a traced process can step it. Use one thread per core.
    let done: Result<(), String> = thread::scope(|scope| {
        let cores = thread::available_parallelism().map_or(1, usize::from);
        let workers: Vec<_> = (0..cores)
            .map(|core| scope.spawn(move || work(core)))
            .collect();
        (workers.into_iter()).try_for_each(|worker| worker.join().expect("all recovered"))
    });
    if let Err(why) = done {
        println!("skipped: the kill test at every machine instruction: {why}");
        return;
    }
    let total = total.into_inner().expect("no panic");
    print_line("all", &total);
    println!(
        "crash: {} operations, {} instructions stepped, {} kill points and {} real kills, \
         all recovered ({})",
        chosen.len(),
        total.instructions,
        total.points,
        total.kills,
        if extent == Extent::Full {
            "the whole kill test"
        } else {
            "a part; `make crash` runs all"
        }
    );
}

/// Reads the word of the file that states whether a copy is in progress.
fn copy_state(file: &File) -> u64 {
    let mut word = [0; 8];
    file.read_exact_at(&mut word, control::COPY_STATE)
        .expect("a control page");
    u64::from_le_bytes(word)
}

/// Prepares a store in which a process was killed during a copy, `instructions` instructions after
/// the copy's snapshot was taken.
fn prepare_copied(scenario: &Scenario, instructions: u64) -> Result<Prepared, String> {
    let mut prepared = Prepared::new(scenario);
    let mut traced = start_as(&["copy"], &prepared.base)?;
    let file = File::open(&prepared.base).expect("the store");
    let mut left = instructions;
    while left > 0 {
        assert_eq!(traced.step(), Step::Done, "{}: copied whole", scenario.name);
        left -= copy_state(&file).min(1);
    }
    traced.kill();
    assert_eq!(copy_state(&file), 1);
    // The memory use after a change depends on the free memory, so compute the expected states from
    // this store.
    prepared.expected = Expected::of(scenario, &prepared.base);
    Ok(prepared)
}

/// Saving a page takes 512 stores to memory that no process can reach yet, and a kill after any of
/// these stores has the same effect. Therefore, only a full run recovers every state.
#[test]
fn a_kill_at_any_machine_instruction_during_a_copy() {
    let seed = fresh::seed();
    let mut random = fastrand::Rng::with_seed(seed);
    let (some, each) = match Extent::asked() {
        Extent::Full => (20, 1),
        Extent::Soak => (2, 8),
        Extent::Part => (1, 8),
    };
    let filter = std::env::var("UNDERCROFT_SCENARIO").unwrap_or_default();
    let mut chosen: Vec<_> = scenario::all()
        .filter(|known| known.steps == Steps::Always && known.name.contains(&filter))
        // In an empty store, there is nothing to copy.
        .filter(|known| !known.name.contains("first"))
        .collect();
    random.shuffle(&mut chosen);
    let mut total = Count::default();
    for scenario in chosen.iter().take(some) {
        let stepped = prepare_copied(scenario, random.u64(1..2000))
            .and_then(|prepared| step_through_as("act-beside-copy", each, scenario, &prepared));
        match stepped {
            Ok(count) => {
                print_line(scenario.name, &count);
                total.add(&count);
            }
            Err(why) => {
                println!("skipped: kills during a copy: {why}");
                return;
            }
        }
    }
    print_line("all, while a copy is on", &total);
    assert!(total.new > 0 && total.old > 0, "seed {seed}");
}

/// Pins this thread and the processes that it starts to one core, if permitted. The tracer and its
/// child take turns, so a second core would only slow them down.
fn stay_on(core: usize) {
    let mut cores = CpuSet::new();
    if cores.set(core).is_ok() {
        let _ = sched_setaffinity(Pid::from_raw(0), &cores);
    }
}

/// Steps through one change, and kills a real process a few times. The error states why a process
/// cannot be stepped here.
fn kill_everywhere(scenario: &Scenario, mut random: fastrand::Rng) -> Result<Count, String> {
    let prepared = Prepared::new(scenario);
    let mut count = step_through(scenario, &prepared)?;
    assert!(
        count.points > 10 && count.new > 0,
        "{}: it changes the file",
        scenario.name
    );
    assert_eq!(
        count.between > 0,
        scenario.first.is_some(),
        "{}: its parts",
        scenario.name
    );
    let kills = STEPS_TO_KILLS[Extent::asked() as usize] / count.instructions;
    while count.kills < kills.clamp(*KILLS.start(), *KILLS.end()) {
        let instructions = random.u64(1..=count.instructions);
        kill_after(scenario, &prepared, instructions, count.kills);
        count.kills += 1;
    }
    Ok(count)
}

fn print_line(name: &str, count: &Count) {
    println!(
        "{name:47} {:>12} {:>11} {:>6} {:>7} {:>6} {:>6}",
        count.instructions, count.points, count.old, count.between, count.new, count.kills
    );
}
