//! Defines the crate's error type, which covers both stores in this process and servers.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use undercroft_commands::{Blocked, Failure};
use undercroft_embedded::removed_text;
use undercroft_engine as engine;
use undercroft_resp::ReplyError;

/// The result type of every call.
///
/// ```
/// fn visits(store: &undercroft::Store) -> undercroft::Result<i64> {
///     store.incr("visits", 1)
/// }
/// # let directory = undercroft_testkit::fresh::directory();
/// # let store = undercroft::Store::open_path(directory.path().join("store"))?;
/// assert_eq!(visits(&store)?, 1);
/// # Ok::<(), undercroft::Error>(())
/// ```
pub type Result<T> = std::result::Result<T, Error>;

/// The reason why a call failed.
///
/// Errors are cheap to clone, because one failure, such as a lost connection, can end many calls at
/// the same time. Applications should use the predicates below, which have the same meaning for
/// stores and servers.
///
/// ```
/// # let directory = undercroft_testkit::fresh::directory();
/// # let store = undercroft::Store::open_path(directory.path().join("store"))?;
/// store.rpush("letters", &["a"])?;
/// let error = store.get("letters").unwrap_err();
/// assert!(error.is_wrong_type());
/// assert_eq!(error.code(), Some("WRONGTYPE"));
/// # Ok::<(), undercroft::Error>(())
/// ```
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The URL or an option is invalid.
    #[error("{0}")]
    Url(Box<str>),
    /// An argument is outside of its range. The call did not reach the store or the server.
    #[error("{0}")]
    InvalidArgument(Box<str>),
    /// The store can be neither opened nor created.
    #[error("{0}")]
    Open(Box<str>),
    /// The connection to the server could not be established.
    #[error("cannot connect to {address}: {source}")]
    Connect {
        /// The server's address, without the user name and password.
        address: Arc<str>,
        /// The operating system's error.
        source: Arc<io::Error>,
    },
    /// The server replied to a new connection with an error, for example because the password is
    /// wrong.
    #[error("{address} refuses connections: {reply}")]
    Refused {
        /// The server's address, without the user name and password.
        address: Arc<str>,
        /// The server's error reply, which starts with an error code.
        reply: Arc<str>,
    },
    /// The connection was lost while the call waited for its reply. It is unknown whether the
    /// command was executed.
    #[error("the connection to {address} was lost: {source}")]
    Lost {
        /// The server's address, without the user name and password.
        address: Arc<str>,
        /// The operating system's error.
        source: Arc<io::Error>,
    },
    /// The server sent bytes that are not a valid reply. The connection is closed, as with
    /// [`Error::Lost`].
    #[error("{address} broke the protocol: {reason}")]
    Protocol {
        /// The server's address, without the user name and password.
        address: Arc<str>,
        /// A description of the invalid bytes.
        reason: Arc<str>,
    },
    /// No reply arrived within the deadline. It is unknown whether the command was or will be
    /// executed.
    #[error("no reply within {0:?}")]
    TimedOut(Duration),
    /// The command replied with an error. The text starts with an error code.
    #[error("{0}")]
    Reply(Box<str>),
    /// The type of the reply differs from the type that the call expects.
    #[error("expected {expected}, got {got}")]
    Unexpected {
        /// The expected type.
        expected: &'static str,
        /// The received type.
        got: &'static str,
    },
    /// Another process holds a lock in the store and is making no progress. The call changed
    /// nothing.
    #[error("{0}")]
    Busy(Box<str>),
    /// The store's file was removed or replaced, and the call belonged to that file: a transaction,
    /// a wait, a lease or a subscription. Other calls continue in the store that now has the same
    /// name, unless the URL ends with `?on_removed=error`.
    #[error("{0}")]
    Removed(Box<str>),
    /// The value cannot be written as JSON, or the stored value cannot be parsed. Only calls that
    /// need the crate's `serde` feature return this error.
    #[error("{0}")]
    Value(Box<str>),
    /// A computation requests the key that it computes, so it would wait for itself.
    #[error(
        "the computation of {0:?} requests its own value and would wait for itself forever: give \
         the inner call another key or call the function without the cache"
    )]
    Recursion(Box<str>),
    /// A cache on a server was opened outside of a Tokio runtime.
    #[error("the call needs a Tokio runtime; call it from an async task")]
    NoRuntime,
    /// The cache was closed.
    #[error("the cache is closed")]
    Closed,
    /// The [`Channel`](crate::Channel) is closed: it accepts no message, and a consumer has received
    /// all of them.
    #[error("the channel is closed")]
    ChannelClosed,
}

impl Error {
    /// Returns the code at the start of an error reply, such as `WRONGTYPE`, `OOM` or `ERR`.
    ///
    /// ```
    /// use undercroft::Error;
    /// assert_eq!(Error::Reply("OOM no room".into()).code(), Some("OOM"));
    /// assert_eq!(Error::Closed.code(), None);
    /// ```
    pub fn code(&self) -> Option<&str> {
        match self {
            Error::Reply(text) => text.split(' ').next(),
            Error::Refused { reply, .. } => reply.split(' ').next(),
            _ => None,
        }
    }

    /// Returns whether the call failed because the key holds a value of another type.
    ///
    /// ```
    /// # let directory = undercroft_testkit::fresh::directory();
    /// # let store = undercroft::Store::open_path(directory.path().join("store"))?;
    /// store.rpush("letters", &["a"])?;
    /// assert!(store.incr("letters", 1).unwrap_err().is_wrong_type());
    /// # Ok::<(), undercroft::Error>(())
    /// ```
    pub fn is_wrong_type(&self) -> bool {
        self.code() == Some("WRONGTYPE")
    }

    /// Returns whether the call failed because the store or the server has no memory for the value.
    ///
    /// ```
    /// # let directory = undercroft_testkit::fresh::directory();
    /// # let store = undercroft::Store::open_path(directory.path().join("store"))?;
    /// store.command(&["CONFIG", "SET", "maxmemory", "1"])?;
    /// store.set("first", "the store is full after this value")?;
    /// assert!(store.set("second", "value").unwrap_err().is_full());
    /// # Ok::<(), undercroft::Error>(())
    /// ```
    pub fn is_full(&self) -> bool {
        self.code() == Some("OOM")
    }

    /// Returns whether the call timed out.
    ///
    /// ```
    /// use std::time::Duration;
    /// assert!(undercroft::Error::TimedOut(Duration::from_secs(1)).is_timeout());
    /// ```
    pub fn is_timeout(&self) -> bool {
        matches!(self, Error::TimedOut(_))
    }

    /// Returns whether the connection failed or was lost. The same call may succeed later.
    ///
    /// ```
    /// use undercroft::{Cache, CacheOptions, PipelinedCache};
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> undercroft::Result<()> {
    /// # let directory = undercroft_testkit::fresh::directory();
    /// # let url = format!("unix://{}/nobody", directory.path().display());
    /// let cache = PipelinedCache::open(&url, CacheOptions::new())?; // no server listens here
    /// assert!(cache.get(b"key").await.unwrap_err().is_connection());
    /// # Ok(())
    /// # }
    /// ```
    pub fn is_connection(&self) -> bool {
        matches!(
            self,
            Error::Connect { .. }
                | Error::Refused { .. }
                | Error::Lost { .. }
                | Error::Protocol { .. }
        )
    }

    /// Returns whether the server may have executed the command although the call failed.
    ///
    /// ```
    /// use std::time::Duration;
    /// use undercroft::Error;
    /// assert!(Error::TimedOut(Duration::from_secs(1)).may_have_run());
    /// assert!(!Error::Closed.may_have_run());
    /// ```
    pub fn may_have_run(&self) -> bool {
        matches!(
            self,
            Error::Lost { .. } | Error::Protocol { .. } | Error::TimedOut(_)
        )
    }

    /// Returns the name of the variant in lower case, for use as a counter label.
    #[cfg(feature = "metrics")]
    pub(crate) fn kind(&self) -> &'static str {
        match self {
            Error::Url(_) => "url",
            Error::InvalidArgument(_) => "invalid_argument",
            Error::Open(_) => "open",
            Error::Connect { .. } => "connect",
            Error::Refused { .. } => "refused",
            Error::Lost { .. } => "lost",
            Error::Protocol { .. } => "protocol",
            Error::TimedOut(_) => "timed_out",
            Error::Reply(_) => "reply",
            Error::Unexpected { .. } => "unexpected",
            Error::Busy(_) => "busy",
            Error::Removed(_) => "removed",
            Error::Value(_) => "value",
            Error::Recursion(_) => "recursion",
            Error::NoRuntime => "no_runtime",
            Error::Closed => "closed",
            Error::ChannelClosed => "channel_closed",
        }
    }

    #[cfg(feature = "serde")]
    #[cold]
    pub(crate) fn value(text: impl Into<Box<str>>) -> Error {
        Error::Value(text.into())
    }

    #[cold]
    pub(crate) fn url(text: impl Into<Box<str>>) -> Error {
        Error::Url(text.into())
    }

    #[cold]
    pub(crate) fn argument(text: impl Into<Box<str>>) -> Error {
        Error::InvalidArgument(text.into())
    }

    #[cold]
    pub(crate) fn reply(text: impl Into<Box<str>>) -> Error {
        Error::Reply(text.into())
    }

    #[cold]
    pub(crate) fn opening(error: &engine::Error) -> Error {
        let text = error.to_string().into_boxed_str();
        match error {
            engine::Error::Name(_) | engine::Error::Terms(_) => Error::Url(text),
            _ => Error::Open(text),
        }
    }

    /// Converts an engine error from a call on a store.
    #[cold]
    pub(crate) fn engine(store: &engine::Store, error: engine::Error) -> Error {
        match error.into() {
            Failure::Reply(error) => Error::answer(store, error.text()),
            Failure::Blocked(blocked) => blocked.into(),
        }
    }

    /// Converts an error reply from a store.
    #[cold]
    pub(crate) fn answer(store: &engine::Store, text: &str) -> Error {
        match removed_text(store, text) {
            Some(text) => Error::Removed(text.into()),
            None => Error::Reply(text.into()),
        }
    }

    #[cold]
    pub(crate) fn protocol(address: &Arc<str>, reason: impl Into<Arc<str>>) -> Error {
        Error::Protocol {
            address: address.clone(),
            reason: reason.into(),
        }
    }

    #[cold]
    pub(crate) fn garbage(address: &Arc<str>, error: ReplyError) -> Error {
        Error::protocol(address, error.to_string())
    }

    #[cold]
    pub(crate) fn lost(address: &Arc<str>, error: io::Error) -> Error {
        Error::Lost {
            address: address.clone(),
            source: Arc::new(error),
        }
    }

    #[cold]
    pub(crate) fn connecting(address: &Arc<str>, error: io::Error) -> Error {
        Error::Connect {
            address: address.clone(),
            source: Arc::new(error),
        }
    }
}

impl From<Blocked> for Error {
    #[cold]
    fn from(blocked: Blocked) -> Error {
        Error::Busy(blocked.to_string().into())
    }
}
