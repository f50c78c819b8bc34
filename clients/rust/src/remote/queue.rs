//! Queues the commands of many callers on one connection, and matches replies to callers.
//!
//! A caller appends its command to the output buffer and reserves a *slot* for its reply. The order
//! of the commands is a queue of *places*, each of which names a slot. The connection's task
//! removes all commands from the buffer together, and assigns replies to the places from the front.
//! If a call is cancelled, its place remains in the queue. The reply for that place is discarded,
//! and only then is the slot reused. Therefore no reply can reach the wrong caller.
//!
//! A budget limits the bytes in flight. Callers that exceed the budget wait in first-come,
//! first-served order. The queue also limits the commands in flight so that their expected replies
//! stay below `ASKED` bytes, as estimated from previous replies. More commands in flight would make
//! the server buffer megabytes of replies, which slows the server down without making any reply
//! arrive sooner.

use std::collections::VecDeque;
use std::future::Future;
use std::marker::PhantomData;
use std::pin::Pin;
use std::sync::{Arc, PoisonError};
use std::task::{Context, Poll, Waker, ready};
use std::time::Duration;

use slab::Slab;
use tokio::sync::{Notify, Semaphore, TryAcquireError};
use tokio::time::{Instant, timeout_at};
use undercroft_resp::encode;

use super::sync::{Mutex, MutexGuard};
use crate::command::{FromReply, Reply};
use crate::error::{Error, Result};

/// The number of bytes in a unit of the budget. A command costs one unit, plus one unit for each
/// `UNIT` bytes.
const UNIT: usize = 256;
/// The maximum number of reply bytes in flight, as estimated from previous replies.
const ASKED: usize = 512 << 10;
/// The number of commands that may be in flight regardless of the size of their replies.
const FEW: usize = 16;
/// The size in bytes up to which an output buffer is reused after its commands were sent.
const KEPT: usize = 1 << 20;
/// The maximum delay of a deadline check. Deadlines within this time share a check.
const LATE: Duration = Duration::from_millis(5);

/// The state that callers share with the connection's task.
pub(crate) struct Queue {
    state: Mutex<State>,
    budget: Semaphore,
    /// The size of the budget in units.
    units: u32,
    /// The time limit of a call.
    deadline: Duration,
    /// The time from which deadlines are measured.
    start: Instant,
    /// A notification that the connection's task has ended.
    ended: Notify,
}

#[derive(Default)]
struct State {
    /// The encoded commands that the connection's task has not yet taken.
    output: Vec<u8>,
    /// The places of the commands in `output`.
    unsent: VecDeque<Place>,
    /// The places of the commands that the task has taken and whose replies are pending.
    sent: VecDeque<Place>,
    slots: Slab<Slot>,
    /// The waker of the connection's task.
    task: Option<Waker>,
    /// The time of the next deadline check.
    look_at: Option<Instant>,
    /// The moving average of the reply size in bytes.
    reply_bytes: usize,
    is_closing: bool,
    is_ended: bool,
}

/// A place: the position of one command in the order of all commands.
struct Place {
    slot: u32,
    /// The cost of the command in units of the budget.
    units: u32,
    /// The command's size in `output`, in bytes.
    bytes: usize,
}

/// A slot, in which the task stores a reply for a caller.
struct Slot {
    reply: Expected,
    /// The deadline in microseconds since the creation of the queue, which needs half the memory of
    /// an `Instant`.
    deadline: u64,
    /// Whether a place refers to the slot.
    has_place: bool,
    /// Whether a caller waits for the reply.
    has_caller: bool,
}

/// The state of a reply: pending, or stored for its caller.
enum Expected {
    /// The reply is pending. Contains the caller's waker once the caller has been polled.
    Awaited(Option<Waker>),
    Left(Result<Reply>),
}

impl Expected {
    fn is_awaited(&self) -> bool {
        matches!(self, Expected::Awaited(_))
    }

    /// Stores an outcome for the caller. Returns the caller's waker.
    fn leave(&mut self, outcome: Result<Reply>) -> Option<Waker> {
        match std::mem::replace(self, Expected::Left(outcome)) {
            Expected::Awaited(waker) => waker,
            Expected::Left(_) => None,
        }
    }
}

/// The state of the queue, as reported to the connection's task when it takes commands to send.
pub(crate) struct Taken {
    /// The time at which to call [`Queue::expire`].
    pub(crate) look_at: Option<Instant>,
    /// Whether no earlier command had a pending reply.
    pub(crate) was_idle: bool,
    /// Whether exactly one command is in flight.
    pub(crate) is_lone: bool,
    /// Whether the queue is closed and no command remains.
    pub(crate) is_over: bool,
}

impl Queue {
    /// Creates a queue with a budget in bytes and a time limit for each call.
    pub(crate) fn new(bytes: usize, deadline: Duration) -> Queue {
        let units = (bytes / UNIT).clamp(1, u32::MAX as usize >> 3) as u32;
        Queue {
            state: Mutex::default(),
            budget: Semaphore::new(units as usize),
            units,
            deadline,
            start: Instant::now(),
            ended: Notify::new(),
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sends a command and waits for its reply.
    pub(crate) fn call<'a, W: Words<'a>>(&'a self, words: W) -> Call<'a, W> {
        Call {
            queue: self,
            step: Step::Begins(words),
        }
    }

    /// Waits until the budget has room for a command, and sends the command. Returns its slot.
    async fn push_later<'a>(
        &'a self,
        words: impl Words<'a>,
        units: u32,
        deadline: Instant,
    ) -> Result<u32> {
        let acquired = timeout_at(deadline, self.budget.acquire_many(units)).await;
        let acquired = acquired.map_err(|_| Error::TimedOut(self.deadline))?;
        acquired.map_err(|_| Error::Closed)?.forget();
        words.with(|words| self.push(words, units, deadline))
    }

    fn poll(&self, at: u32, cx: &Context<'_>) -> Poll<Result<Reply>> {
        let mut state = self.state();
        let slot = &mut state.slots[at as usize];
        match &mut slot.reply {
            Expected::Left(outcome) => {
                // The slot retains an outcome while it has a place, so that a later reply is not
                // stored in it.
                Poll::Ready(std::mem::replace(outcome, Err(Error::Closed)))
            }
            Expected::Awaited(waker) => {
                let is_known = |waker: &Waker| waker.will_wake(cx.waker());
                if !waker.as_ref().is_some_and(is_known) {
                    // Dropping a waker may drop a caller, which locks the queue. Drop the old waker
                    // only after unlocking.
                    let old = waker.replace(cx.waker().clone());
                    drop(state);
                    drop(old);
                }
                Poll::Pending
            }
        }
    }

    /// Cancels the call that owns a slot.
    fn give_up(&self, at: u32) {
        let mut state = self.state();
        let slot = &mut state.slots[at as usize];
        slot.has_caller = false;
        let waker = match &mut slot.reply {
            Expected::Awaited(waker) => waker.take(),
            Expected::Left(_) => None,
        };
        let removed = (!slot.has_place).then(|| state.slots.remove(at as usize));
        drop(state);
        drop((waker, removed));
    }

    /// Returns the microseconds between the start of the queue and `at`.
    fn clock(&self, at: Instant) -> u64 {
        let since = at.saturating_duration_since(self.start).as_micros();
        u64::try_from(since).unwrap_or(u64::MAX)
    }

    /// Appends a command whose units have already been subtracted from the budget. Returns the
    /// command's slot.
    fn push(&self, words: &[&[u8]], units: u32, deadline: Instant) -> Result<u32> {
        let mut state = self.state();
        if state.is_closing {
            drop(state);
            self.budget.add_permits(units as usize);
            return Err(Error::Closed);
        }
        let before = state.output.len();
        encode::command(&mut state.output, words);
        let bytes = state.output.len() - before;
        let slot = state.slots.insert(Slot {
            reply: Expected::Awaited(None),
            deadline: self.clock(deadline),
            has_place: true,
            has_caller: true,
        });
        // The cast is lossless: each slot belongs to a call or a place in memory, so fewer than
        // 2^32 slots exist.
        let slot = slot as u32;
        state.unsent.push_back(Place { slot, units, bytes });
        if state.look_at.is_none_or(|at| deadline < at) {
            state.look_at = Some(deadline);
        }
        // Only the first command since the task's last check wakes the task.
        let task = state.task.take();
        drop(state);
        if let Some(task) = task {
            task.wake();
        }
        Ok(slot)
    }

    /// Moves the commands to the empty buffer `output` of the connection's task. Commands that
    /// arrive later wake the task.
    pub(crate) fn take(&self, output: &mut Vec<u8>, cx: &Context<'_>) -> Taken {
        let mut state = self.state();
        let was_idle = state.sent.is_empty();
        state.hand_over(output);
        state.wake_by(cx);
        Taken {
            look_at: state.look_at,
            was_idle: was_idle && !state.sent.is_empty(),
            is_lone: was_idle && state.sent.len() == 1 && state.unsent.is_empty(),
            is_over: state.is_closing && state.sent.is_empty(),
        }
    }

    /// Returns whether [`take`](Self::take) has commands to move.
    pub(crate) fn has_output(&self) -> bool {
        !self.state().output.is_empty()
    }

    /// Assigns replies with a total length of `bytes` to the places at the front. Returns false if
    /// the replies outnumber the places.
    pub(crate) fn answer(
        &self,
        replies: &mut Vec<Result<Reply>>,
        bytes: usize,
        wakers: &mut Vec<Waker>,
    ) -> bool {
        let mut state = self.state();
        let mean = bytes / replies.len().max(1);
        state.reply_bytes = (state.reply_bytes * 3 + mean) / 4;
        let (mut units, mut is_asked) = (0, true);
        for reply in replies.drain(..) {
            match state.sent.pop_front() {
                Some(place) => {
                    units += place.units as usize;
                    state.leave(place, reply, wakers);
                }
                None => is_asked = false,
            }
        }
        drop(state);
        self.budget.add_permits(units);
        wakers.drain(..).for_each(Waker::wake);
        is_asked
    }

    /// Fails the calls whose replies were pending on the lost connection.
    pub(crate) fn fail_sent(&self, error: &Error) {
        self.fail(error, |state| std::mem::take(&mut state.sent));
    }

    /// Fails all calls.
    pub(crate) fn fail_all(&self, error: &Error) {
        self.fail(error, |state| {
            state.output = Vec::new();
            let mut places = std::mem::take(&mut state.sent);
            places.append(&mut state.unsent);
            places
        });
    }

    fn fail(&self, error: &Error, which: impl FnOnce(&mut State) -> VecDeque<Place>) {
        let mut state = self.state();
        let (mut units, mut wakers) = (0, Vec::new());
        for place in which(&mut state) {
            units += place.units as usize;
            state.leave(place, Err(error.clone()), &mut wakers);
        }
        drop(state);
        self.budget.add_permits(units);
        wakers.into_iter().for_each(Waker::wake);
    }

    /// Removes the unsent commands of cancelled calls, before a new connection sends the remaining
    /// commands.
    pub(crate) fn forget_cancelled(&self) {
        let mut state = self.state();
        let State {
            output,
            unsent,
            slots,
            ..
        } = &mut *state;
        let (mut kept, mut at, mut units) = (Vec::new(), 0, 0);
        unsent.retain(|place| {
            let bytes = &output[at..at + place.bytes];
            at += place.bytes;
            let slot = &mut slots[place.slot as usize];
            let is_wanted = slot.has_caller && slot.reply.is_awaited();
            if is_wanted {
                kept.extend_from_slice(bytes);
                return true;
            }
            units += place.units as usize;
            slot.has_place = false;
            if !slot.has_caller {
                slots.remove(place.slot as usize);
            }
            false
        });
        *output = kept;
        drop(state);
        self.budget.add_permits(units);
    }

    /// Returns whether no reply is pending.
    pub(crate) fn is_answered(&self) -> bool {
        self.state().sent.is_empty()
    }

    /// Fails the calls whose deadline has passed.
    pub(crate) fn expire(&self, now: Instant) {
        let mut state = self.state();
        let clock = self.clock(now);
        let (mut next, mut wakers) = (None::<u64>, Vec::new());
        for (_, slot) in &mut state.slots {
            if !slot.reply.is_awaited() || !slot.has_caller {
                continue;
            }
            if slot.deadline <= clock {
                wakers.extend(slot.reply.leave(Err(Error::TimedOut(self.deadline))));
            } else {
                next = Some(next.map_or(slot.deadline, |next| next.min(slot.deadline)));
            }
        }
        let left = next.map(|next| Duration::from_micros(next - clock));
        state.look_at = left.map(|left| now + left.max(LATE));
        drop(state);
        wakers.into_iter().for_each(Waker::wake);
    }

    /// Returns the state of the queue without taking commands. The task is woken when it can end,
    /// and when the next deadline changes.
    pub(crate) fn look(&self, cx: &Context<'_>) -> Taken {
        let mut state = self.state();
        state.wake_by(cx);
        Taken {
            look_at: state.look_at,
            was_idle: false,
            is_lone: false,
            is_over: state.is_closing && state.sent.is_empty() && state.unsent.is_empty(),
        }
    }

    /// Refuses new calls. The connection's task ends once the calls in progress have completed.
    pub(crate) fn close(&self) {
        self.budget.close();
        let mut state = self.state();
        state.is_closing = true;
        let task = state.task.take();
        drop(state);
        if let Some(task) = task {
            task.wake();
        }
    }

    /// Returns whether no call remains and the budget is fully available.
    #[cfg(test)]
    #[allow(dead_code, reason = "only the models' copy of the queue calls it")]
    pub(crate) fn is_empty(&self) -> bool {
        let state = self.state();
        let has_no_calls = state.slots.is_empty() && state.sent.is_empty();
        // A closed semaphore issues no permits but still counts them.
        has_no_calls && self.budget.available_permits() == self.units as usize
    }

    /// Waits until the connection's task has ended.
    pub(crate) async fn ended(&self) {
        loop {
            let ended = self.ended.notified();
            if self.state().is_ended {
                return;
            }
            ended.await;
        }
    }
}

impl State {
    /// Moves commands to the empty buffer `output` of the connection's task, up to the limit of
    /// commands in flight.
    fn hand_over(&mut self, output: &mut Vec<u8>) {
        let most = (ASKED / self.reply_bytes.max(1)).max(FEW);
        let count = most.saturating_sub(self.sent.len()).min(self.unsent.len());
        if output.capacity() > KEPT {
            *output = Vec::new();
        }
        if count == self.unsent.len() {
            std::mem::swap(&mut self.output, output);
            self.sent.append(&mut self.unsent);
        } else {
            let places = self.unsent.range(..count);
            let bytes: usize = places.map(|place| place.bytes).sum();
            output.extend(self.output.drain(..bytes));
            self.sent.extend(self.unsent.drain(..count));
        }
    }

    /// Registers the task that later commands wake.
    fn wake_by(&mut self, cx: &Context<'_>) {
        match &mut self.task {
            Some(task) => task.clone_from(cx.waker()),
            task => *task = Some(cx.waker().clone()),
        }
    }

    /// Stores the reply for a place, which is no longer in the queue.
    fn leave(&mut self, place: Place, reply: Result<Reply>, wakers: &mut Vec<Waker>) {
        let Some(slot) = self.slots.get_mut(place.slot as usize) else {
            return;
        };
        slot.has_place = false;
        if !slot.has_caller {
            self.slots.remove(place.slot as usize);
        } else if slot.reply.is_awaited() {
            wakers.extend(slot.reply.leave(reply));
        }
    }
}

/// The words of a command that has not been sent yet.
pub(crate) trait Words<'a>: Copy + Unpin + Send + 'a {
    /// Calls `body` with the words.
    fn with<R>(self, body: impl FnOnce(&[&[u8]]) -> R) -> R;
}

impl<'a> Words<'a> for &'a [&'a [u8]] {
    fn with<R>(self, body: impl FnOnce(&[&[u8]]) -> R) -> R {
        body(self)
    }
}

/// The words of a GET, which take less memory than an array of words.
#[derive(Clone, Copy)]
pub(crate) struct Get<'a>(pub(crate) &'a [u8]);

impl<'a> Words<'a> for Get<'a> {
    fn with<R>(self, body: impl FnOnce(&[&[u8]]) -> R) -> R {
        body(&[b"GET", self.0])
    }
}

/// A call in progress, which is cancelled when dropped. The future is written by hand to be as
/// small as possible, because every waiting caller has one. An `async fn` would store every
/// argument and the state of every step separately.
pub(crate) struct Call<'a, W> {
    queue: &'a Queue,
    step: Step<'a, W>,
}

enum Step<'a, W> {
    /// The command has not been sent yet.
    Begins(W),
    /// The call waits for the budget. The future is boxed, because few calls wait for the budget,
    /// but every call would reserve space for the future.
    Stands(Pin<Box<dyn Future<Output = Result<u32>> + Send + 'a>>),
    /// The call waits for the reply in its slot.
    Waits(u32),
}

impl<'a, W: Words<'a>> Future for Call<'a, W> {
    type Output = Result<Reply>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<Reply>> {
        let queue = self.queue;
        let slot = match &mut self.step {
            Step::Waits(slot) => return queue.poll(*slot, cx),
            Step::Stands(pushed) => ready!(pushed.as_mut().poll(cx))?,
            Step::Begins(words) => {
                let words = *words;
                let deadline = Instant::now() + queue.deadline;
                let bytes: usize =
                    words.with(|words| words.iter().map(|word| word.len() + 8).sum());
                // A command that is larger than the budget uses all of it.
                let units = (1 + bytes / UNIT).min(queue.units as usize) as u32;
                match queue.budget.try_acquire_many(units) {
                    Ok(permit) => permit.forget(),
                    Err(TryAcquireError::Closed) => return Poll::Ready(Err(Error::Closed)),
                    Err(TryAcquireError::NoPermits) => {
                        let later = Box::pin(queue.push_later(words, units, deadline));
                        self.step = Step::Stands(later);
                        return self.poll(cx);
                    }
                }
                words.with(|words| queue.push(words, units, deadline))?
            }
        };
        self.step = Step::Waits(slot);
        queue.poll(slot, cx)
    }
}

impl<W> Drop for Call<'_, W> {
    fn drop(&mut self) {
        if let Step::Waits(slot) = self.step {
            self.queue.give_up(slot);
        }
    }
}

/// A call that converts its reply to a type.
pub(crate) struct To<C, T>(C, PhantomData<fn() -> T>);

impl<C, T> To<C, T> {
    pub(crate) fn new(call: C) -> To<C, T> {
        To(call, PhantomData)
    }
}

impl<C: Future<Output = Result<Reply>> + Unpin, T: FromReply> Future for To<C, T> {
    type Output = Result<T>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<T>> {
        let reply = ready!(Pin::new(&mut self.0).poll(cx))?;
        Poll::Ready(reply.to())
    }
}

/// Ends a queue when the connection's task ends, even if the task panics or is cancelled.
pub(crate) struct EndOnDrop(pub(crate) Arc<Queue>);

impl Drop for EndOnDrop {
    fn drop(&mut self) {
        self.0.close();
        self.0.fail_all(&Error::Closed);
        self.0.state().is_ended = true;
        self.0.ended.notify_waiters();
    }
}
