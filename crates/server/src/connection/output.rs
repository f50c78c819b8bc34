//! Manages unsent replies and their buffers.

use rustix::io::Errno;

use crate::shared::totals::Traffic;
use crate::sockets::transport::Transport;

/// The capacity of a new buffer, in bytes.
const NEW: usize = 64 * 1024;
/// The maximum total capacity, in bytes, of a thread's spare buffers.
const KEPT: usize = 16 * 1024 * 1024;

/// The unsent bytes for one client. A buffer is allocated only while there are unsent bytes.
#[derive(Default)]
pub(crate) struct Output {
    bytes: Vec<u8>,
    /// The number of bytes at the start of `bytes` that have been sent.
    sent: usize,
}

impl Output {
    /// Returns the number of unsent bytes.
    pub(crate) fn pending(&self) -> usize {
        self.bytes.len() - self.sent
    }

    /// Returns the capacity of the buffer in bytes.
    pub(crate) fn memory(&self) -> usize {
        self.bytes.capacity()
    }

    /// Removes and returns the buffer, so that the caller can append to it. The caller must [put it
    /// back](Self::put).
    #[inline]
    pub(crate) fn take(&mut self, spares: &mut SpareBuffers) -> Vec<u8> {
        if self.bytes.capacity() == 0 {
            return spares.take();
        }
        // Remove the sent bytes only if they make up more than half of the buffer, so that each
        // byte is moved at most once.
        if self.sent > self.bytes.len() / 2 {
            self.bytes.drain(..self.sent);
            self.sent = 0;
        }
        std::mem::take(&mut self.bytes)
    }

    /// Puts back the buffer that [`take`](Self::take) returned.
    #[inline]
    pub(crate) fn put(&mut self, bytes: Vec<u8>) {
        self.bytes = bytes;
    }

    /// Appends the bytes that `write` writes.
    pub(crate) fn append(&mut self, spares: &mut SpareBuffers, write: impl FnOnce(&mut Vec<u8>)) {
        let mut bytes = self.take(spares);
        write(&mut bytes);
        self.put(bytes);
    }

    /// Sends as many bytes as the socket accepts.
    #[inline]
    pub(crate) fn send(
        &mut self,
        socket: &mut Transport,
        spares: &mut SpareBuffers,
        traffic: &mut Traffic,
    ) -> Result<(), Errno> {
        while self.sent < self.bytes.len() {
            match socket.send(&self.bytes[self.sent..]) {
                Ok(bytes) => {
                    self.sent += bytes;
                    traffic.output += bytes as u64;
                    traffic.writes += 1;
                    if self.sent < self.bytes.len() {
                        // The socket's send buffer is full.
                        return Ok(());
                    }
                }
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => return Ok(()),
                Err(error) => return Err(error),
            }
        }
        self.sent = 0;
        spares.give(std::mem::take(&mut self.bytes));
        socket.flush()
    }
}

/// Spare output buffers that a thread's connections share. Writing a long reply into fresh memory
/// costs more than copying it, and reused memory avoids this cost.
#[derive(Default)]
pub(crate) struct SpareBuffers {
    buffers: Vec<Vec<u8>>,
    /// The total capacity of the buffers in bytes.
    memory: usize,
    /// The smallest number of spare buffers since the last call to `look_after`.
    fewest: usize,
}

impl SpareBuffers {
    /// Returns an empty buffer: the spare buffer that was used last, or a new one.
    #[inline]
    fn take(&mut self) -> Vec<u8> {
        let Some(buffer) = self.buffers.pop() else {
            return Vec::with_capacity(NEW);
        };
        self.memory -= buffer.capacity();
        self.fewest = self.fewest.min(self.buffers.len());
        buffer
    }

    /// Returns a buffer to the spare buffers, or frees it if their total capacity would exceed the
    /// limit.
    #[inline]
    fn give(&mut self, mut buffer: Vec<u8>) {
        if buffer.capacity() > 0 && self.memory + buffer.capacity() <= KEPT {
            self.memory += buffer.capacity();
            buffer.clear();
            self.buffers.push(buffer);
        }
    }

    /// Frees the buffers that have not been used since the last call.
    pub(crate) fn look_after(&mut self) {
        for unused in self.buffers.drain(..self.fewest) {
            self.memory -= unused.capacity();
        }
        self.fewest = self.buffers.len();
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read;
    use std::os::unix::net::UnixStream;

    use super::*;

    #[test]
    fn output_beyond_the_socket_buffer_is_sent_later() {
        let (ours, mut theirs) = UnixStream::pair().expect("sockets");
        let mut ours = Transport::new(ours.into(), None, false).expect("no TLS");
        let (mut output, mut spares) = (Output::default(), SpareBuffers::default());
        let mut traffic = Traffic::default();
        let (mut expected, mut received) = (Vec::new(), Vec::new());
        let mut piece = vec![0; 300_000];
        for round in 0..20_u8 {
            piece.fill(round);
            output.append(&mut spares, |bytes| bytes.extend_from_slice(&piece));
            expected.extend_from_slice(&piece);
            output
                .send(&mut ours, &mut spares, &mut traffic)
                .expect("sent");
            assert!(output.pending() > 0, "a socket takes less at a time");
            // Read in small chunks, so that the client reads more slowly than the server writes.
            let mut some = vec![0; 100_000];
            let read = theirs.read(&mut some).expect("bytes");
            received.extend_from_slice(&some[..read]);
            assert!(output.memory() < 3 * (output.pending() + piece.len()));
        }
        while received.len() < expected.len() {
            output
                .send(&mut ours, &mut spares, &mut traffic)
                .expect("sent");
            let mut some = vec![0; 100_000];
            let read = theirs.read(&mut some).expect("bytes");
            received.extend_from_slice(&some[..read]);
        }
        assert!(received == expected);
        assert_eq!(traffic.output as usize, expected.len());
        assert_eq!((output.pending(), output.memory()), (0, 0));
    }

    #[test]
    fn buffers_are_reused_and_freed_when_unused() {
        let mut spares = SpareBuffers::default();
        let [mut one, two] = [spares.take(), spares.take()];
        one.extend_from_slice(&[1; 2 * NEW]);
        let memory = one.capacity() + two.capacity();
        spares.give(two);
        spares.give(one);
        assert_eq!(spares.memory, memory);
        spares.look_after();
        for _ in 0..3 {
            let one = spares.take();
            assert!(one.is_empty() && one.capacity() >= 2 * NEW);
            spares.give(one);
        }
        spares.look_after();
        assert_eq!(spares.buffers.len(), 1, "the other was not used");
        spares.look_after();
        assert_eq!((spares.buffers.len(), spares.memory), (0, 0));
        // Exceed the limit on the total capacity.
        spares.give(Vec::with_capacity(KEPT));
        spares.give(Vec::with_capacity(1));
        assert_eq!(spares.buffers.len(), 1);
    }
}
