//! Runs processes that publish and subscribe until they are killed.
//!
//! A message contains its sender, its number among the sender's messages, and a checksum. A
//! receiver can therefore detect torn messages, reordered messages, and losses that were not
//! reported.

use std::collections::HashMap;
use std::path::Path;
use std::time::Duration;

use undercroft_engine::messages::{Event, Subscriber, Topic};
use undercroft_engine::{Error, Store};

use super::Progress;

/// The channels of the storm.
pub const CHANNELS: [&[u8]; 3] = [b"storm:0", b"storm:1", b"storm:2"];
/// The size, in bytes, of a message without its padding.
const FRAME: usize = 20;

fn message(sender: u64, number: u64, length: usize) -> Vec<u8> {
    let mut bytes = [sender.to_le_bytes(), number.to_le_bytes()].concat();
    bytes.resize(16 + length, (sender ^ number) as u8);
    bytes.extend_from_slice(&crc32fast::hash(&bytes).to_le_bytes());
    bytes
}

/// Returns the sender and the number of a message, after verifying its checksum.
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

/// Publishes messages until the process is killed. Returns only if an operation fails.
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
                    // The message does not fit in a record of the ring.
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
        // Some pauses are long enough for the subscribers to fall asleep.
        match random.u32(0..20) {
            0 => std::thread::sleep(Duration::from_micros(random.u64(0..2000))),
            1..6 => std::thread::yield_now(),
            _ => {}
        }
    }
}

/// Subscribes to the channels or to a pattern, and receives messages until the process is killed.
/// Returns only if an operation or a check fails.
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
            // Pause occasionally, so that publishers overwrite messages that this subscriber has
            // not read.
            std::thread::sleep(Duration::from_millis(random.u64(0..20)));
        }
    }
}

/// The number of messages that one subscriber has received, and the losses that were reported to
/// it.
#[derive(Debug, Default)]
pub struct Ledger {
    /// The number of received messages.
    pub received: u64,
    /// The number of messages that were reported as lost.
    pub lost: u64,
    /// The number of messages that are missing between received messages from the same sender.
    missing: u64,
    last: HashMap<u64, u64>,
}

impl Ledger {
    /// Receives a message or a report of lost messages. Returns false if nothing arrived within the
    /// timeout.
    ///
    /// # Errors
    /// Fails if a message is torn or out of order, or if losses were not reported.
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
    fn a_flipped_bit_makes_a_message_torn() {
        let mut bytes = message(5, 6, 30);
        assert_eq!(parse(&bytes), Ok((5, 6)));
        bytes[20] ^= 1;
        assert!(parse(&bytes).is_err() && parse(&bytes[..7]).is_err());
    }
}
