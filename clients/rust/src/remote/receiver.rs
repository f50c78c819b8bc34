//! Messages of channels from a server.

use std::sync::Arc;
use std::time::Duration;

use futures_util::stream;
use tokio::time::{sleep, timeout};
use undercroft_resp::Value;

use crate::address::Server;
use crate::error::{Error, Result};
use crate::options::CacheOptions;
use crate::remote::backoff::Backoff;
use crate::remote::commands::with;
use crate::remote::connection::Connection;
use crate::subscription::{Event, Message, Subscription, check_names};

/// A connection of its own that messages come on, and another one where that is lost.
struct Receiver {
    server: Arc<Server>,
    options: CacheOptions,
    command: &'static [u8],
    names: Vec<Vec<u8>>,
    connection: Option<Connection>,
    backoff: Backoff,
}

/// Subscribes to channels or patterns, by the command that does so.
pub(crate) async fn subscribe(
    server: Arc<Server>,
    options: CacheOptions,
    command: &'static [u8],
    names: &[&[u8]],
) -> Result<Subscription> {
    check_names(names)?;
    let mut receiver = Receiver {
        server,
        options,
        command,
        names: names.iter().map(|name| name.to_vec()).collect(),
        connection: None,
        backoff: Backoff::default(),
    };
    receiver.connect().await?;
    Ok(Subscription::new(stream::unfold(
        receiver,
        |mut receiver| async {
            let event = receiver.next().await;
            Some((event, receiver))
        },
    )))
}

impl Receiver {
    /// Connects and subscribes; what is published from then on comes.
    async fn connect(&mut self) -> Result<()> {
        let within = self.options.deadline;
        let mut connection = Connection::open(&self.server, within).await?;
        let names: Vec<&[u8]> = self.names.iter().map(Vec::as_slice).collect();
        let confirmed = async {
            connection.send(&with(self.command, &names)).await?;
            for _ in &names {
                match connection.receive().await? {
                    Value::Array(_) | Value::Push(_) => {}
                    Value::Error(text) => {
                        return Err(Error::Refused {
                            address: self.server.name.clone(),
                            reply: String::from_utf8_lossy(&text).into(),
                        });
                    }
                    _ => {
                        let text = "expected a confirmation of a subscription";
                        return Err(Error::protocol(&self.server.name, text));
                    }
                }
            }
            Ok(())
        };
        match timeout(within, confirmed).await {
            Ok(confirmed) => confirmed?,
            Err(_) => return Err(Error::TimedOut(within)),
        }
        self.connection = Some(connection);
        self.backoff = Backoff::default();
        Ok(())
    }

    /// What comes next. An error is told once; after it the next call connects again.
    async fn next(&mut self) -> Result<Event> {
        let mut is_asked = false;
        while let Some(connection) = &mut self.connection {
            match timeout(self.options.silence, connection.receive()).await {
                Ok(Ok(value)) => {
                    is_asked = false;
                    if let Some(message) = message(value) {
                        return Ok(Event::Message(message));
                    }
                }
                // A server that is gone without a word would be waited for in vain.
                Err(_) if !is_asked && connection.send(&[b"PING"]).await.is_ok() => is_asked = true,
                Ok(Err(_)) | Err(_) => self.connection = None,
            }
        }
        match self.connect().await {
            Ok(()) => Ok(Event::Lost(None)),
            Err(error) => {
                // The pause comes behind the attempt, so that the first one is made at once.
                let pause: Duration = self.backoff.pause();
                sleep(pause).await;
                Err(error)
            }
        }
    }
}

/// The message that a server sent, if it is one.
fn message(value: Value) -> Option<Message> {
    let (Value::Array(parts) | Value::Push(parts)) = value else {
        return None;
    };
    let mut parts = parts.into_iter().map(|part| match part {
        Value::Bulk(bytes) => Some(bytes),
        _ => None,
    });
    let kind = parts.next()??;
    let pattern = match &kind[..] {
        b"message" => None,
        b"pmessage" => Some(parts.next()??),
        _ => return None,
    };
    Some(Message {
        channel: parts.next()??,
        pattern,
        payload: parts.next()??,
    })
}
