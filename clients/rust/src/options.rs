//! Defines the connection options for caches on a server.

use std::time::Duration;

/// The default number of connections in a pool.
const POOLED: usize = 16;

/// Connection options for a cache on a server.
///
/// ```
/// use std::time::Duration;
/// use undercroft::CacheOptions;
/// let options = CacheOptions::new()
///     .connections(2)
///     .deadline(Duration::from_millis(250));
/// ```
#[derive(Clone, Copy, Debug)]
pub struct CacheOptions {
    pub(crate) connections: usize,
    pub(crate) deadline: Duration,
    pub(crate) silence: Duration,
    pub(crate) queue: usize,
}

impl Default for CacheOptions {
    fn default() -> CacheOptions {
        CacheOptions::new()
    }
}

impl CacheOptions {
    /// Returns the defaults: one shared connection (16 in a pool), a deadline of 5 seconds, at most
    /// 10 seconds of silence from the server, and a queue of 4 MiB.
    ///
    /// ```
    /// let options = undercroft::CacheOptions::new();
    /// ```
    pub const fn new() -> CacheOptions {
        CacheOptions {
            connections: 0,
            deadline: Duration::from_secs(5),
            silence: Duration::from_secs(10),
            queue: 4 << 20,
        }
    }

    /// Sets the maximum number of connections.
    ///
    /// ```
    /// let options = undercroft::CacheOptions::new().connections(4);
    /// ```
    #[must_use]
    pub const fn connections(mut self, connections: usize) -> CacheOptions {
        self.connections = connections;
        self
    }

    /// Returns the maximum number of connections in a pool.
    pub(crate) fn pooled(&self) -> usize {
        match self.connections {
            0 => POOLED,
            connections => connections,
        }
    }

    /// Sets how long a call may take, including all waiting. Connecting has the same time limit.
    ///
    /// ```
    /// use std::time::Duration;
    /// let options = undercroft::CacheOptions::new().deadline(Duration::from_millis(100));
    /// ```
    #[must_use]
    pub const fn deadline(mut self, deadline: Duration) -> CacheOptions {
        self.deadline = deadline;
        self
    }

    /// Sets how long a server may stay silent while replies are pending. After this time the
    /// connection is closed and replaced.
    ///
    /// ```
    /// use std::time::Duration;
    /// let options = undercroft::CacheOptions::new().silence(Duration::from_secs(1));
    /// ```
    #[must_use]
    pub const fn silence(mut self, silence: Duration) -> CacheOptions {
        self.silence = silence;
        self
    }

    /// Sets how many bytes of commands may be in flight on a shared connection. Further calls wait
    /// for their turn.
    ///
    /// ```
    /// let options = undercroft::CacheOptions::new().queue(64 << 10);
    /// ```
    #[must_use]
    pub const fn queue(mut self, bytes: usize) -> CacheOptions {
        self.queue = bytes;
        self
    }
}
