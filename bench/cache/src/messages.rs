//! Subscribers, and a publisher that all of them share.
//!
//! The publisher is a thread with a connection of its own that writes prepared bytes, so that it costs as little as
//! it can. It sends the time with each message, and as many at once as it is told.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::thread;
use std::time::{Duration, Instant};

use fred::interfaces::{ClientLike, EventInterface, PubsubInterface};
use futures_util::StreamExt;
use serde::Serialize;
use tokio::sync::broadcast::error::RecvError;
use undercroft::Event;

use crate::{Failure, Server};

/// The clients that are measured.
pub const NAMES: &[&str] = &["PipelinedCache", "redis-rs", "fred"];
const CHANNEL: &str = "bench:news";
/// Messages that fred keeps for a receiver; its default of 32 loses most of them at this pace.
const KEPT: usize = 1 << 16;
const LENGTH: usize = 64;

/// What one round showed.
#[derive(Serialize)]
pub struct Round {
    /// Messages received, a second.
    pub rate: f64,
    /// The median from before the publisher's write to the receiver's return, in microseconds.
    pub median: f64,
    /// How many were not received.
    pub lost: u64,
}

/// What is published: so many messages, so many at a time, with a pause before each time.
#[derive(Clone, Copy)]
pub struct Course {
    /// All messages.
    pub messages: u64,
    /// Those of one write.
    pub together: u64,
    /// Between writes.
    pub pause: Duration,
}

/// Receives as one of the clients.
pub async fn round(name: &str, server: &Server, course: Course) -> Result<Round, Failure> {
    let start = Instant::now();
    let mut counted = Counted::new(start, course.messages);
    match name {
        "PipelinedCache" => {
            let cache = undercroft::cache(&server.url())?;
            let mut news = cache.subscribe(&[CHANNEL.as_bytes()]).await?;
            let publisher = publish(&server.unix, course, start);
            while counted.wants_more() {
                match news.next().await.ok_or("the messages ended")?? {
                    Event::Message(message) => counted.take(&message.payload),
                    event => return Err(format!("expected a message, got {event:?}").into()),
                }
            }
            publisher.join().expect("the publisher")?;
        }
        "redis-rs" => {
            let client = redis::Client::open(server.url())?;
            let mut connection = client.get_async_pubsub().await?;
            connection.subscribe(CHANNEL).await?;
            let mut news = connection.into_on_message();
            let publisher = publish(&server.unix, course, start);
            while counted.wants_more() {
                let message = news.next().await.ok_or("the messages ended")?;
                counted.take(message.get_payload_bytes());
            }
            publisher.join().expect("the publisher")?;
        }
        "fred" => {
            let config = fred::types::config::Config::from_url(&server.fred_url())?;
            let mut builder = fred::types::Builder::from_config(config);
            builder.with_performance_config(|config| config.broadcast_channel_capacity = KEPT);
            let client = builder.build_subscriber_client()?;
            client.init().await?;
            let mut news = client.message_rx();
            client.subscribe(CHANNEL).await?;
            let publisher = publish(&server.unix, course, start);
            while counted.wants_more() {
                match news.recv().await {
                    Ok(message) => counted.take(message.value.as_bytes().unwrap_or_default()),
                    Err(RecvError::Lagged(count)) => counted.lost += count,
                    Err(error) => return Err(error.into()),
                }
            }
            publisher.join().expect("the publisher")?;
            client.quit().await?;
        }
        other => return Err(format!("expected a client's name, got {other}").into()),
    }
    Ok(counted.round())
}

/// What has come so far.
struct Counted {
    start: Instant,
    first: Option<Instant>,
    times: Vec<u64>,
    lost: u64,
    all: u64,
}

impl Counted {
    fn new(start: Instant, all: u64) -> Counted {
        Counted {
            start,
            first: None,
            times: Vec::with_capacity(all as usize),
            lost: 0,
            all,
        }
    }

    fn wants_more(&self) -> bool {
        (self.times.len() as u64 + self.lost) < self.all
    }

    fn take(&mut self, payload: &[u8]) {
        let now = Instant::now();
        self.first.get_or_insert(now);
        assert_eq!(payload.len(), LENGTH, "a message's length");
        let digits = std::str::from_utf8(&payload[..20]).expect("digits");
        let sent: u64 = digits.parse().expect("a number");
        let received = now.duration_since(self.start).as_nanos() as u64;
        self.times.push(received - sent);
    }

    fn round(mut self) -> Round {
        let first = self.first.unwrap_or(self.start);
        let rate = self.times.len() as f64 / first.elapsed().as_secs_f64();
        self.times.sort_unstable();
        Round {
            rate,
            median: self.times[self.times.len() / 2] as f64 / 1e3,
            lost: self.lost,
        }
    }
}

/// Publishes from a thread.
fn publish(
    socket: &str,
    course: Course,
    start: Instant,
) -> thread::JoinHandle<Result<(), std::io::Error>> {
    let socket = UnixStream::connect(socket);
    thread::spawn(move || {
        let mut socket = socket?;
        let (mut output, mut replies) = (Vec::new(), vec![0; 4 * course.together as usize]);
        let head = format!("*3\r\n$7\r\nPUBLISH\r\n${}\r\n{CHANNEL}\r\n", CHANNEL.len());
        for _ in 0..course.messages / course.together {
            thread::sleep(course.pause);
            output.clear();
            let sent = start.elapsed().as_nanos() as u64;
            for _ in 0..course.together {
                write!(output, "{head}${LENGTH}\r\n{sent:020}{:x<44}\r\n", "")?;
            }
            socket.write_all(&output)?;
            // A reply is `:1` and the end of the line.
            socket.read_exact(&mut replies)?;
        }
        Ok(())
    })
}
