//! Runs several commands together, in one transaction on request.

use super::args::ToArgs;
use super::cmd::{Cmd, ConnectionLike};
use super::from_reply::FromReply;
use super::reply::Reply;
use crate::error::{Error, Result};

/// Begins a pipeline, a list of commands that are sent together.
///
/// ```
/// use undercroft::pipe;
/// # let directory = undercroft_testkit::fresh::directory();
/// # let store = undercroft::Store::open_path(directory.path().join("store"))?;
/// let (visits, name): (u64, Option<String>) = pipe()
///     .atomic()
///     .cmd("SET").arg("greeting").arg("hello").ignore()
///     .cmd("INCR").arg("visits")
///     .cmd("GET").arg("name")
///     .query(&store)?;
/// assert_eq!((visits, name), (1, None));
/// # Ok::<(), undercroft::Error>(())
/// ```
pub fn pipe() -> Pipeline {
    Pipeline::new()
}

/// A list of commands (see [`pipe`]). It can be run any number of times.
///
/// To a server, the commands are sent in one write, and their replies are read afterwards. In a
/// store, the commands run one after another.
///
/// ```
/// use undercroft::{Pipeline, cmd};
/// # let directory = undercroft_testkit::fresh::directory();
/// # let store = undercroft::Store::open_path(directory.path().join("store"))?;
/// let mut pipeline = Pipeline::new();
/// for number in 0..3 {
///     pipeline.cmd("RPUSH").arg("numbers").arg(number);
/// }
/// assert_eq!(pipeline.query::<Vec<u64>>(&store)?, [1, 2, 3]);
/// # Ok::<(), undercroft::Error>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Pipeline {
    commands: Vec<Cmd>,
    /// Whether each command's reply is left out of the result.
    ignored: Vec<bool>,
    atomic: bool,
}

impl Pipeline {
    /// Returns a pipeline without commands.
    ///
    /// ```
    /// assert_eq!(undercroft::Pipeline::new(), undercroft::pipe());
    /// ```
    pub fn new() -> Pipeline {
        Pipeline::default()
    }

    /// Adds a command without arguments, which [`arg`](Self::arg) adds.
    ///
    /// ```
    /// # let directory = undercroft_testkit::fresh::directory();
    /// # let store = undercroft::Store::open_path(directory.path().join("store"))?;
    /// let replies: (String, u64) = undercroft::pipe().cmd("PING").cmd("DBSIZE").query(&store)?;
    /// assert_eq!(replies, ("PONG".to_owned(), 0));
    /// # Ok::<(), undercroft::Error>(())
    /// ```
    pub fn cmd(&mut self, name: &str) -> &mut Pipeline {
        self.add_command(super::cmd(name))
    }

    /// Adds a command.
    ///
    /// ```
    /// let mut get = undercroft::cmd("GET");
    /// get.arg("key");
    /// let mut pipeline = undercroft::pipe();
    /// pipeline.add_command(get);
    /// ```
    pub fn add_command(&mut self, command: Cmd) -> &mut Pipeline {
        self.commands.push(command);
        self.ignored.push(false);
        self
    }

    /// Adds arguments to the last command.
    ///
    /// # Panics
    /// If the pipeline has no command.
    ///
    /// ```
    /// let mut pipeline = undercroft::pipe();
    /// pipeline.cmd("SET").arg("key").arg(5);
    /// ```
    #[allow(clippy::expect_used, reason = "redis-rs panics here, too")]
    pub fn arg(&mut self, argument: impl ToArgs) -> &mut Pipeline {
        let last = self.commands.last_mut();
        last.expect("a command before its arguments").arg(argument);
        self
    }

    /// Leaves the last command's reply out of the result. If the command fails, the pipeline still
    /// returns its error.
    ///
    /// ```
    /// # let directory = undercroft_testkit::fresh::directory();
    /// # let store = undercroft::Store::open_path(directory.path().join("store"))?;
    /// let mut pipeline = undercroft::pipe();
    /// pipeline.cmd("SET").arg(("key", 1)).ignore().cmd("INCR").arg("key");
    /// assert_eq!(pipeline.query::<(u8,)>(&store)?, (2,));
    /// # Ok::<(), undercroft::Error>(())
    /// ```
    pub fn ignore(&mut self) -> &mut Pipeline {
        if let Some(last) = self.ignored.last_mut() {
            *last = true;
        }
        self
    }

    /// Runs the commands in one transaction (MULTI and EXEC): no other client sees a part of their
    /// changes.
    ///
    /// ```
    /// # let directory = undercroft_testkit::fresh::directory();
    /// # let store = undercroft::Store::open_path(directory.path().join("store"))?;
    /// let mut pipeline = undercroft::pipe();
    /// pipeline.atomic().cmd("INCR").arg("a").cmd("DECR").arg("b");
    /// assert_eq!(pipeline.query::<(i64, i64)>(&store)?, (1, -1));
    /// # Ok::<(), undercroft::Error>(())
    /// ```
    pub fn atomic(&mut self) -> &mut Pipeline {
        self.atomic = true;
        self
    }

    /// Runs the commands, and converts the list of their replies. All commands run, even if one of
    /// them fails. On a session whose watched keys have changed, an atomic pipeline changes nothing,
    /// and its reply is [`Reply::Nil`]: convert it to an `Option`.
    ///
    /// # Errors
    /// The error of the first command that failed, [`Error::Unexpected`] if the replies have other
    /// types, and the errors of [`Cmd::query`].
    ///
    /// ```
    /// # let directory = undercroft_testkit::fresh::directory();
    /// # let store = undercroft::Store::open_path(directory.path().join("store"))?;
    /// store.rpush("list", "item")?;
    /// let mut pipeline = undercroft::pipe();
    /// pipeline.cmd("GET").arg("list").cmd("INCR").arg("visits");
    /// assert!(pipeline.query::<(String, u64)>(&store).unwrap_err().is_wrong_type());
    /// assert_eq!(store.get("visits")?.as_deref(), Some(&b"1"[..]));
    /// # Ok::<(), undercroft::Error>(())
    /// ```
    pub fn query<T: FromReply>(&self, on: impl ConnectionLike) -> Result<T> {
        if self.commands.is_empty() {
            return Reply::Array(Vec::new()).to();
        }
        self.result(on.run_batch(&self.batch())?)
    }

    /// Runs the commands, and drops their replies.
    ///
    /// # Errors
    /// The errors of [`query`](Self::query).
    ///
    /// ```
    /// # let directory = undercroft_testkit::fresh::directory();
    /// # let store = undercroft::Store::open_path(directory.path().join("store"))?;
    /// undercroft::pipe().cmd("SET").arg(("a", 1)).cmd("SET").arg(("b", 2)).exec(&store)?;
    /// assert_eq!(store.exists(["a", "b"])?, 2);
    /// # Ok::<(), undercroft::Error>(())
    /// ```
    pub fn exec(&self, on: impl ConnectionLike) -> Result<()> {
        self.query(on)
    }

    /// Returns whether the pipeline has no commands.
    #[cfg(feature = "async")]
    pub(crate) fn is_empty(&self) -> bool {
        self.commands.is_empty()
    }

    pub(crate) fn batch(&self) -> Batch<'_> {
        Batch {
            commands: self.commands.iter().map(Cmd::words).collect(),
            atomic: self.atomic,
        }
    }

    /// Converts the replies of the commands, or the reply of EXEC.
    pub(crate) fn result<T: FromReply>(&self, reply: Reply) -> Result<T> {
        let Reply::Array(replies) = reply else {
            return reply.to();
        };
        let mut kept = Vec::with_capacity(replies.len());
        for (at, reply) in replies.into_iter().enumerate() {
            match reply {
                Reply::Error(text) => return Err(Error::reply(text)),
                _ if self.ignored.get(at) == Some(&true) => {}
                reply => kept.push(reply),
            }
        }
        Reply::Array(kept).to()
    }
}

/// The commands of a pipeline.
#[allow(unnameable_types, reason = "only this crate's types run pipelines")]
pub struct Batch<'a> {
    pub(crate) commands: Vec<Vec<&'a [u8]>>,
    pub(crate) atomic: bool,
}

impl<'a> Batch<'a> {
    /// Returns all commands, with those that begin and end a transaction.
    pub(crate) fn framed(&self) -> Vec<Vec<&'a [u8]>> {
        let mut all = self.commands.clone();
        if self.atomic {
            all.insert(0, vec![b"MULTI"]);
            all.push(vec![b"EXEC"]);
        }
        all
    }

    /// Returns the reply to the pipeline, given the replies to the framed commands.
    pub(crate) fn reply(&self, mut replies: Vec<Result<Reply>>) -> Result<Reply> {
        if self.atomic {
            let exec = replies.pop().unwrap_or(Err(Error::Closed));
            // If a command was refused while it was queued, its error explains EXEC's.
            let refused = replies.into_iter().find_map(Result::err);
            return exec.map_err(|error| refused.unwrap_or(error));
        }
        let nested = |reply| match reply {
            Err(Error::Reply(text)) => Ok(Reply::Error(text.into())),
            other => other,
        };
        let replies: Result<Vec<Reply>> = replies.into_iter().map(nested).collect();
        replies.map(Reply::Array)
    }
}
