//! Wraps a thread's epoll instance, and an eventfd that wakes the thread.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

use rustix::buffer::spare_capacity;
use rustix::event::epoll::{self, CreateFlags, Event, EventData, EventFlags};
use rustix::event::{EventfdFlags, Timespec, eventfd};

/// The maximum number of events that one call reads from the kernel.
const EVENTS: usize = 512;

/// The events for which a socket is registered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Interest {
    pub(crate) read: bool,
    pub(crate) write: bool,
}

impl Interest {
    pub(crate) const READ: Interest = Interest {
        read: true,
        write: false,
    };

    fn flags(self) -> EventFlags {
        let mut flags = EventFlags::empty();
        flags.set(EventFlags::IN, self.read);
        flags.set(EventFlags::OUT, self.write);
        flags
    }
}

/// The readiness of one socket.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ready {
    /// The token with which the socket was registered.
    pub(crate) token: u64,
    pub(crate) readable: bool,
    pub(crate) writable: bool,
    /// Whether the connection is broken or closed in both directions. Always reported, regardless
    /// of the registered events.
    pub(crate) hung_up: bool,
}

/// A level-triggered epoll instance, which reports unread input again in the next wait.
pub(crate) struct Poll {
    epoll: OwnedFd,
}

/// The events that the last wait returned.
pub(crate) struct Events(Vec<Event>);

impl Events {
    pub(crate) fn new() -> Events {
        Events(Vec::with_capacity(EVENTS))
    }

    /// Returns whether the last wait returned at least two events.
    pub(crate) fn are_many(&self) -> bool {
        self.0.len() > 1
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = Ready> {
        self.0.iter().map(|event| {
            let Event { flags, data, .. } = *event;
            Ready {
                token: data.u64(),
                readable: flags.contains(EventFlags::IN),
                writable: flags.contains(EventFlags::OUT),
                hung_up: flags.intersects(EventFlags::HUP | EventFlags::ERR),
            }
        })
    }
}

impl Poll {
    pub(crate) fn new() -> io::Result<Poll> {
        let epoll = epoll::create(CreateFlags::CLOEXEC)?;
        Ok(Poll { epoll })
    }

    pub(crate) fn add(&self, socket: impl AsFd, token: u64, interest: Interest) -> io::Result<()> {
        let data = EventData::new_u64(token);
        Ok(epoll::add(&self.epoll, socket, data, interest.flags())?)
    }

    /// Registers a socket on which several threads wait. The kernel wakes at least one of the
    /// threads. The registered events cannot be modified: the socket can only be removed.
    pub(crate) fn add_shared(&self, socket: impl AsFd, token: u64) -> io::Result<()> {
        let data = EventData::new_u64(token);
        let flags = EventFlags::IN | EventFlags::EXCLUSIVE;
        Ok(epoll::add(&self.epoll, socket, data, flags)?)
    }

    pub(crate) fn modify(
        &self,
        socket: impl AsFd,
        token: u64,
        interest: Interest,
    ) -> io::Result<()> {
        let data = EventData::new_u64(token);
        Ok(epoll::modify(&self.epoll, socket, data, interest.flags())?)
    }

    pub(crate) fn remove(&self, socket: impl AsFd) -> io::Result<()> {
        Ok(epoll::delete(&self.epoll, socket)?)
    }

    /// Waits until a socket is ready or `timeout` has elapsed.
    pub(crate) fn wait(&self, events: &mut Events, timeout: Duration) -> io::Result<()> {
        let timeout = Timespec {
            tv_sec: timeout.as_secs() as i64,
            tv_nsec: timeout.subsec_nanos().into(),
        };
        events.0.clear();
        let buffer = spare_capacity(&mut events.0);
        match epoll::wait(&self.epoll, buffer, Some(&timeout)) {
            Ok(_) | Err(rustix::io::Errno::INTR) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }
}

/// An eventfd that wakes a thread waiting for events.
#[derive(Debug)]
pub(crate) struct Waker(OwnedFd);

impl Waker {
    pub(crate) fn new() -> io::Result<Waker> {
        let flags = EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK;
        Ok(Waker(eventfd(0, flags)?))
    }

    pub(crate) fn wake(&self) {
        // The write fails only if 2^64 - 2 wakes are pending, in which case the thread is already
        // awake.
        let _ = rustix::io::write(&self.0, &1u64.to_ne_bytes());
    }

    /// Consumes the pending wakes, so that the next wait does not return immediately.
    pub(crate) fn clear(&self) {
        let mut count = [0; 8];
        let _ = rustix::io::read(&self.0, &mut count);
    }
}

impl AsFd for Waker {
    fn as_fd(&self) -> std::os::fd::BorrowedFd<'_> {
        self.0.as_fd()
    }
}
