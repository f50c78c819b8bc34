//! Simulates processes that embed a store, and their clients.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use tempfile::TempDir;
use undercroft_commands::config::Config;
use undercroft_commands::context::{Connections, Control, Host, Inbox, Process};
use undercroft_commands::reply::{Recorder, Tree};
use undercroft_commands::scripts::ScriptLimits;
use undercroft_commands::session::{Login, Session};
use undercroft_commands::{Context, execute};
use undercroft_engine::messages::{Event, Subscriber, Topic};
use undercroft_engine::{Options, Store};

pub(crate) struct Embedded {
    store: Store,
    process: Process,
    path: PathBuf,
    /// The directory of the store. It is deleted when the last process that embeds the store is
    /// dropped.
    directory: Arc<TempDir>,
}

impl Connections for Embedded {}
impl Inbox for Embedded {}
impl Control for Embedded {}

/// The default time limit for scripts. It also ends a test that hangs.
const LONG: Duration = Duration::from_secs(60);

fn process(time: Duration) -> Process {
    let limits = ScriptLimits {
        memory: 16 << 20,
        time: Some(time),
        shared_thread_time: None,
        impatient_time: None,
    };
    Process::new(Config::new(), 1).with_interpreter(Some(undercroft_scripts::interpreter()), limits)
}

impl Embedded {
    pub(crate) fn new() -> Embedded {
        Embedded::with_time(LONG)
    }

    /// Returns a process whose scripts have the time limit `time`.
    pub(crate) fn with_time(time: Duration) -> Embedded {
        Embedded::with(time, &Options::default())
    }

    /// Returns a process with a store of `shards` shards.
    pub(crate) fn of_shards(shards: usize) -> Embedded {
        let options = Options {
            shards: Some(shards),
            ..Options::default()
        };
        Embedded::with(LONG, &options)
    }

    fn with(time: Duration, options: &Options) -> Embedded {
        let directory = tempfile::tempdir_in("/dev/shm").expect("a directory in shared memory");
        let path = directory.path().join("store");
        Embedded {
            store: Store::create(&path, options).expect("a new store"),
            process: process(time),
            path,
            directory: Arc::new(directory),
        }
    }

    /// Returns a second process that embeds the same store. Both are simulated within the test's
    /// process.
    pub(crate) fn another(&self) -> Embedded {
        Embedded {
            store: Store::open(&self.path, true).expect("the store"),
            process: process(LONG),
            path: self.path.clone(),
            directory: Arc::clone(&self.directory),
        }
    }

    pub(crate) fn client(&self) -> Client<'_> {
        Client {
            embedded: self,
            session: Session::new(1, Login::trusted(), 0),
        }
    }

    pub(crate) fn store(&self) -> &Store {
        &self.store
    }

    /// Sets the time of the store, in Unix milliseconds.
    pub(crate) fn set_time(&self, time: u64) {
        self.store.set_time(time);
    }

    pub(crate) fn set_patience(&self, patience: Duration) {
        self.store.set_patience(patience);
    }

    pub(crate) fn subscriber(&self, channel: &str) -> Told<'_> {
        let mut subscriber = self.store.subscriber();
        subscriber
            .subscribe(Topic::Channel, &[channel.as_bytes()])
            .expect("a subscription");
        Told { subscriber }
    }

    /// Panics if the store's data structures are inconsistent.
    pub(crate) fn check(&self) {
        let report = self.store.check().expect("the store can be checked");
        assert!(report.problems.is_empty(), "{report:?}");
    }
}

pub(crate) struct Told<'e> {
    subscriber: Subscriber<&'e Store>,
}

impl Told<'_> {
    /// Returns the number of messages that the subscriber has received since the last call.
    pub(crate) fn count(&mut self) -> usize {
        let mut count = 0;
        while let Some(event) = self.subscriber.try_next().expect("an event or none") {
            count += usize::from(matches!(event, Event::Message(_)));
        }
        count
    }
}

pub(crate) struct Client<'e> {
    embedded: &'e Embedded,
    session: Session,
}

impl Client<'_> {
    /// Runs a command and returns its reply, or `None` if a lock was unavailable.
    pub(crate) fn try_run(&mut self, words: &[&str]) -> Option<Tree> {
        let words: Vec<&[u8]> = words.iter().map(|word| word.as_bytes()).collect();
        self.run_bytes(&words)
    }

    pub(crate) fn run_bytes(&mut self, words: &[&[u8]]) -> Option<Tree> {
        let host = Host::of(&self.embedded.process, self.embedded);
        let mut context = Context::new(&mut self.session, host, &self.embedded.store);
        let mut recorder = Recorder::new();
        execute(&mut context, words, &mut recorder).ok()?;
        recorder.finish().expect("whole replies").pop()
    }

    pub(crate) fn run(&mut self, words: &[&str]) -> Tree {
        self.try_run(words).expect("a reply")
    }
}
