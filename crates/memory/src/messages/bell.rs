//! Bells: descriptors for event loops (M4). Each combines a datagram socket, to which wakers send,
//! with a timer.
//!
//! The sockets are in a directory of mode 0700 next to the store, and each is named after its seat
//! (the waiter's word in the process table). A waker creates a new socket for each wake. It
//! therefore never holds a descriptor whose number could later refer to another file (L2), and the
//! socket costs nothing unless an event loop is asleep.

use std::fs::{self, DirBuilder, File};
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::error::Error;
use crate::mapped::platform;
use crate::messages::seat::{Seat, SeatName};
use crate::segment::Segment;

/// The maximum length of a path in a socket address, in bytes.
const ADDRESS_MAX: usize = 107;
/// The timer's period, which limits the delay if a wake is lost.
const PERIOD: Duration = Duration::from_millis(100);

/// A descriptor that becomes readable when its seat is woken, and also ten times a second.
#[derive(Debug)]
pub struct Bell {
    /// The descriptor for the event loop, which is readable when the socket or the timer is
    /// readable.
    poll: OwnedFd,
    /// The socket and its path. `None` if this process may not create a socket because it has
    /// dropped its privileges; in that case, only the timer wakes the event loop.
    socket: Option<(UnixDatagram, PathBuf)>,
    timer: OwnedFd,
}

/// Returns the directory of a store's sockets.
fn directory(store: &Path) -> PathBuf {
    let mut name = store.as_os_str().to_owned();
    name.push(".wake");
    name.into()
}

/// Returns the file name of a seat's socket.
fn file_name(name: SeatName) -> String {
    format!("{}.{}.{}", name.slot(), name.generation(), name.seat())
}

/// Calls `body` with a path to the socket that fits in a socket address.
fn with_address<R>(
    directory: &Path,
    name: &str,
    body: impl FnOnce(&Path) -> io::Result<R>,
) -> io::Result<R> {
    let path = directory.join(name);
    if path.as_os_str().as_bytes().len() <= ADDRESS_MAX {
        return body(&path);
    }
    let opened = File::open(directory)?;
    body(Path::new(&format!(
        "/proc/self/fd/{}/{name}",
        opened.as_raw_fd()
    )))
}

/// Makes a seat's descriptor readable. Errors are ignored: either the waiter is gone, or it has not
/// yet read earlier wakes.
pub(crate) fn ring(store: &Path, name: SeatName) {
    let sent = UnixDatagram::unbound().and_then(|socket| {
        socket.set_nonblocking(true)?;
        with_address(&directory(store), &file_name(name), |path| {
            socket.send_to(&[1], path)
        })
    });
    // If the send failed, the waiter's timer wakes it instead.
    drop(sent);
}

impl Segment {
    /// Creates a bell (a descriptor for event loops) for a seat of this process.
    pub fn bell(&self, seat: &Seat) -> Result<Bell, Error> {
        let directory = directory(self.path());
        open(&directory, seat.name()).map_err(|source| Error::Io {
            doing: "making a socket in",
            path: directory,
            source,
        })
    }
}

/// Binds a seat's socket after removing any file at its path.
fn bind(directory: &Path, name: SeatName) -> io::Result<UnixDatagram> {
    prepare(directory)?;
    sweep(directory, name)?;
    let socket = with_address(directory, &file_name(name), |path| UnixDatagram::bind(path))?;
    socket.set_nonblocking(true)?;
    Ok(socket)
}

/// Creates the directory, or checks that an existing directory belongs to this user and is
/// inaccessible to others.
fn prepare(directory: &Path) -> io::Result<()> {
    match DirBuilder::new().mode(0o700).create(directory) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
        result => return result,
    }
    let status = directory.symlink_metadata()?;
    let mine = status.uid() == platform::effective_user();
    if status.is_dir() && mine && status.mode() & 0o077 == 0 {
        return Ok(());
    }
    Err(io::Error::new(
        io::ErrorKind::PermissionDenied,
        "expected a directory with mode 0700 that belongs to this user",
    ))
}

/// Removes the sockets left by earlier owners of the slot.
fn sweep(directory: &Path, name: SeatName) -> io::Result<()> {
    let slot = format!("{}.", name.slot());
    let current = format!("{}.{}.", name.slot(), name.generation());
    for entry in fs::read_dir(directory)? {
        let found = entry?.file_name();
        let found = found.as_bytes();
        let stale = found.starts_with(slot.as_bytes()) && !found.starts_with(current.as_bytes());
        if stale || found == file_name(name).as_bytes() {
            match fs::remove_file(directory.join(std::ffi::OsStr::from_bytes(found))) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                _ => {}
            }
        }
    }
    Ok(())
}

impl Bell {
    /// Consumes all wakes received so far. Only the next wake makes the descriptor readable again.
    pub fn clear(&self) {
        if let Some((socket, _)) = &self.socket {
            let mut buffer = [0; 8];
            while socket.recv(&mut buffer).is_ok() {}
        }
        platform::read_timer(&self.timer);
    }

    /// Removes the socket. Only the process that created the socket may call this, not a forked
    /// child.
    pub fn remove(self) {
        if let Some((_, path)) = &self.socket {
            // If the removal fails, the next user of the seat removes the file.
            let _ = fs::remove_file(path);
        }
    }
}

impl AsFd for Bell {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.poll.as_fd()
    }
}

/// Removes the socket directory of a deleted store.
pub fn remove_sockets(store: &Path) -> io::Result<()> {
    match fs::remove_dir_all(directory(store)) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        result => result,
    }
}

/// Opens the descriptors of a bell.
fn open(directory: &Path, name: SeatName) -> io::Result<Bell> {
    let socket = match bind(directory, name) {
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => None,
        bound => Some((bound?, directory.join(file_name(name)))),
    };
    let timer = platform::timer(PERIOD)?;
    let mut readable = vec![timer.as_fd()];
    readable.extend(socket.as_ref().map(|(socket, _)| socket.as_fd()));
    let poll = platform::poll_of(&readable)?;
    Ok(Bell {
        poll,
        socket,
        timer,
    })
}
