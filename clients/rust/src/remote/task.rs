//! Runs the task of a shared connection, which connects, writes, reads and reconnects.

use std::future::{Future, poll_fn};
use std::io;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll, Waker, ready};
use std::time::Duration;

use tokio::io::AsyncWrite;
use tokio::time::{Instant, Sleep, sleep};
use undercroft_resp::Value;

use crate::address::Server;
use crate::command::{Reply, from_value, outcome};
use crate::error::{Error, Result};
use crate::observe;
use crate::remote::backoff::Backoff;
use crate::remote::both::closed;
use crate::remote::connection::Connection;
use crate::remote::input::Input;
use crate::remote::queue::{EndOnDrop, Queue};
use crate::remote::socket::Socket;

/// The minimum lifetime of a connection that counts as accepted and therefore resets the backoff.
const LIVED: Duration = Duration::from_secs(1);

/// How long the task polls for the reply to a lone call before it sleeps.
const LOOKING: Duration = Duration::from_micros(100);
/// The maximum number of consecutive lone calls that are not polled after polling brought no reply.
const UNLOOKED: u32 = 1024;

/// The time limits of a connection.
#[derive(Clone, Copy)]
pub(crate) struct Times {
    /// The time limit for connecting.
    pub(crate) connect: Duration,
    /// How long the server may stay silent while replies are pending.
    pub(crate) silence: Duration,
}

/// Serves a queue until it is closed.
pub(crate) async fn serve(queue: Arc<Queue>, server: Arc<Server>, times: Times) {
    let _end = EndOnDrop(queue.clone());
    let mut backoff = Backoff::default();
    loop {
        let opening = Connection::open(&server, times.connect);
        let Some(opened) = unless_over(&queue, opening).await else {
            return;
        };
        match opened {
            Err(error) => {
                observe::disconnected(&server.name, &error);
                queue.fail_all(&error);
            }
            Ok(connection) => {
                observe::connected(&server.name);
                queue.forget_cancelled();
                let mut line = Line::new(&queue, &server, connection, times.silence);
                match poll_fn(|cx| line.poll(cx)).await {
                    Ok(()) => return,
                    Err(error) => {
                        observe::disconnected(&server.name, &error);
                        queue.fail_sent(&error);
                    }
                }
                // The connection worked, so the next attempt starts without a pause.
                if line.has_answered || line.opened.elapsed() > LIVED {
                    backoff = Backoff::default();
                    continue;
                }
            }
        }
        if unless_over(&queue, sleep(backoff.pause())).await.is_none() {
            return;
        }
    }
}

/// Runs a future while calls wait, and fails calls whose deadlines pass. Returns `None` as soon as
/// the queue is closed and no call remains.
async fn unless_over<T>(queue: &Queue, something: impl Future<Output = T>) -> Option<T> {
    let mut something = pin!(something);
    let mut alarm = Alarm::new();
    poll_fn(|cx| {
        if let Poll::Ready(done) = something.as_mut().poll(cx) {
            return Poll::Ready(Some(done));
        }
        loop {
            let looked = queue.look(cx);
            if looked.is_over {
                return Poll::Ready(None);
            }
            if alarm.poll(cx, queue, looked.look_at).is_pending() {
                return Poll::Pending;
            }
        }
    })
    .await
}

/// A timer that fails the calls whose deadlines have passed.
struct Alarm {
    timer: Pin<Box<Sleep>>,
    set: Option<Instant>,
}

impl Alarm {
    fn new() -> Alarm {
        Alarm {
            timer: Box::pin(sleep(Duration::ZERO)),
            set: None,
        }
    }

    /// Fails late calls when the next deadline check is due, and is ready after the check.
    fn poll(&mut self, cx: &mut Context<'_>, queue: &Queue, look_at: Option<Instant>) -> Poll<()> {
        if self.set != look_at {
            self.set = look_at;
            if let Some(at) = look_at {
                self.timer.as_mut().reset(at);
            }
        }
        if look_at.is_none() {
            return Poll::Pending;
        }
        ready!(self.timer.as_mut().poll(cx));
        // The deadline check changes the queue's `look_at`, after which the timer is set again.
        self.set = None;
        queue.expire(Instant::now());
        Poll::Ready(())
    }
}

/// An open connection that serves a queue.
struct Line<'a> {
    queue: &'a Queue,
    server: &'a Server,
    socket: Socket,
    input: Input,
    output: Vec<u8>,
    /// The number of bytes in `output` that have already been written.
    written: usize,
    replies: Vec<Result<Reply>>,
    wakers: Vec<Waker>,
    alarm: Alarm,
    /// The number of replies in the last batch that arrived.
    together: usize,
    /// Whether the task has yielded to other tasks before it takes the next commands.
    has_yielded: bool,
    has_answered: bool,
    opened: Instant,
    /// The time of the last input, or of the first command that was sent while no reply was
    /// pending.
    heard: Instant,
    silence: Duration,
    reply_polling: ReplyPolling,
}

/// Decides whether to poll for the reply to a lone call instead of sleeping.
///
/// Waking a sleeping core takes as long as a reply from a server on the same machine. Therefore the
/// task polls for a short time, and other tasks run between two polls. If polling brings no reply,
/// because the server is remote or needs the same core, the task polls less and less often.
#[derive(Default)]
struct ReplyPolling {
    /// The time at which the current polling ends, or `None` if the task does not poll.
    until: Option<std::time::Instant>,
    /// The number of calls that are not polled between two attempts to poll, and how many of these
    /// calls remain.
    unlooked: u32,
    left: u32,
}

impl ReplyPolling {
    /// Records that a lone call was sent. Returns whether to poll for its reply.
    fn begin(&mut self) -> bool {
        if self.left > 0 {
            self.left -= 1;
            return false;
        }
        self.until = Some(std::time::Instant::now() + LOOKING);
        true
    }

    fn succeed(&mut self) {
        *self = ReplyPolling::default();
    }

    fn fail(&mut self) {
        self.until = None;
        self.unlooked = (self.unlooked * 2).clamp(1, UNLOOKED);
        self.left = self.unlooked;
    }
}

impl<'a> Line<'a> {
    fn new(
        queue: &'a Queue,
        server: &'a Server,
        connection: Connection,
        silence: Duration,
    ) -> Self {
        Line {
            queue,
            server,
            socket: connection.socket,
            input: connection.input,
            output: Vec::new(),
            written: 0,
            replies: Vec::new(),
            wakers: Vec::new(),
            alarm: Alarm::new(),
            together: 0,
            has_yielded: false,
            has_answered: false,
            opened: Instant::now(),
            heard: Instant::now(),
            silence,
            reply_polling: ReplyPolling::default(),
        }
    }

    /// Polls for the reply to a lone call. Returns whether to poll again after other tasks have
    /// run.
    fn look(&mut self, until: std::time::Instant) -> Result<bool> {
        if let Some(count) = self.input.fill_now(&self.socket) {
            let has_replied = self.take_replies(count)?;
            if has_replied {
                self.reply_polling.succeed();
            }
            return Ok(!has_replied);
        }
        if self.queue.has_output() {
            // Another command is pending, so the call is no longer the only one.
            self.reply_polling.until = None;
        } else if std::time::Instant::now() >= until {
            self.reply_polling.fail();
        }
        Ok(self.reply_polling.until.is_some())
    }

    /// Reads and writes the available data. Returns ready when the queue is closed, or with the
    /// error that ended the connection.
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Result<()>> {
        if let Some(until) = self.reply_polling.until
            && self.look(until)?
        {
            cx.waker().wake_by_ref();
            return Poll::Pending;
        }
        loop {
            while let Poll::Ready(count) = self.input.poll_fill(cx, &mut self.socket) {
                self.take_replies(count)?;
            }
            if self.written == self.output.len() {
                // Callers whose replies arrived together usually send their next commands together.
                // If these callers run first, a single write sends all of their commands.
                if self.together > 1 && !self.has_yielded && self.queue.has_output() {
                    self.has_yielded = true;
                    cx.waker().wake_by_ref();
                    return Poll::Pending;
                }
                self.has_yielded = false;
                self.output.clear();
                self.written = 0;
            }
            let taken = match self.output.is_empty() {
                true => self.queue.take(&mut self.output, cx),
                false => self.queue.look(cx),
            };
            if taken.is_over && self.output.is_empty() {
                // The error is ignored, because the server notices the closed connection in any
                // case.
                let _ = Pin::new(&mut self.socket).poll_shutdown(cx);
                return Poll::Ready(Ok(()));
            }
            if taken.was_idle {
                self.heard = Instant::now();
            }
            self.write(cx)?;
            let is_written = self.written == self.output.len();
            if taken.is_lone && is_written && self.socket.is_plain() && self.reply_polling.begin() {
                cx.waker().wake_by_ref();
            }
            if self.alarm.poll(cx, self.queue, taken.look_at).is_pending() {
                return Poll::Pending;
            }
            if self.heard.elapsed() > self.silence && !self.queue.is_answered() {
                let text = format!("no reply within {:?}", self.silence);
                let error = io::Error::new(io::ErrorKind::TimedOut, text);
                return Poll::Ready(Err(Error::lost(&self.server.name, error)));
            }
        }
    }

    /// Delivers the replies that arrived to their callers. Returns whether any reply arrived.
    fn take_replies(&mut self, count: io::Result<usize>) -> Result<bool> {
        let name = &self.server.name;
        match count {
            Ok(0) => return Err(Error::lost(name, closed())),
            Ok(_) => self.heard = Instant::now(),
            Err(error) => return Err(Error::lost(name, error)),
        }
        let before = self.input.unread();
        let end = loop {
            match self.input.next() {
                Ok(Some(Value::Push(_))) => {}
                Ok(Some(value)) => self.replies.push(outcome(from_value(value))),
                Ok(None) => break Ok(()),
                Err(error) => break Err(Error::garbage(name, error)),
            }
        };
        let has_replied = !self.replies.is_empty();
        if has_replied {
            self.has_answered = true;
            self.together = self.replies.len();
            // Replies that precede a protocol error are valid.
            let bytes = before - self.input.unread();
            let Line {
                queue,
                replies,
                wakers,
                ..
            } = self;
            if !queue.answer(replies, bytes, wakers) {
                return Err(Error::protocol(
                    name,
                    "received a reply that matches no request",
                ));
            }
        }
        end.map(|()| has_replied)
    }

    /// Writes as many bytes as the socket accepts.
    fn write(&mut self, cx: &mut Context<'_>) -> Result<()> {
        let lost = |error| Error::lost(&self.server.name, error);
        while self.written < self.output.len() {
            let rest = &self.output[self.written..];
            match Pin::new(&mut self.socket).poll_write(cx, rest) {
                Poll::Ready(Ok(0)) => return Err(lost(io::ErrorKind::WriteZero.into())),
                Poll::Ready(Ok(count)) => self.written += count,
                Poll::Ready(Err(error)) => return Err(lost(error)),
                Poll::Pending => break,
            }
        }
        // An encrypted socket may buffer bytes until it is flushed.
        match Pin::new(&mut self.socket).poll_flush(cx) {
            Poll::Ready(Err(error)) => Err(lost(error)),
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unsuccessful_polling_becomes_rarer() {
        let mut reply_polling = ReplyPolling::default();
        for expected in [0, 1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 1024, 1024] {
            let slept = (0..).take_while(|_| !reply_polling.begin()).count();
            assert_eq!(slept, expected);
            reply_polling.fail();
            assert!(reply_polling.until.is_none());
        }
        reply_polling.succeed();
        assert!(
            reply_polling.begin(),
            "a reply that came in time is looked for again"
        );
    }
}
