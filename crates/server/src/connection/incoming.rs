//! A long value on its way from a socket straight into the store.
//!
//! Where of a plain SET only the value is still missing, and the value is long, its memory is taken in the store, where
//! nobody can reach it yet, and the socket's bytes are received there (W8). The command is run once they are all there.
//! Dropped before that, as its connection may be, it gives the memory back; that of a server that was killed is freed
//! with what else the dead leave.

use std::io;
use std::os::fd::AsFd;
use std::sync::Arc;

use undercroft_commands::arguments::is_keyword;
use undercroft_commands::{Blocked, Context, execute, execute_staged_set, is_plain};
use undercroft_engine::{PutDown, Store};
use undercroft_resp::RequestParser;

use crate::connection::writer::Writer;
use crate::shared::limits::Limits;

/// Values shorter than this are copied out of what was received.
const SHORTEST: usize = 64 * 1024;
/// So much of them must be missing for it to be worth while.
pub(crate) const REST: usize = 16 * 1024;
/// Values up to this length have their memory as soon as they are announced.
const AT_ONCE: usize = 1024 * 1024;
/// Longer ones once so small a part of them is there: a client pays for its memory in bytes.
const PART: usize = 16;
/// What ends a value.
const END: usize = 2;

/// A SET whose value is being received.
pub(crate) struct Incoming {
    store: Arc<Store>,
    key: Vec<u8>,
    /// None once it is a key's, or freed.
    value: Option<PutDown>,
    length: usize,
    /// Bytes of the value and of its end that have come.
    received: usize,
}

impl Incoming {
    /// Begins with the command at the start of `input`, which goes on beyond it, if it is one of these.
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
        // Where there is no room, or the lock is held by others: the command itself will tell.
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

    /// Receives what has come; what is behind the value and its end goes to `more`, which is empty before. Returns how
    /// many bytes came in all.
    pub(crate) fn receive(&mut self, socket: impl AsFd, more: &mut Vec<u8>) -> io::Result<usize> {
        let Some(value) = self.value.take() else {
            return Ok(0);
        };
        let mut staged = self.store.take_up(value);
        let position = self.received.min(self.length);
        let received = staged.receive(position as u64, socket.as_fd(), more);
        self.value = Some(staged.put_down());
        let bytes = received?;
        // The end is skipped unread, as elsewhere; some of it may have come before.
        let beyond = bytes.saturating_sub(self.length - position);
        let end = beyond.min(END - (self.received - position));
        more.drain(..end);
        self.received += bytes - beyond + end;
        Ok(bytes)
    }

    /// Whether it is all there.
    pub(crate) fn is_whole(&self) -> bool {
        self.received == self.length + END
    }

    /// Bytes that have come, and that are still to come.
    pub(crate) fn progress(&self) -> (usize, usize) {
        (self.received, self.length + END - self.received)
    }

    /// The key that is set.
    pub(crate) fn key(&self) -> &[u8] {
        &self.key
    }

    /// Runs the command.
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
            // It is to be shown, or timed by itself, since it began: as any other.
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
