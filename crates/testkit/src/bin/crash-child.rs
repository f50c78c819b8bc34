//! Runs the child processes that the crash tests kill.

use std::path::Path;

use undercroft_engine::{Error, Store};
use undercroft_testkit::moved_disk::MovedDisk;
use undercroft_testkit::scenario;
use undercroft_testkit::storm::{checkpointer, copier, messages, reader, writer};
use undercroft_testkit::{state, trace};

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match arguments[..] {
        ["act", scenario, path] => act(scenario, Path::new(path), Store::recover),
        // Join without recovering the store, so that the state that a dead copier left in the store
        // remains.
        ["act-beside-copy", scenario, path] => act(scenario, Path::new(path), join_only),
        ["copy", path] => copy(Path::new(path)),
        [role, path, progress, seed, threads] => {
            if let Err(error) = join(role, path, progress, number(seed), number(threads)) {
                eprintln!("{role}: {error}");
                std::process::exit(1);
            }
        }
        _ => {
            eprintln!(
                "expected: act|act-beside-copy SCENARIO PATH, copy PATH, or write|read|read-only|copy|checkpoint|publish|subscribe PATH \
                 PROGRESS SEED THREADS, got {arguments:?}"
            );
            std::process::exit(2);
        }
    }
}

fn number(text: &str) -> u64 {
    text.parse()
        .unwrap_or_else(|_| panic!("expected a number, got {text:?}"))
}

/// Participates in a storm until the process is killed.
fn join(role: &str, path: &str, progress: &str, seed: u64, threads: u64) -> Result<(), String> {
    let (path, progress) = (Path::new(path), Path::new(progress));
    match role {
        "write" => writer::run(path, progress, seed, threads),
        "read" | "read-only" => reader::run(path, progress, seed, role == "read"),
        "copy" => copier::run(path, progress),
        "checkpoint" => checkpointer::run(path, progress),
        "publish" => messages::publish(path, progress, seed),
        "subscribe" => messages::subscribe(path, progress, seed),
        _ => Err(
            "expected the role write, read, read-only, copy, checkpoint, publish or subscribe"
                .into(),
        ),
    }
}

/// Makes a scenario's change between two markers. `first` joins the store before the first marker,
/// so that only the change runs between the markers.
fn act(name: &str, path: &Path, first: fn(&Store) -> Result<(), Error>) {
    let scenario = scenario::all()
        .find(|known| known.name == name)
        .unwrap_or_else(|| panic!("expected the name of a scenario, got {name:?}"));
    // The tracer sees the signal and fails. A backtrace would take hours, because the child runs one
    // instruction at a time.
    std::panic::set_hook(Box::new(|panic| {
        eprintln!("{panic}");
        std::process::abort();
    }));
    trace::trace_me();
    let mut store = state::open(path).expect("the prepared store");
    if let Some(journal) = store.journal() {
        // No thread of this process syncs the journal, because only this one is traced.
        store.set_disk(Box::new(MovedDisk::unmoved(&journal.folder)));
    }
    first(&store).expect("a whole store");
    scenario::choose_names();
    trace::marker();
    (scenario.act)(&store);
    trace::marker();
}

fn join_only(store: &Store) -> Result<(), Error> {
    store.hold(store.all_shards(), || ())
}

/// Copies the store between two markers, which delimit the traced instructions.
fn copy(path: &Path) {
    trace::trace_me();
    let store = state::open(path).expect("the prepared store");
    store.recover().expect("a whole store");
    trace::marker();
    store
        .snapshot(|_| Ok::<_, Error>(()))
        .expect("a whole store");
    trace::marker();
}
