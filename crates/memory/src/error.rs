//! What can go wrong with a store, said so that a person can act on it.

use std::fmt;
use std::io;
use std::path::PathBuf;

/// A structure in the store that does not hold together, found while reading.
///
/// Small and copyable, because reads produce it on the hot path; it becomes
/// [`Error::Damaged`] only when the shard's counter shows that the read was not
/// merely torn (R2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fault {
    /// Where in the file, in bytes.
    pub at: u64,
    /// What was expected there.
    pub what: &'static str,
}

/// What a [`Fault`] says where this process has no memory for what it reads.
const MEMORY: &str = "memory of this process";

impl Fault {
    /// This process has no memory for so many bytes of what it reads; becomes [`Error::NoMemory`].
    #[cold]
    pub fn no_memory(bytes: usize) -> Fault {
        Fault {
            at: bytes as u64,
            what: MEMORY,
        }
    }
}

/// Who holds a lock that could not be had.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Holder {
    /// The owner runs and writes.
    Active,
    /// The owner is stopped (SIGSTOP or a debugger); it may go on at any time.
    Stopped,
    /// The owner is dead; a process that may write will recover the shard.
    Dead,
    /// This process cannot find out whether the owner lives.
    Unknown,
}

/// Every error of this crate.
#[derive(Debug)]
#[non_exhaustive]
pub enum Error {
    /// The file is not a store that this build can use; it was not modified.
    NotAStore {
        /// The file.
        path: PathBuf,
        /// What was expected and what was found.
        reason: String,
    },
    /// The system refused a call on the store file.
    Io {
        /// What was being done.
        doing: &'static str,
        /// The file.
        path: PathBuf,
        /// The system's answer.
        source: io::Error,
    },
    /// A structure inside the store does not hold together.
    Damaged(Fault),
    /// The store, its file system, or a transaction's undo log is full.
    OutOfMemory,
    /// This process could not allocate memory for what it read.
    NoMemory {
        /// For so many bytes.
        bytes: u64,
    },
    /// A lock was not free within the caller's patience; nothing was changed.
    Busy {
        /// State of the process that holds the lock.
        holder: Holder,
        /// Its process id, as it wrote it into the process table; 0 if unknown.
        pid: u32,
    },
    /// Another process copies the store, and did so for longer than the caller's patience.
    Copying {
        /// Its process id; 0 if unknown.
        pid: u32,
    },
    /// Others changed more of the store than a copy could save, at each attempt.
    CopyLost {
        /// How often it was tried.
        attempts: u32,
        /// Bytes of old content that the last attempt had room for.
        room: u64,
    },
    /// The wait for a lock was interrupted by a signal.
    Interrupted,
    /// Somebody has to look after a shard before it is read or changed; see
    /// [`Transaction::set_mark`](crate::Transaction::set_mark).
    Marked,
    /// The handle maps the store read-only.
    ReadOnly,
    /// The path no longer names the mapped file: somebody removed or replaced it.
    Removed {
        /// The path by which the store was opened.
        path: PathBuf,
    },
    /// The store was changed in another boot, or on another machine, and not
    /// synced: its pages may be of different moments.
    Unclean {
        /// The file.
        path: PathBuf,
    },
    /// Others changed the store all the time while it was to be synced.
    Unsynced,
    /// This process may not open the store file any more, and cannot join the
    /// store without.
    Forbidden {
        /// The path by which the store was opened.
        path: PathBuf,
        /// The system's answer.
        source: io::Error,
    },
    /// A message is longer than the store's ring takes.
    MessageTooLong {
        /// Bytes of its name and body.
        length: u64,
        /// The most there may be of them.
        most: u64,
    },
    /// This process has all its 512 seats in use.
    TooManyWaiters,
    /// A store cannot be created with this capacity.
    Capacity {
        /// The capacity that was asked for, in bytes.
        asked: u64,
        /// The least and the most that there can be.
        allowed: (u64, u64),
    },
    /// All 4,096 entries of the process table belong to living processes.
    TooManyProcesses,
}

impl From<Fault> for Error {
    fn from(fault: Fault) -> Self {
        match fault {
            Fault { at, what } if what == MEMORY => Error::NoMemory { bytes: at },
            fault => Error::Damaged(fault),
        }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::NotAStore { path, reason } => {
                write!(f, "{} is not a usable store: {reason}", path.display())
            }
            Error::Io {
                doing,
                path,
                source,
            } => {
                write!(f, "{doing} {}: {source}", path.display())
            }
            Error::Damaged(Fault { at, what }) => {
                write!(f, "the store is damaged: expected {what} at offset {at}")
            }
            Error::OutOfMemory => f.write_str(
                "the store is full: its capacity, its file system or the log of a change has no \
                 room left",
            ),
            Error::NoMemory { bytes } => write!(
                f,
                "this process could not allocate memory for {bytes} more bytes of a value: free some, raise its limit \
                 (ulimit -v), or read the value in parts"
            ),
            Error::Busy { holder, pid } => busy(f, *holder, *pid),
            Error::Copying { pid } => write!(
                f,
                "process {pid} is copying the store, and one copy is made at a time: try again when \
                 it is done"
            ),
            Error::CopyLost { attempts, room } => write!(
                f,
                "the store changed faster than it could be copied: {attempts} attempts ran out of \
                 memory for what was there before, at last with {} MiB of it; make room in the \
                 store's file system, or try again when less is written",
                room >> 20
            ),
            Error::Interrupted => f.write_str("interrupted while waiting for a lock"),
            Error::Marked => {
                f.write_str("what dead processes left in the store has to be settled first")
            }
            Error::ReadOnly => f.write_str("the store is mapped read-only"),
            Error::Removed { path } => write!(
                f,
                "the store file {} was removed or replaced while it was in use \
                 (a clean-up of /dev/shm, such as systemd's RemoveIPC, does this); \
                 open the store again",
                path.display()
            ),
            Error::Unclean { path } => write!(
                f,
                "the store {path} was not synced to the disk before its machine stopped (or it was \
                 copied without), so that parts of it may be older than others, and is not used: \
                 undercroft check --unclean {path} says whether it holds together, undercroft \
                 export --unclean {path} FILE saves what can be read of it, undercroft rm {path} \
                 makes room for a new one",
                path = path.display()
            ),
            Error::Unsynced => f.write_str(
                "others changed the store all the time: what was there before is on the disk, but \
                 after a power cut the store would not be used",
            ),
            Error::Forbidden { path, source } => write!(
                f,
                "this process may not open the store file {} any more ({source}), and needs to, as \
                 it has not written to the store before: open the store after privileges are \
                 dropped",
                path.display()
            ),
            Error::MessageTooLong { length, most } => write!(
                f,
                "expected a message of at most {most} bytes, which a quarter of the store's ring \
                 holds, got {length}"
            ),
            Error::TooManyWaiters => {
                f.write_str("this process has 512 subscribers already; no more can join")
            }
            Error::Capacity {
                asked,
                allowed: (least, most),
            } => write!(
                f,
                "expected a capacity of {least} to {most} bytes, got {asked}; it is address space, which costs nothing \
                 until it is used"
            ),
            Error::TooManyProcesses => {
                f.write_str("4096 living processes use the store already; no more can join")
            }
        }
    }
}

/// Says which process keeps the store busy, and what it is doing.
fn busy(f: &mut fmt::Formatter<'_>, holder: Holder, pid: u32) -> fmt::Result {
    match holder {
        Holder::Active => write!(f, "the store is busy: process {pid} is writing"),
        Holder::Stopped => write!(
            f,
            "the store is busy: process {pid} is stopped while it holds a lock"
        ),
        Holder::Dead => write!(
            f,
            "the store is busy: process {pid} died while writing, and only a process \
             that may write can recover what it left"
        ),
        Holder::Unknown => write!(
            f,
            "the store is busy: process {pid} holds a lock, and this process cannot find \
             out whether it lives, as it may not open the store file"
        ),
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Error::Io { source, .. } | Error::Forbidden { source, .. } => Some(source),
            _ => None,
        }
    }
}
