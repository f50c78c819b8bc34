//! A replica's socket, which waits for the peer, but no longer than until the replica is dropped or
//! the server stops.

use std::io::{self, Write};
use std::os::fd::AsFd;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::shared::replica::Replica;
use crate::shared::state::Shared;
use crate::sockets::transport::{Received, Transport};

/// The longest wait without checking whether the server stops.
const CHECK: Duration = Duration::from_millis(100);

/// The socket of a replica.
pub(super) struct Socket<'a> {
    pub(super) socket: Transport,
    pub(super) replica: &'a Replica,
    pub(super) server: &'a Shared,
}

impl Socket<'_> {
    /// Returns whether the connection must be closed.
    pub(super) fn must_close(&self) -> bool {
        self.replica.is_dropped() || self.server.stopping() || self.server.change.is_begun()
    }

    /// Waits until the socket is ready, the replica's waker wakes, or some time has passed.
    pub(super) fn wait(&self, flags: PollFlags) -> io::Result<()> {
        let mut events = [
            PollFd::new(&self.socket, flags),
            PollFd::from_borrowed_fd(self.replica.waker.as_fd(), PollFlags::IN),
        ];
        let time = Timespec {
            tv_sec: 0,
            tv_nsec: CHECK.subsec_nanos().into(),
        };
        match poll(&mut events, Some(&time)) {
            Ok(_) | Err(rustix::io::Errno::INTR) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// Appends the bytes that have arrived to `input`, without waiting.
    pub(super) fn receive(&mut self, input: &mut Vec<u8>) -> io::Result<()> {
        input.reserve(4096);
        match self.socket.receive(input) {
            Ok(Received::End) => Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(Received::Bytes(_)) => Ok(()),
            Err(error) => match error.kind() {
                io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted => Ok(()),
                _ => Err(error),
            },
        }
    }

    /// Waits until the socket accepts bytes.
    fn wait_for_room(&self) -> io::Result<()> {
        if self.must_close() {
            return Err(io::ErrorKind::ConnectionAborted.into());
        }
        self.replica.waker.clear();
        self.wait(PollFlags::OUT)
    }
}

impl Write for Socket<'_> {
    /// Sends bytes, and waits until the peer accepts at least one.
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        loop {
            match self.socket.send(bytes) {
                Ok(count) => {
                    while self.socket.has_unsent() {
                        self.wait_for_room()?;
                        self.socket.flush()?;
                    }
                    return Ok(count);
                }
                Err(rustix::io::Errno::AGAIN | rustix::io::Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
            self.wait_for_room()?;
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
