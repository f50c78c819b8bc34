//! Subscribers, and the publisher that sends to them.
//!
//! The publisher is a thread with its own connection. It writes prepared bytes and thus uses as
//! little CPU time as possible. Each message contains its send time, and each write contains the
//! requested number of messages.

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

/// The names of the measured clients.
pub const NAMES: &[&str] = &["PipelinedCache", "redis-rs", "fred"];
const CHANNEL: &str = "bench:news";
/// The number of messages that fred buffers for a receiver. With fred's default of 32, most
/// messages would be lost at this rate.
const KEPT: usize = 1 << 16;
const LENGTH: usize = 64;

/// The result of one round.
#[derive(Serialize)]
pub struct Round {
    /// The number of messages received per second.
    pub rate: f64,
    /// The median time from just before the publisher's write to the return of the receiving call,
    /// in microseconds.
    pub median: f64,
    /// The number of messages that were not received.
    pub lost: u64,
}

/// The publisher's schedule: the number of messages, the number in each write, and the pause before
/// each write.
#[derive(Clone, Copy)]
pub struct Course {
    /// The total number of messages.
    pub messages: u64,
    /// The number of messages per write.
    pub together: u64,
    /// The pause between writes.
    pub pause: Duration,
}

/// Receives the messages of one round with the named client.
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

/// The number of messages received so far, with their arrival times.
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

/// Starts the thread that publishes the messages of one round.
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
            // The server replies to each PUBLISH with `:1` followed by a line ending.
            socket.read_exact(&mut replies)?;
        }
        Ok(())
    })
}
