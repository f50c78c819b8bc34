//! Implements subscriptions with blocking calls, for threads.

use std::fmt;
use std::sync::Arc;
use std::thread::sleep;
use std::time::{Duration, Instant};

use crate::address::Server;
use crate::error::{Error, Result};
use crate::message::{Event, check_names};
use crate::observe;
use crate::options::CacheOptions;
use crate::remote::backoff::Backoff;
use crate::remote::blocking::{Connection, is_late};
use crate::remote::both::{check_confirmation, message};
use crate::remote::commands::with;

/// An iterator over the messages of a subscription, with blocking calls (see
/// [`Pool::subscribe`](crate::Pool::subscribe)).
///
/// The subscription has a separate connection and survives the loss of that connection. An error
/// reports why the connection was lost, and the next call tries to reconnect. [`Event::Lost`] is
/// the first event of a new connection. The iterator never ends. Dropping it ends the subscription.
///
/// ```
/// # use undercroft::{CacheOptions, Pool};
/// # let served = undercroft_served::Served::start();
/// # let pool = Pool::open(&served.url(), CacheOptions::new())?;
/// let news = pool.subscribe(&["news"])?;
/// for text in ["one", "two"] {
///     pool.publish("news", text)?;
/// }
/// assert!(news.take(2).all(|event| event.is_ok()));
/// # Ok::<(), undercroft::Error>(())
/// ```
pub struct Messages {
    server: Arc<Server>,
    options: CacheOptions,
    command: &'static [u8],
    names: Vec<Vec<u8>>,
    connection: Option<Connection>,
    backoff: Backoff,
    /// The time at which the last input arrived or the last request was sent.
    heard: Instant,
    /// Whether a PING to the server is pending.
    is_asked: bool,
    /// The time until which no connection is attempted.
    pause_end: Option<Instant>,
}

impl Messages {
    pub(crate) fn new(
        server: Arc<Server>,
        options: CacheOptions,
        command: &'static [u8],
        names: Vec<Vec<u8>>,
    ) -> Result<Messages> {
        let words: Vec<&[u8]> = names.iter().map(Vec::as_slice).collect();
        check_names(&words)?;
        let mut messages = Messages {
            server,
            options,
            command,
            names,
            connection: None,
            backoff: Backoff::default(),
            heard: Instant::now(),
            is_asked: false,
            pause_end: None,
        };
        messages.connect()?;
        Ok(messages)
    }

    /// Returns the next event, or `None` if no event arrives within a time limit. Reconnecting may
    /// add up to the pool's deadline.
    ///
    /// ```
    /// use std::time::Duration;
    /// # use undercroft::{CacheOptions, Pool};
    /// # let served = undercroft_served::Served::start();
    /// # let pool = Pool::open(&served.url(), CacheOptions::new())?;
    /// let mut news = pool.subscribe(&["news"])?;
    /// assert!(news.next_within(Duration::from_millis(1)).is_none());
    /// pool.publish("news", "hello")?;
    /// assert!(news.next_within(Duration::from_secs(60)).is_some());
    /// # Ok::<(), undercroft::Error>(())
    /// ```
    pub fn next_within(&mut self, time: Duration) -> Option<Result<Event>> {
        // A time of more than a year is treated as a year, because adding it to an instant could
        // overflow.
        let until = Instant::now() + time.min(Duration::from_secs(365 * 24 * 3600));
        while let Some(connection) = &mut self.connection {
            let silent = self.heard + self.options.silence;
            match connection.receive(until.min(silent)) {
                Ok(value) => {
                    self.heard = Instant::now();
                    self.is_asked = false;
                    if let Some(message) = message(value) {
                        return Some(Ok(Event::Message(message)));
                    }
                }
                Err(error) if is_late(&error) && !self.is_silent() => {
                    if Instant::now() >= until {
                        return None;
                    }
                }
                // A PING detects a server that disappeared without closing the connection.
                Err(error) if is_late(&error) && !self.is_asked => self.ask(),
                Err(error) => self.lose(&error),
            }
        }
        if let Some(end) = self.pause_end {
            sleep(end.min(until).saturating_duration_since(Instant::now()));
            if end > until {
                return None;
            }
        }
        Some(self.connect().map(|()| Event::Lost(None)))
    }

    fn is_silent(&self) -> bool {
        self.heard.elapsed() >= self.options.silence
    }

    fn ask(&mut self) {
        self.is_asked = true;
        self.heard = Instant::now();
        let until = self.heard + self.options.silence;
        if let Some(Err(error)) = self
            .connection
            .as_mut()
            .map(|it| it.send(&[b"PING"], until))
        {
            self.lose(&error);
        }
    }

    fn lose(&mut self, error: &Error) {
        observe::disconnected(&self.server.name, error);
        self.connection = None;
    }

    /// Connects and subscribes. The subscription receives every message that is published after the
    /// call returns. After a failure, a pause precedes the next attempt.
    fn connect(&mut self) -> Result<()> {
        match self.connected() {
            Ok(connection) => {
                observe::connected(&self.server.name);
                self.connection = Some(connection);
                self.heard = Instant::now();
                self.is_asked = false;
                self.backoff = Backoff::default();
                self.pause_end = None;
                Ok(())
            }
            Err(error) => {
                observe::disconnected(&self.server.name, &error);
                self.pause_end = Some(Instant::now() + self.backoff.pause());
                Err(error)
            }
        }
    }

    fn connected(&self) -> Result<Connection> {
        let until = Instant::now() + self.options.deadline;
        let mut connection = Connection::open(&self.server, until)?;
        let names: Vec<&[u8]> = self.names.iter().map(Vec::as_slice).collect();
        connection.send(&with(self.command, &names), until)?;
        for _ in &names {
            let value = connection.receive(until);
            check_confirmation(&self.server, &value?)?;
        }
        Ok(connection)
    }
}

impl Iterator for Messages {
    type Item = Result<Event>;

    /// Waits for the next event without a time limit.
    fn next(&mut self) -> Option<Result<Event>> {
        loop {
            if let Some(event) = self.next_within(Duration::MAX) {
                return Some(event);
            }
        }
    }
}

impl fmt::Debug for Messages {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Messages")
            .field("server", &self.server.name)
            .finish()
    }
}
