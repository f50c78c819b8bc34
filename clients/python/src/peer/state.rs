//! The server end of an in-process connection: its session, its input and its output.

use std::os::fd::{BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::time::{Duration, Instant};

use pyo3::prelude::*;
use pyo3::types::PyBytes;
use smallvec::SmallVec;
use undercroft_commands::Blocked;
use undercroft_commands::protocol::Protocol;
use undercroft_commands::session::Session;
use undercroft_embedded::{Exclusive, OpenStore};
use undercroft_engine::waiting::Answer;
use undercroft_engine::{Error, defer_signals};
use undercroft_resp::{Limits, Parsed, RequestParser, Version};
use undercroft_server::Writer;

use super::inbox::Inbox;

/// The interval at which a waiting thread checks for signals and rechecks the keys that it is
/// waiting for (M4).
pub(super) const SLICE: Duration = Duration::from_millis(100);
/// Messages are read from the ring only while fewer bytes than this are pending.
const MESSAGES: usize = 64 * 1024;
/// An empty buffer with more capacity than this, in bytes, is freed.
const KEPT: usize = 64 * 1024;

pub(super) struct State {
    shared: Arc<OpenStore>,
    pub(super) session: Session,
    pub(super) inbox: Inbox,
    parser: RequestParser,
    /// Bytes from the client. The commands in the bytes from `start` on have not run yet.
    pub(super) input: Vec<u8>,
    start: usize,
    /// Bytes for the client, which has already received the bytes before `received`.
    out: Vec<u8>,
    received: usize,
    /// Whether the connection has ended. No more commands run, and `out` contains the last bytes.
    pub(super) ended: bool,
    /// The reason why the connection ended if the store's file was removed.
    pub(super) gone: Option<String>,
    tended: Instant,
    /// The event descriptor that wakes waiting threads, and the number of waiting threads.
    pub(super) bell: Option<Arc<OwnedFd>>,
    pub(super) sleepers: usize,
}

/// The reason why commands cannot run at the moment.
pub(super) enum Obstacle {
    Lock(Blocked),
    Failure(Error),
}

impl State {
    pub(super) fn new(shared: &Arc<OpenStore>) -> State {
        State {
            shared: shared.clone(),
            session: shared.session(),
            inbox: Inbox::new(shared),
            parser: parser(),
            input: Vec::new(),
            start: 0,
            out: Vec::new(),
            received: 0,
            ended: false,
            gone: None,
            tended: Instant::now(),
            bell: None,
            sleepers: 0,
        }
    }

    /// Runs the pending commands as far as possible, and reads messages.
    pub(super) fn run(&mut self) -> Result<(), Obstacle> {
        while !self.ended && self.is_answered()? && self.step()? {}
        if self.start == self.input.len() {
            self.start = 0;
            self.input.clear();
            if self.input.capacity() > KEPT {
                self.input = Vec::new();
            }
        }
        if !self.ended && self.inbox.subscriber.is_active() {
            self.take_messages().map_err(Obstacle::Failure)?;
        }
        Ok(())
    }

    /// Runs the next command. Returns false if no command is pending.
    fn step(&mut self) -> Result<bool, Obstacle> {
        let rest = &self.input[self.start..];
        if rest.is_empty() {
            return Ok(false);
        }
        let length = match self.parser.parse(rest) {
            Ok(Parsed::Command(length)) => length,
            Ok(Parsed::Ignored(length)) => {
                self.start += length;
                return Ok(true);
            }
            Ok(Parsed::Incomplete { .. }) => return Ok(false),
            Err(error) => {
                error.reply(&mut self.out);
                self.ended = true;
                return Ok(false);
            }
        };
        let words: SmallVec<[&[u8]; 8]> = self.parser.args(rest).iter().collect();
        let before = self.out.len();
        let was_subscribed = !self.session.subscriptions.is_empty();
        self.inbox.version = version(&self.session);
        let mut writer = Writer::new(std::mem::take(&mut self.out), self.session.protocol);
        let inbox = Exclusive::new(&mut self.inbox);
        let ran = self
            .shared
            .execute_unfinished(&inbox, &mut self.session, &words, &mut writer);
        drop((words, inbox));
        self.out = writer.out;
        if let Err(blocked) = ran {
            // Reset the parser, because the retry parses the command again.
            self.parser = parser();
            return Err(Obstacle::Lock(blocked));
        }
        self.start += length;
        if self.session.waiting.is_none() {
            self.finish(before, was_subscribed)?;
        }
        Ok(true)
    }

    /// Completes a command whose reply begins at `before`.
    fn finish(&mut self, before: usize, was_subscribed: bool) -> Result<(), Obstacle> {
        if !self.session.finish_command() {
            self.out.truncate(before);
        }
        if was_subscribed {
            // Insert the messages that the connection published to itself before the reply.
            self.inbox.take_all().map_err(Obstacle::Failure)?;
        }
        if !self.inbox.messages.is_empty() {
            let reply = self.out.split_off(before);
            self.out.append(&mut self.inbox.messages);
            self.out.extend_from_slice(&reply);
        }
        self.ended |= self.session.replies.close_after || self.inbox.lost;
        if self.out.get(before) == Some(&b'-') && self.shared.store.removed() {
            let text = String::from_utf8_lossy(&self.out[before + 1..]).into_owned();
            let reason = text.split_once(' ').map_or(&*text, |(_, reason)| reason);
            self.gone = Some(reason.trim_end().to_owned());
            self.out.truncate(before);
            self.ended = true;
        }
        Ok(())
    }

    /// Whether no command is blocked. The reply to a blocked command is written once its wait ends.
    fn is_answered(&mut self) -> Result<bool, Obstacle> {
        let Some(wait) = self.session.waiting else {
            return Ok(true);
        };
        let now = Instant::now();
        if now - self.tended >= SLICE {
            self.tended = now;
            self.inbox.waiters.tend();
        }
        // Defer signals, so that their handlers run after this check. If a lock is held, the check
        // fails instead of blocking.
        let deferred = defer_signals();
        let answer = self.answer(&wait);
        drop(deferred);
        match answer {
            Ok(None) => Ok(false),
            Ok(Some(answer)) => {
                self.session.waiting = None;
                let before = self.out.len();
                let mut writer = Writer::new(std::mem::take(&mut self.out), self.session.protocol);
                wait.answer(&answer, &mut writer);
                self.out = writer.out;
                self.finish(before, !self.session.subscriptions.is_empty())?;
                Ok(true)
            }
            Err(error) if error.is_busy() => Ok(false),
            Err(error) => Err(Obstacle::Failure(error)),
        }
    }

    fn answer(
        &mut self,
        wait: &undercroft_commands::session::wait::Wait,
    ) -> Result<Option<Answer>, Error> {
        let waiters = &mut self.inbox.waiters;
        // The descriptor becomes readable again when the next answer arrives.
        waiters.answered(true)?;
        if let Some(answer) = waiters.finish(wait.ticket)? {
            return Ok(Some(answer));
        }
        match wait.deadline {
            Some(deadline) if deadline <= Instant::now() => {
                let answer = waiters.leave(wait.ticket)?;
                Ok(Some(answer.unwrap_or(Answer::TimedOut)))
            }
            _ => Ok(None),
        }
    }

    /// Reads messages up to a limit. Further messages remain in the ring.
    fn take_messages(&mut self) -> Result<(), Error> {
        self.inbox.version = version(&self.session);
        let mut rung = true;
        while self.pending() + self.inbox.messages.len() < MESSAGES && self.inbox.take(rung)? {
            rung = false;
        }
        self.out.append(&mut self.inbox.messages);
        // End the connection after lost messages, as a server disconnects a slow client.
        self.ended |= self.inbox.lost;
        Ok(())
    }

    /// Returns the number of bytes that have not been received yet.
    pub(super) fn pending(&self) -> usize {
        self.out.len() - self.received
    }

    /// Removes and returns at most `most` of the pending bytes.
    pub(super) fn receive<'py>(&mut self, py: Python<'py>, most: usize) -> Bound<'py, PyBytes> {
        let end = self.out.len().min(self.received.saturating_add(most));
        let bytes = PyBytes::new(py, &self.out[self.received..end]);
        self.received = end;
        if end == self.out.len() {
            self.received = 0;
            self.out.clear();
            if self.out.capacity() > KEPT {
                self.out = Vec::new();
            }
        }
        bytes
    }

    /// Returns the descriptors that become readable when bytes may be available.
    pub(super) fn descriptors(&mut self) -> Result<SmallVec<[BorrowedFd<'_>; 2]>, Error> {
        let mut all = SmallVec::new();
        if self.session.waiting.is_some() {
            all.push(self.inbox.waiters.descriptor()?);
        }
        if self.inbox.subscriber.is_active() {
            all.push(self.inbox.subscriber.descriptor()?);
        }
        Ok(all)
    }

    /// Returns the deadline of a blocked command.
    pub(super) fn deadline(&self) -> Option<Instant> {
        self.session.waiting.and_then(|wait| wait.deadline)
    }

    /// Wakes the threads that wait to receive.
    pub(super) fn ring(&self) {
        if let (Some(bell), 1..) = (&self.bell, self.sleepers) {
            // Ignore a failed write: it means that the counter is full, and the descriptor is then
            // readable.
            let _ = rustix::io::write(bell, &1_u64.to_ne_bytes());
        }
    }
}

fn version(session: &Session) -> Version {
    match session.protocol {
        Protocol::Resp2 => Version::Resp2,
        Protocol::Resp3 => Version::Resp3,
    }
}

fn parser() -> RequestParser {
    RequestParser::new(Limits {
        authenticated: true,
        ..Limits::default()
    })
}
