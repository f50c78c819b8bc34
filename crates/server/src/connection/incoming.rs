//! Receives a long value from a socket directly into the store.
//!
//! If only part of a long value is missing from a plain SET, memory for the value is allocated in
//! the store, where no other process can reach it yet. The socket's bytes are read into this memory
//! (W8), and the command runs when the value is complete. If the value is dropped earlier, for
//! example because its connection is closed, its memory is freed. If the server is killed, recovery
//! frees the memory, like all memory that a dead process had allocated but not published.

use std::io;
use std::os::fd::AsFd;
use std::sync::Arc;

use undercroft_commands::arguments::is_keyword;
use undercroft_commands::{Blocked, Context, execute, execute_staged_set, is_plain};
use undercroft_engine::{Store, SuspendedBlock};
use undercroft_resp::RequestParser;

use crate::connection::writer::Writer;
use crate::shared::limits::Limits;

/// The minimum size, in bytes, of a value that is received directly. Smaller values are copied from
/// the receive buffer.
const SHORTEST: usize = 64 * 1024;
/// The minimum number of missing bytes for which receiving a value directly is worthwhile.
pub(crate) const REST: usize = 16 * 1024;
/// The maximum size, in bytes, of a value whose memory is allocated as soon as its length is known.
const AT_ONCE: usize = 1024 * 1024;
/// Memory for a larger value is allocated only after 1 / `PART` of the value has arrived, so that a
/// client cannot reserve memory without sending bytes.
const PART: usize = 16;
/// The size of a value's terminator, in bytes.
const END: usize = 2;

/// A SET command whose value is being received.
pub(crate) struct Incoming {
    store: Arc<Store>,
    key: Vec<u8>,
    /// The memory of the value, or `None` after the value has been stored under its key or freed.
    value: Option<SuspendedBlock>,
    length: usize,
    /// The number of bytes received so far, including the terminator.
    received: usize,
}

impl Incoming {
    /// Starts receiving the value of the incomplete command at the start of `input` directly into
    /// the store. Returns `None` if the command does not qualify.
    pub(crate) fn begin(
        store: &Arc<Store>,
        context: &Context<'_>,
        parser: &RequestParser,
        input: &[u8],
        limits: &Limits,
    ) -> Option<Incoming> {
        let ([name, key], value) = parser.unfinished()? else {
            return None;
        };
        let arrived = &input[value.start.min(input.len())..];
        let length = value.len;
        let is_meant = length >= SHORTEST
            && length <= limits.input
            && (length <= AT_ONCE || arrived.len() >= length / PART)
            && is_keyword(&input[name.range()], "SET")
            && is_plain(context);
        if !is_meant {
            return None;
        }
        let key = &input[key.range()];
        // If memory is short or the lock is held, do not receive the value directly: the command
        // will report the error when it runs.
        store.check_memory_for(length).ok()?;
        let mut staged = store.stage_room(&store.key(key), length as u64).ok()?;
        staged.fill(0, &arrived[..arrived.len().min(length)]);
        Some(Incoming {
            store: store.clone(),
            key: key.to_vec(),
            value: Some(staged.put_down()),
            length,
            received: arrived.len(),
        })
    }

    /// Reads the available bytes from the socket. Bytes after the value and its terminator are
    /// stored in `more`, which must be empty. Returns the total number of bytes that were read.
    pub(crate) fn receive(&mut self, socket: impl AsFd, more: &mut Vec<u8>) -> io::Result<usize> {
        let Some(value) = self.value.take() else {
            return Ok(0);
        };
        let mut staged = self.store.take_up(value);
        let position = self.received.min(self.length);
        let received = staged.receive(position as u64, socket.as_fd(), more);
        self.value = Some(staged.put_down());
        let bytes = received?;
        // Skip the terminator without checking it, as the parser does. The first byte of the
        // terminator can have arrived in an earlier call.
        let beyond = bytes.saturating_sub(self.length - position);
        let end = beyond.min(END - (self.received - position));
        more.drain(..end);
        self.received += bytes - beyond + end;
        Ok(bytes)
    }

    /// Returns whether the value and its terminator have been received completely.
    pub(crate) fn is_whole(&self) -> bool {
        self.received == self.length + END
    }

    /// Returns how many bytes have been received and how many are missing.
    pub(crate) fn progress(&self) -> (usize, usize) {
        (self.received, self.length + END - self.received)
    }

    /// Returns the key of the SET command.
    pub(crate) fn key(&self) -> &[u8] {
        &self.key
    }

    /// Runs the SET command with the received value.
    pub(crate) fn run(
        &mut self,
        context: &mut Context<'_>,
        reply: &mut Writer,
    ) -> Result<(), Blocked> {
        let Some(value) = self.value.take() else {
            return Ok(());
        };
        let staged = self.store.take_up(value);
        if !is_plain(context) {
            // The command is no longer plain, for example because MONITOR started while the value
            // arrived. Run the command normally.
            let mut text = Vec::new();
            staged.append_to(&mut text);
            let ran = execute(context, &[b"SET", &self.key, &text], reply);
            self.value = ran.is_err().then(|| staged.put_down());
            return ran;
        }
        execute_staged_set(context, &self.key, staged, reply).map_err(|(blocked, staged)| {
            self.value = Some(staged.put_down());
            blocked
        })
    }
}

impl Drop for Incoming {
    fn drop(&mut self) {
        if let Some(value) = self.value.take() {
            drop(self.store.take_up(value));
        }
    }
}
