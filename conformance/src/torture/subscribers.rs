//! Tests subscribers that do not read and exceed the limits on their output.

use std::io;
use std::time::{Duration, Instant};

use anyhow::{Result, bail, ensure};

use super::inputs::is_closed;
use super::{Note, Target};
use crate::client::Client;
use crate::resp::Reply;

const CHANNEL: &str = "torture:channel";
/// The length of a message in bytes.
const LENGTH: usize = 64 << 10;
/// The number of messages, which is enough to overflow the socket buffers between two processes.
const MESSAGES: usize = 600;
/// The time limit for a server to notice that an output limit was exceeded.
const PATIENCE: Duration = Duration::from_secs(60);

/// A publisher, a subscriber that reads immediately, and a subscriber that never reads.
struct Audience {
    owner: Client,
    reads: Client,
    slow: Client,
    sent: usize,
}

impl Audience {
    fn new(target: &Target, limit: &str) -> Result<Audience> {
        let mut owner = Client::connect(&target.address)?;
        set_limit(&mut owner, limit)?;
        let [mut reads, mut slow] = [
            Client::connect(&target.address)?,
            Client::connect(&target.address)?,
        ];
        for subscriber in [&mut reads, &mut slow] {
            subscriber.call(["SUBSCRIBE", CHANNEL])?;
        }
        Ok(Audience {
            owner,
            reads,
            slow,
            sent: 0,
        })
    }

    /// Publishes one message, which must reach the reading subscriber. Returns whether the slow
    /// subscriber is still subscribed.
    fn publish(&mut self, length: usize) -> Result<bool> {
        let payload = vec![b'x'; length];
        let command = [b"PUBLISH".to_vec(), CHANNEL.into(), payload.clone()];
        let receivers = self.owner.call(command)?;
        self.sent += 1;
        let message = self.reads.receive()?;
        let expected = [b"message".to_vec(), CHANNEL.into(), payload];
        let expected = Reply::Array(expected.map(Reply::Bulk).to_vec());
        ensure!(
            message == expected,
            "message {} differs for a subscriber that reads",
            self.sent
        );
        match receivers {
            Reply::Integer(2) => Ok(true),
            Reply::Integer(1) => Ok(false),
            other => bail!("expected 1 or 2 receivers, got {other:?}"),
        }
    }

    /// Reads the messages sent to the slow subscriber until its connection ends.
    fn end(mut self) -> Result<usize> {
        let whole = read_to_the_end(|| self.slow.receive())?;
        ensure!(
            whole < self.sent,
            "the connection was closed although everything was sent"
        );
        Ok(whole)
    }
}

/// Reads messages until the server has closed the connection. Returns the number of complete
/// messages.
fn read_to_the_end(mut receive: impl FnMut() -> io::Result<Reply>) -> Result<usize> {
    let mut whole = 0;
    loop {
        match receive() {
            Ok(Reply::Array(parts)) if parts.len() == 3 => whole += 1,
            Ok(other) => bail!("expected a message, got {other:?}"),
            Err(error) if is_closed(&error) => return Ok(whole),
            Err(error) => bail!("expected a closed connection after {whole} messages, got {error}"),
        }
    }
}

fn set_limit(owner: &mut Client, limit: &str) -> Result<()> {
    let reply = owner.call(["CONFIG", "SET", "client-output-buffer-limit", limit])?;
    ensure!(reply == Reply::Simple(b"OK".to_vec()), "{limit}: {reply:?}");
    Ok(())
}

/// Checks that a subscriber that does not read is disconnected when its pending output exceeds the
/// hard limit, while a subscriber that reads receives everything.
///
/// # Errors
/// Returns an error that states the expected and the actual outcome.
pub fn subscriber_beyond_the_hard_limit(target: &Target) -> Result<Note> {
    let mut audience = Audience::new(target, "pubsub 1048576 0 0")?;
    let start = Instant::now();
    while audience.publish(LENGTH)? {
        ensure!(
            audience.sent < MESSAGES || start.elapsed() < PATIENCE,
            "still subscribed with {} unread messages",
            audience.sent
        );
    }
    let sent = audience.sent;
    let whole = audience.end()?;
    Ok(format!(
        "closed after {sent} messages, {whole} of them sent"
    ))
}

/// Checks that a subscriber above the soft limit stays connected until the limit's time has passed.
///
/// # Errors
/// Returns an error that states the expected and the actual outcome.
pub fn subscriber_beyond_the_soft_limit(target: &Target) -> Result<Note> {
    let mut audience = Audience::new(target, "pubsub 0 1048576 100000")?;
    for _ in 0..MESSAGES {
        ensure!(audience.publish(LENGTH)?, "closed too early");
    }
    set_limit(&mut audience.owner, "pubsub 0 1048576 1")?;
    let start = Instant::now();
    while audience.publish(1)? {
        ensure!(
            start.elapsed() < PATIENCE,
            "still subscribed after {PATIENCE:?}"
        );
        std::thread::sleep(Duration::from_millis(5));
    }
    let waited = start.elapsed();
    let whole = audience.end()?;
    Ok(format!(
        "closed {waited:?} after the limit became 1 second, {whole} messages sent"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(last: io::ErrorKind) -> Result<usize> {
        let message = Reply::Array(vec![Reply::Null; 3]);
        let mut came = [Ok(message.clone()), Ok(message), Err(last.into())].into_iter();
        read_to_the_end(|| came.next().expect("it ended before"))
    }

    #[test]
    fn only_a_closed_connection_ends_the_messages() {
        assert_eq!(read(io::ErrorKind::UnexpectedEof).expect("closed"), 2);
        assert_eq!(read(io::ErrorKind::ConnectionReset).expect("closed"), 2);
        // A read returns this error on timeout, while the server keeps the connection open.
        assert!(read(io::ErrorKind::WouldBlock).is_err());
        assert!(read(io::ErrorKind::InvalidData).is_err());
    }
}
