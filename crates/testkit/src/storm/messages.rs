//! Processes that publish and subscribe until they are killed.
//!
//! A message says who sent it and its number among the sender's messages, and
//! carries a checksum. So a receiver sees what is torn, out of order, or missing
//! without having been told.

use std::collections::HashMap;
use std::path::Path;
use std::time::Duration;

use undercroft_engine::messages::{Event, Subscriber, Topic};
use undercroft_engine::{Error, Store};

use super::Progress;

/// Where messages are published.
pub const CHANNELS: [&[u8]; 3] = [b"storm:0", b"storm:1", b"storm:2"];
/// Bytes of a message besides what fills it.
const FRAME: usize = 20;

fn message(sender: u64, number: u64, length: usize) -> Vec<u8> {
    let mut bytes = [sender.to_le_bytes(), number.to_le_bytes()].concat();
    bytes.resize(16 + length, (sender ^ number) as u8);
    bytes.extend_from_slice(&crc32fast::hash(&bytes).to_le_bytes());
    bytes
}

/// The sender and the number of a message.
fn parse(bytes: &[u8]) -> Result<(u64, u64), String> {
    let torn = || format!("a torn message of {} bytes", bytes.len());
    if bytes.len() < FRAME {
        return Err(torn());
    }
    let (content, sum) = bytes.split_at(bytes.len() - 4);
    if crc32fast::hash(content).to_le_bytes() != sum {
        return Err(torn());
    }
    let word = |at: usize| content[at..].first_chunk().copied().map(u64::from_le_bytes);
    word(0).zip(word(8)).ok_or_else(torn)
}

/// Publishes. Returns only to say what went wrong.
pub fn publish(path: &Path, progress: &Path, seed: u64) -> Result<(), String> {
    let say = |error: Error| error.to_string();
    let store = Store::open(path, true).map_err(say)?;
    let progress = Progress::open(progress).map_err(|error| error.to_string())?;
    let mut random = fastrand::Rng::with_seed(seed);
    let mut number = 0;
    loop {
        let count = [1, 1, 1, 3, 20][random.usize(0..5)];
        let messages: Vec<Vec<u8>> = (0..count)
            .map(|_| {
                number += 1;
                let length = match random.u32(0..20_000) {
                    // More than a record of the ring takes.
                    0 => random.usize(20_000..60_000),
                    1..100 => random.usize(4000..12_000),
                    100..4000 => random.usize(0..8),
                    _ => random.usize(8..200),
                };
                message(seed, number, length)
            })
            .collect();
        let bodies: Vec<&[u8]> = messages.iter().map(Vec::as_slice).collect();
        let channel = CHANNELS[random.usize(0..CHANNELS.len())];
        store
            .publish_all(Topic::Channel, channel, &bodies)
            .map_err(say)?;
        progress.operation(0);
        // Sometimes for long enough that those who receive fall asleep.
        match random.u32(0..20) {
            0 => std::thread::sleep(Duration::from_micros(random.u64(0..2000))),
            1..6 => std::thread::yield_now(),
            _ => {}
        }
    }
}

/// Subscribes, to the channels or to a pattern. Returns only to say what went
/// wrong.
pub fn subscribe(path: &Path, progress: &Path, seed: u64) -> Result<(), String> {
    let say = |error: Error| error.to_string();
    let store = Store::open(path, true).map_err(say)?;
    let progress = Progress::open(progress).map_err(|error| error.to_string())?;
    let mut random = fastrand::Rng::with_seed(seed);
    let mut subscriber = store.subscriber();
    if random.bool() {
        subscriber.set_spin(Duration::ZERO);
    }
    if random.bool() {
        subscriber.subscribe(Topic::Channel, &CHANNELS)
    } else {
        subscriber.subscribe(Topic::Pattern, &[b"storm:*"])
    }
    .map_err(say)?;
    let mut ledger = Ledger::default();
    loop {
        ledger.receive(&mut subscriber, None)?;
        progress.set_messages(ledger.received, ledger.lost);
        progress.operation(0);
        if random.u32(0..2000) == 0 {
            // So that it is lapped at times.
            std::thread::sleep(Duration::from_millis(random.u64(0..20)));
        }
    }
}

/// What one subscriber received, and what it was told of.
#[derive(Debug, Default)]
pub struct Ledger {
    /// Messages received.
    pub received: u64,
    /// Messages of which it was told that they were lost.
    pub lost: u64,
    /// Messages that are missing between others of the same sender.
    missing: u64,
    last: HashMap<u64, u64>,
}

impl Ledger {
    /// Receives one message, or is told of lost ones. Returns whether something
    /// came within the time.
    ///
    /// # Errors
    /// What is wrong with what came.
    pub fn receive(
        &mut self,
        subscriber: &mut Subscriber<&Store>,
        timeout: Option<Duration>,
    ) -> Result<bool, String> {
        let event = subscriber.next(timeout);
        match event.map_err(|error| error.to_string())? {
            None => return Ok(false),
            Some(Event::Lost(count)) => self.lost += count,
            Some(Event::Message(message)) => {
                self.received += 1;
                let (sender, number) = parse(message.payload)?;
                if let Some(last) = self.last.insert(sender, number) {
                    if number <= last {
                        return Err(format!("expected more than {last}, got {number}"));
                    }
                    self.missing += number - last - 1;
                }
            }
        }
        if self.missing > self.lost {
            return Err(format!(
                "{} messages are missing, and it was told of {}",
                self.missing, self.lost
            ));
        }
        Ok(true)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_with_a_changed_bit_is_torn() {
        let mut bytes = message(5, 6, 30);
        assert_eq!(parse(&bytes), Ok((5, 6)));
        bytes[20] ^= 1;
        assert!(parse(&bytes).is_err() && parse(&bytes[..7]).is_err());
    }
}
