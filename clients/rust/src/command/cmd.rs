//! Builds a command step by step, and runs it on a store or a server.

use std::fmt;

use super::args::{Args, ToArgs};
use super::from_reply::FromReply;
use super::reply::Reply;
use crate::error::Result;

pub(crate) mod sealed {
    use super::super::pipeline::Batch;
    use super::{Reply, Result};

    /// Runs the words of a command.
    #[allow(unnameable_types, reason = "only this crate's types run commands")]
    pub trait Run {
        fn run_words(self, words: &[&[u8]]) -> Result<Reply>;

        /// Runs the commands of a pipeline. Returns the array of their replies.
        fn run_batch(self, batch: &Batch<'_>) -> Result<Reply>;
    }
}

/// A target of commands with blocking calls: `&Store`, `&Pool` and `&mut Session`.
///
/// ```
/// use undercroft::{ConnectionLike, cmd};
/// fn ping(on: impl ConnectionLike) -> undercroft::Result<String> {
///     cmd("PING").query(on)
/// }
/// # let directory = undercroft_testkit::fresh::directory();
/// # let store = undercroft::Store::open_path(directory.path().join("store"))?;
/// assert_eq!(ping(&store)?, "PONG");
/// assert_eq!(ping(&mut store.session())?, "PONG");
/// # Ok::<(), undercroft::Error>(())
/// ```
pub trait ConnectionLike: sealed::Run {}

impl<C: sealed::Run> ConnectionLike for C {}

/// Begins a command.
///
/// ```
/// use std::collections::HashMap;
/// use undercroft::cmd;
/// # let directory = undercroft_testkit::fresh::directory();
/// # let store = undercroft::Store::open_path(directory.path().join("store"))?;
/// cmd("SET").arg("key").arg(5).arg(("EX", 60)).exec(&store)?;
/// assert_eq!(cmd("GET").arg("key").query::<u8>(&store)?, 5);
/// cmd("HSET").arg("hash").arg([("a", 1), ("b", 2)]).exec(&store)?;
/// let hash: HashMap<String, i64> = cmd("HGETALL").arg("hash").query(&store)?;
/// assert_eq!(hash["b"], 2);
/// # Ok::<(), undercroft::Error>(())
/// ```
pub fn cmd(name: &str) -> Cmd {
    let mut cmd = Cmd::new();
    cmd.arg(name);
    cmd
}

/// A command under construction (see [`cmd`]). It can be run any number of times.
///
/// ```
/// # let directory = undercroft_testkit::fresh::directory();
/// # let store = undercroft::Store::open_path(directory.path().join("store"))?;
/// let mut command = undercroft::cmd("INCRBY");
/// command.arg("visits").arg(2);
/// for visits in [2, 4, 6] {
///     assert_eq!(command.query::<u64>(&store)?, visits);
/// }
/// # Ok::<(), undercroft::Error>(())
/// ```
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Cmd {
    bytes: Vec<u8>,
    /// The end of each word in `bytes`.
    ends: Vec<usize>,
}

impl Cmd {
    /// Returns a command without words, the first of which is its name.
    ///
    /// ```
    /// let mut ping = undercroft::Cmd::new();
    /// assert_eq!(ping.arg("PING"), &undercroft::cmd("PING"));
    /// ```
    pub fn new() -> Cmd {
        Cmd::default()
    }

    /// Adds arguments, which are copied.
    ///
    /// ```
    /// # let directory = undercroft_testkit::fresh::directory();
    /// # let store = undercroft::Store::open_path(directory.path().join("store"))?;
    /// let length = undercroft::cmd("RPUSH").arg("key").arg(vec!["a", "b"]).query::<i32>(&store)?;
    /// assert_eq!(length, 2);
    /// # Ok::<(), undercroft::Error>(())
    /// ```
    pub fn arg(&mut self, argument: impl ToArgs) -> &mut Cmd {
        Args::of(&argument).with(|words| {
            for word in words {
                self.bytes.extend_from_slice(word);
                self.ends.push(self.bytes.len());
            }
        });
        self
    }

    /// Runs the command, and converts its reply.
    ///
    /// # Errors
    /// [`Error::Unexpected`](crate::Error::Unexpected) if the reply has another type, and the errors
    /// of [`Store::command`](crate::Store::command) or [`Pool::command`](crate::Pool::command).
    ///
    /// ```
    /// # let directory = undercroft_testkit::fresh::directory();
    /// # let store = undercroft::Store::open_path(directory.path().join("store"))?;
    /// let length: Option<u32> = undercroft::cmd("STRLEN").arg("key").query(&store)?;
    /// assert_eq!(length, Some(0));
    /// # Ok::<(), undercroft::Error>(())
    /// ```
    pub fn query<T: FromReply>(&self, on: impl ConnectionLike) -> Result<T> {
        on.run_words(&self.words())?.to()
    }

    /// Runs the command, and drops its reply.
    ///
    /// # Errors
    /// The errors of [`query`](Self::query).
    ///
    /// ```
    /// # let directory = undercroft_testkit::fresh::directory();
    /// # let store = undercroft::Store::open_path(directory.path().join("store"))?;
    /// undercroft::cmd("FLUSHDB").exec(&store)?;
    /// # Ok::<(), undercroft::Error>(())
    /// ```
    pub fn exec(&self, on: impl ConnectionLike) -> Result<()> {
        self.query(on)
    }

    pub(crate) fn words(&self) -> Vec<&[u8]> {
        let starts = std::iter::once(0).chain(self.ends.iter().copied());
        let ranges = starts.zip(&self.ends);
        ranges
            .map(|(start, end)| &self.bytes[start..*end])
            .collect()
    }
}

impl fmt::Debug for Cmd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let words = self.words();
        let words = words.iter().map(|word| String::from_utf8_lossy(word));
        f.debug_list().entries(words).finish()
    }
}
