//! Measures the latency and throughput of messages to waiting subscribers, through a store or
//! through Redis on a unix socket.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::Barrier;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use clap::Args;
use undercroft_engine::Store;
use undercroft_engine::messages::{Event, Topic};

/// The size of a message in bytes; the first sixteen bytes are its send time, or zeros.
const PAYLOAD: usize = 64;
const CHANNEL: &[u8] = b"channel";
/// The number of messages by which a subscriber may lag before the sender waits. The ring can store
/// many more.
const BEHIND: u64 = 20_000;

#[derive(Args)]
pub(crate) struct Work {
    /// The number of receiving threads, each with its own handle or connection.
    #[arg(long, default_value_t = 1)]
    subscribers: usize,
    /// The number of single messages whose latency is timed.
    #[arg(long, default_value_t = 2000)]
    single: u64,
    /// The number of messages sent at full speed.
    #[arg(long, default_value_t = 200_000)]
    messages: u64,
    /// The number of messages per call, or per write to a socket before the replies are read.
    #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u64).range(1..))]
    at_once: u64,
    /// The maximum time that a subscriber polls before it sleeps, in microseconds; if omitted, the
    /// default applies.
    #[arg(long)]
    spin: Option<u64>,
    /// The pause between two single messages, in microseconds.
    #[arg(long, default_value_t = 300)]
    pause: u64,
    /// The socket of a Redis server to measure instead of a store.
    #[arg(long)]
    redis: Option<PathBuf>,
}

/// The sending side of a measurement.
enum Sender<'s> {
    Store(&'s Store),
    Socket(UnixStream),
}

/// A counter that one thread writes often, on its own cache lines.
#[derive(Default)]
#[repr(align(128))]
struct Count(AtomicU64);

/// The state that all threads of a measurement share.
struct Course {
    start: Instant,
    /// The number of messages that each subscriber has received.
    got: Vec<Count>,
    /// The number of timed messages, and the total number of messages.
    single: u64,
    all: u64,
    ready: Barrier,
}

impl Work {
    pub(crate) fn run(self) {
        let (_directory, store) = crate::fresh_store(1 << 30);
        let course = Course {
            start: Instant::now(),
            got: (0..self.subscribers).map(|_| Count::default()).collect(),
            single: self.single,
            all: self.single + self.messages,
            ready: Barrier::new(self.subscribers + 1),
        };
        let (mut times, mut rate) = (Vec::new(), 0.0);
        std::thread::scope(|scope| {
            let receivers: Vec<_> = (0..self.subscribers)
                .map(|index| {
                    let (course, work, path) = (&course, &self, store.path());
                    scope.spawn(move || match &work.redis {
                        None => course.receive_from_store(index, path, work.spin),
                        Some(socket) => course.receive_from_socket(index, socket),
                    })
                })
                .collect();
            course.ready.wait();
            let mut sender = match &self.redis {
                None => Sender::Store(&store),
                Some(path) => Sender::Socket(connect(path)),
            };
            for number in 1..=self.single {
                std::thread::sleep(Duration::from_micros(self.pause));
                let now = course.start.elapsed().as_nanos() as u64;
                sender.send(&payload(now), 1);
                course.wait_for(number);
            }
            let start = Instant::now();
            let mut sent = self.single;
            while sent < course.all {
                let some = self.at_once.min(course.all - sent);
                sender.send(&payload(0), some);
                sent += some;
                course.wait_for(sent.saturating_sub(BEHIND));
            }
            course.wait_for(course.all);
            rate = self.messages as f64 / start.elapsed().as_secs_f64();
            for receiver in receivers {
                times.extend(receiver.join().expect("no panic"));
            }
        });
        println!("{{\"latency_ns\": {times:?}, \"messages_per_second\": {rate}}}");
    }
}

fn payload(time: u64) -> Vec<u8> {
    let mut payload = format!("{time:016x}").into_bytes();
    payload.resize(PAYLOAD, b'.');
    payload
}

fn time_in(payload: &[u8]) -> u64 {
    let digits = std::str::from_utf8(&payload[..16]).expect("digits");
    u64::from_str_radix(digits, 16).expect("digits")
}

impl Course {
    /// Waits until every subscriber has received this number of messages.
    fn wait_for(&self, number: u64) {
        for got in &self.got {
            while got.0.load(Ordering::Acquire) < number {
                std::thread::yield_now();
            }
        }
    }

    fn age(&self, payload: &[u8]) -> u64 {
        self.start.elapsed().as_nanos() as u64 - time_in(payload)
    }

    fn receive_from_store(&self, index: usize, path: &Path, spin: Option<u64>) -> Vec<u64> {
        let store = Store::open(path, true).expect("the store");
        let mut subscriber = store.subscriber();
        if let Some(spin) = spin {
            subscriber.set_spin(Duration::from_micros(spin));
        }
        subscriber
            .subscribe(Topic::Channel, &[CHANNEL])
            .expect("room");
        self.ready.wait();
        let mut times = Vec::new();
        for number in 1..=self.all {
            let event = subscriber.next(None).expect("a sound ring");
            let Some(Event::Message(message)) = event else {
                panic!("expected message {number}, got {event:?}");
            };
            if number <= self.single {
                times.push(self.age(message.payload));
            }
            self.got[index].0.store(number, Ordering::Release);
        }
        times
    }

    fn receive_from_socket(&self, index: usize, path: &Path) -> Vec<u64> {
        let mut socket = connect(path);
        let subscribe = command(&[b"SUBSCRIBE", CHANNEL]);
        socket.write_all(&subscribe).expect("a server");
        let reply = b"*3\r\n$9\r\nsubscribe\r\n$7\r\nchannel\r\n:1\r\n";
        socket
            .read_exact(&mut vec![0; reply.len()])
            .expect("a reply");
        self.ready.wait();
        // All messages have the same length, so no parser is needed.
        let message = command(&[b"message", CHANNEL, &payload(0)]).len();
        let place = message - PAYLOAD - 2;
        let (mut times, mut number) = (Vec::new(), 0);
        let mut buffer = vec![0; 256 * 1024];
        let mut filled = 0;
        while number < self.all {
            let read = socket.read(&mut buffer[filled..]).expect("messages");
            assert!(read > 0, "the server closed the connection");
            filled += read;
            let whole = filled / message;
            for start in (0..whole).map(|index| index * message) {
                number += 1;
                if number <= self.single {
                    times.push(self.age(&buffer[start + place..]));
                }
            }
            buffer.copy_within(whole * message..filled, 0);
            filled -= whole * message;
            self.got[index].0.store(number, Ordering::Release);
        }
        times
    }
}

fn connect(path: &Path) -> UnixStream {
    UnixStream::connect(path).expect("a server")
}

fn command(words: &[&[u8]]) -> Vec<u8> {
    let mut out = format!("*{}\r\n", words.len()).into_bytes();
    for word in words {
        out.extend_from_slice(format!("${}\r\n", word.len()).as_bytes());
        out.extend_from_slice(word);
        out.extend_from_slice(b"\r\n");
    }
    out
}

impl Sender<'_> {
    fn send(&mut self, payload: &[u8], times: u64) {
        match self {
            Sender::Store(store) => {
                let sent = match times {
                    1 => store.publish(Topic::Channel, CHANNEL, payload),
                    _ => {
                        let payloads = vec![payload; times as usize];
                        store.publish_all(Topic::Channel, CHANNEL, &payloads)
                    }
                };
                assert!(sent.expect("room") > 0);
            }
            Sender::Socket(socket) => {
                let one = command(&[b"PUBLISH", CHANNEL, payload]);
                socket
                    .write_all(&one.repeat(times as usize))
                    .expect("a server");
                // Each reply, `:1` or `:10`, contains one line feed.
                let (mut ends, mut buffer) = (0, [0; 4096]);
                while ends < times {
                    let read = socket.read(&mut buffer).expect("replies");
                    ends += buffer[..read].iter().filter(|&&byte| byte == b'\n').count() as u64;
                }
            }
        }
    }
}
