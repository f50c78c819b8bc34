//! How a cache reaches its server.

use std::time::Duration;

/// How many connections a pool has, unless told otherwise.
const POOLED: usize = 16;

/// How a cache reaches its server.
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
    /// One shared connection (a pool: 16), a deadline of 5 seconds, 10 seconds of silence, a queue of 4 MiB.
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

    /// How many connections there are, at most.
    ///
    /// ```
    /// let options = undercroft::CacheOptions::new().connections(4);
    /// ```
    #[must_use]
    pub const fn connections(mut self, connections: usize) -> CacheOptions {
        self.connections = connections;
        self
    }

    /// How many of them a pool has.
    pub(crate) fn pooled(&self) -> usize {
        match self.connections {
            0 => POOLED,
            connections => connections,
        }
    }

    /// How long a call may take, whatever it waits for. So long may connecting take, too.
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

    /// How long a server may say nothing while replies are awaited, before the connection is given up and another one
    /// made.
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

    /// How many bytes of commands may be under way on a shared connection. Calls beyond that wait for their turn.
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
