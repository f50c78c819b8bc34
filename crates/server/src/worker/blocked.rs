//! Connections of one thread whose command waits for keys.
//!
//! Each thread has one seat in the store at which all of them wait. The connection is set aside meanwhile: what it sends
//! is read and kept, so that its end is noticed, and run once it is answered.

use std::collections::{BTreeSet, HashMap};
use std::os::fd::{AsFd, OwnedFd};
use std::time::{Duration, Instant};

use undercroft_commands::session::wait::Wait;
use undercroft_engine::waiting::{Answer, Ticket};

use crate::shared::state::{Shared, Waiting};
use crate::sockets::poll::{Interest, Poll};

/// Between two looks at all keys that are waited for (M4).
const TEND: Duration = Duration::from_millis(100);
/// Between two tries of what a lock stood in the way of.
const RETRY: Duration = Duration::from_millis(1);

/// Who waits, and until when.
pub(crate) struct Blocked {
    tokens: HashMap<Ticket, u64>,
    deadlines: BTreeSet<(Instant, Ticket)>,
    tend_at: Instant,
    /// Something stands in the way of something: it is tried again after this time.
    retries: Option<Duration>,
    /// Readable when somebody is answered.
    bell: Option<OwnedFd>,
    /// Whether the bell is in the epoll instance: while somebody waits.
    listens: bool,
    /// It was readable in this round.
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

    /// The bell was readable.
    pub(crate) fn ring(&mut self) {
        self.rung = true;
    }

    /// A connection begins to wait.
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

    /// A connection is answered.
    pub(crate) fn end(&mut self, wait: &Wait, shared: &Shared) {
        self.remove(wait, shared);
    }

    /// A connection is closed while it waits.
    pub(crate) fn give_up(&mut self, wait: &Wait, shared: &Shared, thread: usize) {
        self.remove(wait, shared);
        shared.waiting(thread).give_up(wait.ticket);
    }

    /// Leaves a store that is to be changed for another one. No connection waits any more.
    pub(crate) fn leave(&mut self, poll: &Poll) {
        self.stop_listening(poll);
        *self = Blocked::new();
    }

    /// When the next look is due, where nothing happens before.
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

    /// The thread is awake: until its next [`answers`](Self::answers) nobody need wake it.
    pub(crate) fn awake(&self, shared: &Shared, thread: usize) {
        if !self.tokens.is_empty() {
            shared.waiting(thread).awake();
        }
    }

    /// The connections whose wait is over, with their answers.
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
            // Where it cannot be added, the regular looks stand in for it.
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
            // There may be more than are found at once.
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
                    // One that was answered just now is in the list already.
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
