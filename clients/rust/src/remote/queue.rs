//! Commands of many callers on one connection: in which order they were sent, and who waits for which reply.
//!
//! A caller appends its command to the bytes that go out next, and takes a *slot* for its reply. The order of the
//! commands is a queue of *places*, each of which names a slot. The connection's task takes all bytes at once, and gives
//! replies to the places from the front. A caller that goes away leaves its place behind: its reply is given to nobody,
//! and only then is the slot used again. So no reply can come to another caller.
//!
//! How much may be under way is a budget of bytes: who would exceed it waits, first come first served. And no more
//! commands are handed over than have replies of some hundred kilobytes, as those before them had: a server that has to
//! keep megabytes of replies works slower, and none comes sooner for it.

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
use crate::error::{Error, Result};
use crate::reply::{FromReply, Reply};

/// Bytes of a unit of the budget. A command costs one, and one more for each so many bytes.
const UNIT: usize = 256;
/// Bytes of replies that are asked for at a time, as far as can be told.
const ASKED: usize = 512 << 10;
/// Commands that are sent at a time, however long the replies were.
const FEW: usize = 16;
/// Memory for commands that is kept when they are sent.
const KEPT: usize = 1 << 20;
/// What a look at all deadlines may be late, so that there are not too many of them.
const LATE: Duration = Duration::from_millis(5);

/// What callers and the connection's task share.
pub(crate) struct Queue {
    state: Mutex<State>,
    budget: Semaphore,
    /// Units of the budget.
    units: u32,
    /// How long a call may take.
    deadline: Duration,
    /// What deadlines are counted from.
    start: Instant,
    /// Told when the connection's task ends.
    ended: Notify,
}

#[derive(Default)]
struct State {
    /// Commands that were not handed to the connection yet, one behind another.
    output: Vec<u8>,
    /// Their places.
    unsent: VecDeque<Place>,
    /// The places of commands that were, and were not answered.
    sent: VecDeque<Place>,
    slots: Slab<Slot>,
    /// Wakes the connection's task.
    task: Option<Waker>,
    /// When deadlines are to be looked at.
    look_at: Option<Instant>,
    /// How long a reply is: the mean of the last ones.
    reply_bytes: usize,
    is_closing: bool,
    is_ended: bool,
}

/// One command in the order of all.
struct Place {
    slot: u32,
    /// What it costs.
    units: u32,
    /// Its bytes in `output`.
    bytes: usize,
}

/// Where a reply is left for a caller.
struct Slot {
    reply: Expected,
    /// In microseconds since the queue was made: half as much memory as an instant.
    deadline: u64,
    /// A place in the order names it.
    has_place: bool,
    /// A caller waits for it.
    has_caller: bool,
}

/// A reply before and after it has come.
enum Expected {
    /// It wakes the caller, where that waits already.
    Awaited(Option<Waker>),
    Left(Result<Reply>),
}

impl Expected {
    fn is_awaited(&self) -> bool {
        matches!(self, Expected::Awaited(_))
    }

    /// Leaves an outcome. Returns whom to wake.
    fn leave(&mut self, outcome: Result<Reply>) -> Option<Waker> {
        match std::mem::replace(self, Expected::Left(outcome)) {
            Expected::Awaited(waker) => waker,
            Expected::Left(_) => None,
        }
    }
}

/// What the connection's task is told when it asks for commands.
pub(crate) struct Taken {
    /// When to call [`Queue::expire`].
    pub(crate) look_at: Option<Instant>,
    /// The first commands after all before were answered.
    pub(crate) was_idle: bool,
    /// One command, and no other one is under way.
    pub(crate) is_lone: bool,
    /// Nothing is left, and nothing will come.
    pub(crate) is_over: bool,
}

impl Queue {
    /// A queue that holds commands of so many bytes, each of which is answered within so long.
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

    /// Waits until the budget has room for a command, and sends it. Returns its slot.
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
                // A slot keeps an outcome as long as it has a place, so that no later one is left in it.
                Poll::Ready(std::mem::replace(outcome, Err(Error::Closed)))
            }
            Expected::Awaited(waker) => {
                let is_known = |waker: &Waker| waker.will_wake(cx.waker());
                if !waker.as_ref().is_some_and(is_known) {
                    // What a waker keeps alive may be a caller: the old one is dropped when the lock is free.
                    let old = waker.replace(cx.waker().clone());
                    drop(state);
                    drop(old);
                }
                Poll::Pending
            }
        }
    }

    /// A caller goes away.
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

    /// Microseconds between the queue's start and a time.
    fn clock(&self, at: Instant) -> u64 {
        let since = at.saturating_duration_since(self.start).as_micros();
        u64::try_from(since).unwrap_or(u64::MAX)
    }

    /// Appends a command, for which the budget has so many units less. Returns its slot.
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
        // Each slot belongs to a call or a place in memory, so that there are fewer.
        let slot = slot as u32;
        state.unsent.push_back(Place { slot, units, bytes });
        if state.look_at.is_none_or(|at| deadline < at) {
            state.look_at = Some(deadline);
        }
        // Only the first command since the task looked wakes it.
        let task = state.task.take();
        drop(state);
        if let Some(task) = task {
            task.wake();
        }
        Ok(slot)
    }

    /// Hands all commands to the connection's task, which is woken by what comes later. `output` is empty.
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

    /// Whether [`take`](Self::take) would hand something over.
    pub(crate) fn has_output(&self) -> bool {
        !self.state().output.is_empty()
    }

    /// Gives replies, of so many bytes, to the places in front. Returns false where there are fewer places than replies.
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

    /// Ends the calls that the lost connection did not answer.
    pub(crate) fn fail_sent(&self, error: &Error) {
        self.fail(error, |state| std::mem::take(&mut state.sent));
    }

    /// Ends all calls.
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

    /// Drops the commands that nobody waits for any more; called before a new connection begins with the others.
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

    /// Whether all commands that were handed over were answered.
    pub(crate) fn is_answered(&self) -> bool {
        self.state().sent.is_empty()
    }

    /// Ends the calls whose time is up.
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

    /// Whether the connection's task may end; it is woken when it may, or when there is another deadline.
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

    /// Takes no more calls. The connection's task ends when those under way have.
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

    /// Whether nothing is left of any call, and all of the budget is there.
    #[cfg(test)]
    #[allow(dead_code, reason = "only the models' copy of the queue is asked")]
    pub(crate) fn is_empty(&self) -> bool {
        let state = self.state();
        let has_no_calls = state.slots.is_empty() && state.sent.is_empty();
        // A queue that is closed gives no permits, and counts them all the same.
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
    /// Moves commands to the connection's task, as many as may be asked now. `output` is empty.
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

    /// The task that is woken from now on.
    fn wake_by(&mut self, cx: &Context<'_>) {
        match &mut self.task {
            Some(task) => task.clone_from(cx.waker()),
            task => *task = Some(cx.waker().clone()),
        }
    }

    /// Leaves a reply at a place, which is gone with that.
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

/// The words of a command, until it is sent.
pub(crate) trait Words<'a>: Copy + Unpin + Send + 'a {
    /// Gives them to something.
    fn with<R>(self, body: impl FnOnce(&[&[u8]]) -> R) -> R;
}

impl<'a> Words<'a> for &'a [&'a [u8]] {
    fn with<R>(self, body: impl FnOnce(&[&[u8]]) -> R) -> R {
        body(self)
    }
}

/// A GET of a key: fewer bytes than its words.
#[derive(Clone, Copy)]
pub(crate) struct Get<'a>(pub(crate) &'a [u8]);

impl<'a> Words<'a> for Get<'a> {
    fn with<R>(self, body: impl FnOnce(&[&[u8]]) -> R) -> R {
        body(&[b"GET", self.0])
    }
}

/// A call under way; dropped, it is given up. Written by hand as each caller that waits has one: it is as small as can
/// be, where a function of the language would keep each argument and each step's values side by side.
pub(crate) struct Call<'a, W> {
    queue: &'a Queue,
    step: Step<'a, W>,
}

enum Step<'a, W> {
    /// Nothing was sent.
    Begins(W),
    /// It waits for the budget: few callers need the room for that, and all would have it.
    Stands(Pin<Box<dyn Future<Output = Result<u32>> + Send + 'a>>),
    /// It waits for the reply in its slot.
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
                // A command above the whole budget has it to itself.
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

/// A call whose reply is of a type.
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

/// Ends a queue with the connection's task, however that ends.
pub(crate) struct EndOnDrop(pub(crate) Arc<Queue>);

impl Drop for EndOnDrop {
    fn drop(&mut self) {
        self.0.close();
        self.0.fail_all(&Error::Closed);
        self.0.state().is_ended = true;
        self.0.ended.notify_waiters();
    }
}
