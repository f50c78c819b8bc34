//! The task of one connection that many callers share: it connects, writes, reads, and connects again.

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
use crate::error::{Error, Result};
use crate::observe;
use crate::remote::backoff::Backoff;
use crate::remote::connection::{Connection, closed};
use crate::remote::input::Input;
use crate::remote::queue::{EndOnDrop, Queue};
use crate::remote::socket::Socket;
use crate::reply::{Reply, from_value, outcome};

/// A connection that lived longer was not refused.
const LIVED: Duration = Duration::from_secs(1);

/// How long the reply of a lone call is looked for again and again, before its connection's task sleeps.
const LOOKING: Duration = Duration::from_micros(100);
/// So many lone calls in a row, at most, are not looked for, where looking was in vain.
const UNLOOKED: u32 = 1024;

/// How long connections may take, and be silent.
#[derive(Clone, Copy)]
pub(crate) struct Times {
    /// To connect.
    pub(crate) connect: Duration,
    /// While replies are awaited.
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
                // It was a connection, so that another attempt is a first one.
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

/// Waits for something while calls wait: they end when their time is up. None where nobody needs the outcome.
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

/// Ends calls whose time is up.
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

    /// Ready when some calls' time was up.
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
        // The queue moves its time on, so that the timer is set anew.
        self.set = None;
        queue.expire(Instant::now());
        Poll::Ready(())
    }
}

/// A connection at work.
struct Line<'a> {
    queue: &'a Queue,
    server: &'a Server,
    socket: Socket,
    input: Input,
    output: Vec<u8>,
    /// How much of `output` was written.
    written: usize,
    replies: Vec<Result<Reply>>,
    wakers: Vec<Waker>,
    alarm: Alarm,
    /// How many replies came together last.
    together: usize,
    /// The others were let run before commands are taken.
    has_yielded: bool,
    has_answered: bool,
    opened: Instant,
    /// When something came, or the first command was sent after all were answered.
    heard: Instant,
    silence: Duration,
    haste: Haste,
}

/// Whether the reply of a lone call is looked for rather than slept for.
///
/// A processor that sleeps takes long to wake up: as long as a server on the same machine takes to reply. So the task
/// looks again and again for a short time, and lets other tasks run between two looks. Where that was in vain, as the
/// server is far away or needs the same processor, it is tried ever more rarely.
#[derive(Default)]
struct Haste {
    /// Until when it looks.
    until: Option<std::time::Instant>,
    /// Calls that are slept for before it looks again, and of those the ones still to come.
    unlooked: u32,
    left: u32,
}

impl Haste {
    /// A lone call was sent. Returns whether to look.
    fn begin(&mut self) -> bool {
        if self.left > 0 {
            self.left -= 1;
            return false;
        }
        self.until = Some(std::time::Instant::now() + LOOKING);
        true
    }

    fn succeed(&mut self) {
        *self = Haste::default();
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
            haste: Haste::default(),
        }
    }

    /// Looks for the reply of a lone call. Returns whether to look again after the others had their turns.
    fn look(&mut self, until: std::time::Instant) -> Result<bool> {
        if let Some(count) = self.input.fill_now(&self.socket) {
            let has_replied = self.take_replies(count)?;
            if has_replied {
                self.haste.succeed();
            }
            return Ok(!has_replied);
        }
        if self.queue.has_output() {
            // It is not alone any more.
            self.haste.until = None;
        } else if std::time::Instant::now() >= until {
            self.haste.fail();
        }
        Ok(self.haste.until.is_some())
    }

    /// Reads and writes what there is. Ready when the queue is closed, or with why the connection is lost.
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Result<()>> {
        if let Some(until) = self.haste.until
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
                // Callers whose replies came together ask again together: with them, one write is enough.
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
                // The server sees the end in any case.
                let _ = Pin::new(&mut self.socket).poll_shutdown(cx);
                return Poll::Ready(Ok(()));
            }
            if taken.was_idle {
                self.heard = Instant::now();
            }
            self.write(cx)?;
            let is_written = self.written == self.output.len();
            if taken.is_lone && is_written && self.socket.is_plain() && self.haste.begin() {
                cx.waker().wake_by_ref();
            }
            if self.alarm.poll(cx, self.queue, taken.look_at).is_pending() {
                return Poll::Pending;
            }
            if self.heard.elapsed() > self.silence && !self.queue.is_answered() {
                let text = format!("no answer within {:?}", self.silence);
                let error = io::Error::new(io::ErrorKind::TimedOut, text);
                return Poll::Ready(Err(Error::lost(&self.server.name, error)));
            }
        }
    }

    /// Gives the replies to those who wait for them. Returns whether there were any.
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
            // What came before garbage are replies.
            let bytes = before - self.input.unread();
            let Line {
                queue,
                replies,
                wakers,
                ..
            } = self;
            if !queue.answer(replies, bytes, wakers) {
                return Err(Error::protocol(name, "a reply came that nobody asked for"));
            }
        }
        end.map(|()| has_replied)
    }

    /// Writes as much as the socket takes.
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
        // A socket that encrypts keeps bytes back until then.
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
    fn where_looking_is_in_vain_it_is_tried_ever_more_rarely() {
        let mut haste = Haste::default();
        for expected in [0, 1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 1024, 1024] {
            let slept = (0..).take_while(|_| !haste.begin()).count();
            assert_eq!(slept, expected);
            haste.fail();
            assert!(haste.until.is_none());
        }
        haste.succeed();
        assert!(
            haste.begin(),
            "a reply that came in time is looked for again"
        );
    }
}
