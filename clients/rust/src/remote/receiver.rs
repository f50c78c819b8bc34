//! Implements subscriptions on a server.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::time::{sleep, timeout};

use crate::address::Server;
use crate::error::{Error, Result};
use crate::message::{Event, Message, check_names};
use crate::observe;
use crate::options::CacheOptions;
use crate::remote::backoff::Backoff;
use crate::remote::both::{check_confirmation, message};
use crate::remote::commands::with;
use crate::remote::connection::Connection;
use crate::subscription::Subscription;

/// A subscription on a separate connection, which is replaced when it is lost.
struct Receiver {
    /// The servers, in the order of connection attempts. All of them deliver the same messages.
    servers: Vec<Arc<Server>>,
    turn: usize,
    options: CacheOptions,
    command: &'static [u8],
    names: Vec<Vec<u8>>,
    connection: Option<Connection>,
    backoff: Backoff,
}

/// Subscribes to channels or patterns with `command`, on the first server that accepts the
/// connection.
pub(crate) async fn subscribe(
    servers: Vec<Arc<Server>>,
    options: CacheOptions,
    command: &'static [u8],
    names: &[&[u8]],
) -> Result<Subscription> {
    check_names(names)?;
    let mut receiver = Receiver {
        servers,
        turn: 0,
        options,
        command,
        names: names.iter().map(|name| name.to_vec()).collect(),
        connection: None,
        backoff: Backoff::default(),
    };
    receiver.connect_to_any().await?;
    Ok(Subscription::new(Stream::Idle(Box::new(receiver))))
}

/// A future that waits for an event and returns the receiver with it.
type Next = dyn Future<Output = (Result<Event>, Box<Receiver>)> + Send;

/// A receiver as a stream. A message that has already arrived is returned without creating a
/// future.
enum Stream {
    Idle(Box<Receiver>),
    Waiting(Pin<Box<Next>>),
    /// A transient state during a transition between the other states.
    Gone,
}

impl futures_core::Stream for Stream {
    type Item = Result<Event>;

    #[inline]
    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Event>>> {
        if let Stream::Idle(receiver) = &mut *self {
            if let Some(message) = receiver.received() {
                return Poll::Ready(Some(Ok(Event::Message(message))));
            }
            let Stream::Idle(mut receiver) = std::mem::replace(&mut *self, Stream::Gone) else {
                return Poll::Ready(None);
            };
            *self = Stream::Waiting(Box::pin(async move {
                let event = receiver.next().await;
                (event, receiver)
            }));
        }
        let Stream::Waiting(next) = &mut *self else {
            return Poll::Ready(None);
        };
        let (event, receiver) = ready!(next.as_mut().poll(cx));
        *self = Stream::Idle(receiver);
        Poll::Ready(Some(event))
    }
}

impl Receiver {
    /// Connects to the current server, or to the next one in order that accepts the connection.
    async fn connect_to_any(&mut self) -> Result<()> {
        let mut connected = self.connect().await;
        for _ in 1..self.servers.len() {
            if connected.is_ok() {
                break;
            }
            self.turn = (self.turn + 1) % self.servers.len();
            connected = self.connect().await;
        }
        let name = &self.servers[self.turn].name;
        match &connected {
            Ok(()) => observe::connected(name),
            Err(error) => observe::disconnected(name, error),
        }
        connected
    }

    /// Connects and subscribes. The subscription receives every message that is published after
    /// this call returns.
    async fn connect(&mut self) -> Result<()> {
        let within = self.options.deadline;
        let server = &self.servers[self.turn];
        let mut connection = Connection::open(server, within).await?;
        let names: Vec<&[u8]> = self.names.iter().map(Vec::as_slice).collect();
        let confirmed = async {
            connection.send(&with(self.command, &names)).await?;
            for _ in &names {
                check_confirmation(server, &connection.receive().await?)?;
            }
            Ok::<(), Error>(())
        };
        match timeout(within, confirmed).await {
            Ok(confirmed) => confirmed?,
            Err(_) => return Err(Error::TimedOut(within)),
        }
        self.connection = Some(connection);
        self.backoff = Backoff::default();
        Ok(())
    }

    fn lose(&mut self, error: &Error) {
        observe::disconnected(&self.servers[self.turn].name, error);
        self.connection = None;
    }

    /// Returns the next message if it has already arrived and no other event precedes it.
    #[inline]
    fn received(&mut self) -> Option<Message> {
        let (channel, payload) = self.connection.as_mut()?.input.next_message()?;
        Some(Message {
            channel,
            pattern: None,
            payload,
        })
    }

    /// Returns the next event. An error is returned once, and the next call reconnects.
    async fn next(&mut self) -> Result<Event> {
        let mut is_asked = false;
        while let Some(connection) = &mut self.connection {
            // If input has already arrived, no timer is needed.
            let received = match connection.received() {
                Ok(None) => timeout(self.options.silence, connection.receive()).await,
                Ok(Some(value)) => Ok(Ok(value)),
                Err(error) => Ok(Err(error)),
            };
            match received {
                Ok(Ok(value)) => {
                    is_asked = false;
                    if let Some(message) = message(value) {
                        return Ok(Event::Message(message));
                    }
                }
                // A PING detects a server that disappeared without closing the connection.
                Err(_) if !is_asked && connection.send(&[b"PING"]).await.is_ok() => is_asked = true,
                Ok(Err(error)) => self.lose(&error),
                Err(_) => self.lose(&Error::TimedOut(self.options.silence)),
            }
        }
        match self.connect_to_any().await {
            Ok(()) => Ok(Event::Lost(None)),
            Err(error) => {
                // The pause follows the attempt, so the first attempt is made immediately.
                let pause: Duration = self.backoff.pause();
                sleep(pause).await;
                Err(error)
            }
        }
    }
}
