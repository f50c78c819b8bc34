//! Passes inputs to scripts and libraries through a thread-local client of a store.

use std::time::Duration;

use tempfile::TempDir;
use undercroft_commands::config::Config;
use undercroft_commands::context::{Connections, Control, Host, Inbox, Process};
use undercroft_commands::reply::{Recorder, Tree};
use undercroft_commands::scripts::ScriptLimits;
use undercroft_commands::session::{Login, Session};
use undercroft_commands::{Context, execute};
use undercroft_engine::Store;

use crate::store::place;
use crate::values::{Pieces, Value};

/// The maximum length, in bytes, of an input that is passed to a script. It equals the maximum
/// length of the random driver's inputs.
const LONGEST: usize = 4096;
/// The time limit of a script. Inputs are small, so exceeding the limit is a failure.
const TIME: Duration = Duration::from_secs(5);
/// The memory limit of a script, in bytes.
const MEMORY: usize = 16 << 20;

thread_local! {
    static PLACE: ((TempDir, Store), Process) = (place(), process());
}

fn process() -> Process {
    process_of(ScriptLimits {
        memory: MEMORY,
        time: Some(TIME),
        shared_thread_time: None,
        impatient_time: None,
    })
}

fn process_of(limits: ScriptLimits) -> Process {
    let process = Process::new(Config::new(), 1);
    process.with_interpreter(Some(undercroft_scripts::interpreter()), limits)
}

/// A host that has no connections.
struct Alone;

impl Connections for Alone {}
impl Inbox for Alone {}
impl Control for Alone {}

/// Runs a command as the thread-local client.
pub(crate) fn run(words: &[&[u8]]) -> Tree {
    PLACE.with(|((_, store), process)| run_in(store, process, words))
}

/// Runs a command with these script limits.
pub(crate) fn run_within(limits: ScriptLimits, words: &[&[u8]]) -> Tree {
    PLACE.with(|((_, store), _)| run_in(store, &process_of(limits), words))
}

fn run_in(store: &Store, process: &Process, words: &[&[u8]]) -> Tree {
    let mut recorder = Recorder::new();
    {
        let mut session = Session::new(1, Login::trusted(), 0);
        let mut context = Context::new(&mut session, Host::of(process, &Alone), store);
        execute(&mut context, words, &mut recorder).expect("no process holds a lock");
    }
    let mut replies = recorder.finish().expect("whole replies");
    replies.pop().expect("a reply")
}

/// Panics if the store's data structures are inconsistent.
pub(crate) fn check() {
    let report = PLACE.with(|((_, store), _)| store.check());
    let report = report.expect("the store is there");
    assert_eq!(report.problems, Vec::<String>::new());
}

/// Returns the part of an input that is passed to a script.
pub(crate) fn shortened(input: &[u8]) -> &[u8] {
    &input[..input.len().min(LONGEST)]
}

/// Returns the result of a script, or `None` if the script returned the error `refused`. Panics on
/// any other error.
pub(crate) fn script(text: &str, arguments: &[&[u8]]) -> Option<Tree> {
    let words = [b"EVAL", text.as_bytes(), b"0"].into_iter();
    let words: Vec<&[u8]> = words.chain(arguments.iter().copied()).collect();
    match run(&words) {
        Tree::Error(error) => {
            assert_eq!(error, "refused", "{text}");
            None
        }
        reply => Some(reply),
    }
}

/// Returns the values that a script returned with the Lua function in [`PUT`](crate::values::PUT).
pub(crate) fn values(text: &str, arguments: &[&[u8]]) -> Option<Vec<Value>> {
    let Tree::Array(pieces) = script(text, arguments)? else {
        panic!("no pieces of {text}");
    };
    let pieces = pieces.into_iter().map(|piece| match piece {
        Tree::Bulk(bytes) => bytes,
        other => panic!("{other:?} of {text}"),
    });
    Some(Pieces(pieces).collect())
}

/// Encodes values, so that equal lists of values have equal encodings.
pub(crate) fn canonical(values: &[Value]) -> Vec<String> {
    let texts = values.iter().map(Value::canonical);
    texts.map(|text| text.escape_ascii().to_string()).collect()
}
