//! A replica, as all threads see it.

use std::io;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU8, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use undercroft_commands::context::ReplicaFacts;
use undercroft_commands::session::Login;
use undercroft_commands::users::Users;

use crate::shared::limits::OutputLimit;
use crate::shared::registry::Card;
use crate::sockets::poll::Waker;

/// The state of a replica's connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stage {
    /// The data set is being copied.
    Copying = 0,
    /// The data set is being sent.
    DataSet = 1,
    /// The data set was sent. The replica has not acknowledged it yet.
    Loading = 2,
    /// The replica has the data set, and receives changes as they arrive.
    Online = 3,
}

/// A connected replica.
#[derive(Debug)]
pub(crate) struct Replica {
    pub(crate) address: String,
    pub(crate) port: u16,
    /// Whether the replica acknowledges what it has received. Replicas that sent SYNC do not.
    pub(crate) acknowledges: bool,
    stage: AtomicU8,
    /// The number of bytes of the stream that were sent.
    sent: AtomicU64,
    acknowledged: AtomicU64,
    /// The time of the last acknowledgement in Unix milliseconds.
    heard: AtomicI64,
    /// The time since which too many bytes wait to be sent, in Unix milliseconds, or 0.
    above_since: AtomicI64,
    /// Whether the connection must be closed.
    is_dropped: AtomicBool,
    /// The card of the connection, for CLIENT KILL.
    card: Arc<Card>,
    login: Mutex<Login>,
    /// Wakes the thread that serves the replica.
    pub(crate) waker: Waker,
}

impl Replica {
    pub(crate) fn new(
        (address, port): (String, u16),
        acknowledges: bool,
        (card, login): (Arc<Card>, Login),
        now: i64,
    ) -> io::Result<Replica> {
        Ok(Replica {
            address,
            port,
            acknowledges,
            stage: AtomicU8::new(Stage::Copying as u8),
            sent: AtomicU64::new(0),
            acknowledged: AtomicU64::new(0),
            heard: AtomicI64::new(now),
            above_since: AtomicI64::new(0),
            card,
            login: Mutex::new(login),
            is_dropped: AtomicBool::new(false),
            waker: Waker::new()?,
        })
    }

    /// Looks up the user of the connection again, and closes the connection if it was deleted.
    pub(crate) fn check_user(&self, users: &Users, stamp: u64) {
        let mut login = self.login.lock().unwrap_or_else(PoisonError::into_inner);
        login.refresh(users, stamp);
        if login.has_ended() {
            self.drop_connection();
        }
    }

    pub(crate) fn set_stage(&self, stage: Stage) {
        self.stage.store(stage as u8, Ordering::Release);
    }

    /// Returns whether the replica has the data set of the current stream, and is not about to be
    /// closed.
    pub(crate) fn is_online(&self) -> bool {
        self.stage.load(Ordering::Acquire) == Stage::Online as u8 && !self.is_dropped()
    }

    /// Records the number of bytes of the stream that were sent.
    pub(crate) fn set_sent(&self, offset: u64) {
        self.sent.store(offset, Ordering::Release);
    }

    pub(crate) fn sent(&self) -> u64 {
        self.sent.load(Ordering::Acquire)
    }

    /// Records that the replica has received the stream up to an offset, and thereby the data set.
    pub(crate) fn acknowledge(&self, offset: u64, now: i64) {
        self.acknowledged.store(offset, Ordering::Release);
        self.hear(now);
        self.set_stage(Stage::Online);
    }

    /// Records that bytes have arrived from the replica.
    pub(crate) fn hear(&self, now: i64) {
        self.heard.store(now, Ordering::Release);
    }

    /// Returns whether the replica should send something at least once per second.
    pub(crate) fn should_answer(&self) -> bool {
        self.acknowledges && self.stage.load(Ordering::Acquire) >= Stage::Loading as u8
    }

    pub(crate) fn acknowledged(&self) -> u64 {
        self.acknowledged.load(Ordering::Acquire)
    }

    /// Returns the time of the last acknowledgement in Unix milliseconds.
    pub(crate) fn heard(&self) -> i64 {
        self.heard.load(Ordering::Acquire)
    }

    /// Returns the time since the last acknowledgement in seconds.
    pub(crate) fn lag(&self, now: i64) -> u64 {
        (now - self.heard.load(Ordering::Acquire)).max(0) as u64 / 1000
    }

    /// Makes the thread that serves the replica close its connection.
    pub(crate) fn drop_connection(&self) {
        self.is_dropped.store(true, Ordering::Release);
        self.waker.wake();
    }

    pub(crate) fn is_dropped(&self) -> bool {
        self.is_dropped.load(Ordering::Acquire) || self.card.killed.load(Ordering::Acquire)
    }

    /// Records whether too many bytes wait to be sent. Returns whether they have for too long. Only
    /// the publisher calls this.
    pub(crate) fn is_above(&self, is_above: bool, limit: &OutputLimit, now: i64) -> bool {
        let since = match (is_above, self.above_since.load(Ordering::Relaxed)) {
            (false, _) => 0,
            (true, 0) => now,
            (true, since) => since,
        };
        self.above_since.store(since, Ordering::Relaxed);
        since != 0 && now - since > limit.seconds.saturating_mul(1000)
    }

    pub(crate) fn facts(&self, now: i64) -> ReplicaFacts {
        ReplicaFacts {
            address: self.address.clone(),
            port: self.port,
            state: match self.stage.load(Ordering::Acquire) {
                0 => "wait_bgsave",
                1 | 2 => "send_bulk",
                _ => "online",
            },
            offset: self.acknowledged(),
            lag: self.lag(now),
        }
    }
}
