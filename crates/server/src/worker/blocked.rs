//! Manages the connections of one thread that are blocked on keys.
//!
//! Each thread has one seat (a futex slot in the store), at which all of its blocked connections
//! wait. The server keeps reading a blocked connection's input, so that it notices a disconnect.
//! The commands in the input run after the reply.

use std::collections::{BTreeSet, HashMap};
use std::os::fd::{AsFd, OwnedFd};
use std::time::{Duration, Instant};

use undercroft_commands::session::wait::Wait;
use undercroft_engine::waiting::{Answer, Ticket};

use crate::shared::state::{Shared, Waiting};
use crate::sockets::poll::{Interest, Poll};

/// The interval between checks of all keys on which connections are blocked (M4).
const TEND: Duration = Duration::from_millis(100);
/// The pause before retrying an action that failed because a lock was held.
const RETRY: Duration = Duration::from_millis(1);

/// The blocked connections and their deadlines.
pub(crate) struct Blocked {
    tokens: HashMap<Ticket, u64>,
    deadlines: BTreeSet<(Instant, Ticket)>,
    tend_at: Instant,
    /// The delay before retrying the actions that failed because a lock was held, or `None` if none
    /// did.
    retries: Option<Duration>,
    /// The bell: a descriptor that becomes readable when there is an answer for a blocked
    /// connection.
    bell: Option<OwnedFd>,
    /// Whether the descriptor is registered with epoll. It is registered while connections are
    /// blocked.
    listens: bool,
    /// Whether the descriptor was readable in this round.
    rung: bool,
}

impl Blocked {
    pub(crate) fn new() -> Blocked {
        Blocked {
            tokens: HashMap::new(),
            deadlines: BTreeSet::new(),
            tend_at: Instant::now(),
            retries: None,
            bell: None,
            listens: false,
            rung: false,
        }
    }

    /// Records that the descriptor was readable.
    pub(crate) fn ring(&mut self) {
        self.rung = true;
    }

    /// Adds a connection whose command has become blocked.
    pub(crate) fn add(&mut self, wait: &Wait, token: u64, shared: &Shared) {
        if self.tokens.insert(wait.ticket, token).is_some() {
            return;
        }
        if self.tokens.len() == 1 {
            self.tend_at = Instant::now() + TEND;
        }
        if let Some(deadline) = wait.deadline {
            self.deadlines.insert((deadline, wait.ticket));
        }
        shared.block(1);
    }

    fn remove(&mut self, wait: &Wait, shared: &Shared) {
        if self.tokens.remove(&wait.ticket).is_some() {
            shared.block(-1);
        }
        if let Some(deadline) = wait.deadline {
            self.deadlines.remove(&(deadline, wait.ticket));
        }
    }

    /// Removes a connection that has received its answer.
    pub(crate) fn end(&mut self, wait: &Wait, shared: &Shared) {
        self.remove(wait, shared);
    }

    /// Removes a connection that is closed while its command is blocked.
    pub(crate) fn give_up(&mut self, wait: &Wait, shared: &Shared, thread: usize) {
        self.remove(wait, shared);
        shared.waiting(thread).give_up(wait.ticket);
    }

    /// Clears all state before the store is replaced. The caller must have closed all blocked
    /// connections.
    pub(crate) fn leave(&mut self, poll: &Poll) {
        self.stop_listening(poll);
        *self = Blocked::new();
    }

    /// Returns the time of the next check, which applies if no event arrives earlier.
    pub(crate) fn next(&self, now: Instant) -> Option<Instant> {
        let retry = self.retries.map(|after| now + after);
        if self.tokens.is_empty() {
            return retry;
        }
        let deadline = self.deadlines.first().map(|(deadline, _)| *deadline);
        retry
            .into_iter()
            .chain(deadline)
            .chain([self.tend_at])
            .min()
    }

    /// Records that the thread is awake, so that other processes do not need to wake it before its
    /// next call to [`answers`](Self::answers).
    pub(crate) fn awake(&self, shared: &Shared, thread: usize) {
        if !self.tokens.is_empty() {
            shared.waiting(thread).awake();
        }
    }

    /// Returns the connections whose commands are no longer blocked, with their answers.
    pub(crate) fn answers(
        &mut self,
        shared: &Shared,
        thread: usize,
        (poll, bell_token): (&Poll, u64),
    ) -> Vec<(u64, Answer)> {
        let rung = std::mem::take(&mut self.rung);
        self.retries = shared.store().settle_waits();
        if self.tokens.is_empty() {
            self.stop_listening(poll);
            return Vec::new();
        }
        let mut waiting = shared.waiting(thread);
        self.listen(&mut waiting, (poll, bell_token));
        let mut answers = Vec::new();
        self.collect(&mut waiting, rung, &mut answers);
        let now = Instant::now();
        self.time_out(&mut waiting, now, &mut answers);
        if now >= self.tend_at {
            self.tend_at = now + TEND;
            waiting.tend();
        }
        answers
    }

    fn listen(&mut self, waiting: &mut Waiting, (poll, token): (&Poll, u64)) {
        if self.listens {
            return;
        }
        if self.bell.is_none() {
            let bell = waiting.descriptor().ok();
            self.bell = bell.and_then(|bell| bell.as_fd().try_clone_to_owned().ok());
        }
        if let Some(bell) = &self.bell {
            // If the descriptor cannot be registered, the periodic checks find the answers.
            self.listens = poll.add(bell, token, Interest::READ).is_ok();
        }
    }

    fn stop_listening(&mut self, poll: &Poll) {
        if self.listens
            && let Some(bell) = &self.bell
        {
            self.listens = poll.remove(bell).is_err();
        }
    }

    fn collect(&mut self, waiting: &mut Waiting, rung: bool, answers: &mut Vec<(u64, Answer)>) {
        let mut rung = rung;
        loop {
            let found = waiting.answered(rung);
            rung = false;
            let before = answers.len();
            let Ok(tickets) = found else {
                self.retries = Some(RETRY);
                return;
            };
            for ticket in tickets {
                let Some(token) = self.tokens.get(&ticket) else {
                    continue;
                };
                match waiting.finish(ticket) {
                    Ok(Some(answer)) => answers.push((*token, answer)),
                    Ok(None) => {}
                    Err(_) => {
                        self.retries = Some(RETRY);
                        return;
                    }
                }
            }
            // A single call may not return all answered tickets, so repeat it.
            if answers.len() == before {
                return;
            }
        }
    }

    fn time_out(&mut self, waiting: &mut Waiting, now: Instant, answers: &mut Vec<(u64, Answer)>) {
        while let Some(&(deadline, ticket)) = self.deadlines.first()
            && deadline <= now
        {
            let Some(token) = self.tokens.get(&ticket) else {
                self.deadlines.pop_first();
                continue;
            };
            match waiting.leave(ticket) {
                Ok(answer) => {
                    self.deadlines.pop_first();
                    // A connection that was answered in this round is already in the list.
                    if !answers.iter().any(|(other, _)| other == token) {
                        answers.push((*token, answer.unwrap_or(Answer::TimedOut)));
                    }
                }
                Err(_) => {
                    self.retries = Some(RETRY);
                    return;
                }
            }
        }
    }
}
