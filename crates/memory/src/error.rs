//! The error types of this crate. Each message explains what happened and what to do about it.

use std::fmt;
use std::io;
use std::path::PathBuf;

/// An inconsistency that a read found in one of the store's structures.
///
/// `Fault` is small and `Copy`, because reads return it on the hot path. It becomes
/// [`Error::Damaged`] only if the shard's version counter shows that no concurrent change tore the
/// read (R2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fault {
    /// The offset in the file, in bytes.
    pub at: u64,
    /// The value or structure that was expected at that offset.
    pub what: &'static str,
}

/// The value of [`Fault::what`] for a failed allocation of this process's own memory.
const MEMORY: &str = "memory of this process";

impl Fault {
    /// Returns the fault for a read that failed to allocate `bytes` bytes of this process's memory.
    /// The fault becomes [`Error::NoMemory`].
    #[cold]
    pub fn no_memory(bytes: usize) -> Fault {
        Fault {
            at: bytes as u64,
            what: MEMORY,
        }
    }
}

/// The state of the process that owns a contended lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Holder {
    /// The owner is running and writing.
    Active,
    /// The owner is stopped (SIGSTOP or a debugger) and may resume at any time.
    Stopped,
    /// The owner is dead. The next process with write access will recover the shard.
    Dead,
    /// This process cannot determine whether the owner is alive.
    Unknown,
}

/// The error type of this crate.
#[derive(Debug)]
#[non_exhaustive]
pub enum Error {
    /// The file is not a store that this build can use; it was not modified.
    NotAStore {
        /// The path of the file.
        path: PathBuf,
        /// Why the file cannot be used: the expected and the actual contents.
        reason: String,
    },
    /// A system call on the store file failed.
    Io {
        /// The operation that failed, as a gerund such as "opening".
        doing: &'static str,
        /// The path of the store file.
        path: PathBuf,
        /// The error that the system returned.
        source: io::Error,
    },
    /// A structure in the store is inconsistent.
    Damaged(Fault),
    /// The store, its file system, or a transaction's undo log is full.
    OutOfMemory,
    /// This process could not allocate memory for the data it read.
    NoMemory {
        /// The number of bytes that could not be allocated.
        bytes: u64,
    },
    /// The lock was not released within the caller's timeout; nothing was changed.
    Busy {
        /// The state of the process that owns the lock.
        holder: Holder,
        /// The owner's process ID, as recorded in the process table, or 0 if unknown.
        pid: u32,
    },
    /// Another process spent longer than the caller's timeout copying the store.
    Copying {
        /// The process ID of the copier, or 0 if unknown.
        pid: u32,
    },
    /// Every attempt to copy the store failed, because writers changed more pages than the copy had
    /// room to save.
    CopyLost {
        /// The number of attempts.
        attempts: u32,
        /// The room for saved pages in the last attempt, in bytes.
        room: u64,
    },
    /// A signal interrupted the lock wait.
    Interrupted,
    /// The shard is marked as needing cleanup, which must run before the shard is read or changed.
    /// See [`Transaction::set_mark`](crate::Transaction::set_mark).
    Marked,
    /// The handle maps the store read-only.
    ReadOnly,
    /// The mapped file is no longer at its path: it was removed or replaced.
    Removed {
        /// The path at which the store was opened.
        path: PathBuf,
    },
    /// The store was changed during another boot or on another machine and not synced afterward,
    /// so its pages may date from different moments.
    Unclean {
        /// The path of the store file.
        path: PathBuf,
    },
    /// The sync failed because other processes kept changing the store.
    Unsynced,
    /// This process is no longer permitted to open the store file, and therefore cannot join the
    /// store.
    Forbidden {
        /// The path at which the store was opened.
        path: PathBuf,
        /// The error that the system returned for the attempt to open the file.
        source: io::Error,
    },
    /// The journal could not be written, so changes can no longer be made durable.
    Journal {
        /// The folder of the journal.
        folder: PathBuf,
        /// The error of the first operation that failed.
        source: io::Error,
    },
    /// The store has no journal.
    NoJournal,
    /// The change must wait until it is durable, but this thread may not wait for the disk. Nothing was
    /// changed. See [`limit_patience_without_sync`](crate::limit_patience_without_sync).
    MustSync,
    /// The journal's ring is full, because its records cannot be written to the journal's folder
    /// fast enough.
    JournalFull,
    /// A message is too long for the store's message ring.
    MessageTooLong {
        /// The combined length of the message's name and body, in bytes.
        length: u64,
        /// The maximum length, in bytes.
        most: u64,
    },
    /// All 512 seats of this process (its slots for waiting threads) are in use.
    TooManyWaiters,
    /// The requested capacity is outside the allowed range.
    Capacity {
        /// The requested capacity, in bytes.
        asked: u64,
        /// The minimum and maximum capacity, in bytes.
        allowed: (u64, u64),
    },
    /// All 4,096 entries in the process table belong to living processes.
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
                "the store is full: its capacity, its file system or a transaction's undo log has \
                 no room left; delete keys, free disk space or make the change in parts",
            ),
            Error::NoMemory { bytes } => write!(
                f,
                "this process could not allocate {bytes} more bytes for a value: free memory, \
                 raise the limit (ulimit -v) or read the value in parts"
            ),
            Error::Busy { holder, pid } => busy(f, *holder, *pid),
            Error::Copying { pid } => write!(
                f,
                "process {pid} is copying the store, and only one copy can run at a time; try \
                 again when it has finished"
            ),
            Error::CopyLost { attempts, room } => write!(
                f,
                "the store changed faster than it could be copied: {attempts} attempts ran out of \
                 room for the replaced data, the last with {} MiB; free space in the store's file \
                 system or try again when fewer writes are running",
                room >> 20
            ),
            Error::Journal { folder, source } => {
                write!(f, "the journal in {}: {source}", folder.display())
            }
            Error::NoJournal => f.write_str(
                "the store has no journal; undercroft durability NAME everysec begins one",
            ),
            Error::JournalFull => f.write_str(
                "the journal is full: its records could not be written to its folder in time; see \
                 the error that undercroft stat shows",
            ),
            Error::MustSync => f.write_str("the change waits for the disk"),
            Error::Interrupted => f.write_str("interrupted while waiting for a lock or a recovery"),
            Error::Marked => f.write_str(
                "the store has unfinished work of dead processes; run undercroft recover on it",
            ),
            Error::ReadOnly => f.write_str("the store is mapped read-only"),
            Error::Removed { path } => write!(
                f,
                "the store file {} was removed or replaced while it was in use (cleanup of \
                 /dev/shm does this, such as systemd's RemoveIPC); open the store again",
                path.display()
            ),
            Error::Unclean { path } => write!(
                f,
                "the store {path} is refused: it was not synced before the machine stopped or the \
                 file was copied, so parts of it may be older than others; undercroft check \
                 --unclean {path} checks it, undercroft export --unclean {path} FILE saves the \
                 readable data, undercroft rm {path} removes it",
                path = path.display()
            ),
            Error::Unsynced => f.write_str(
                "other processes kept changing the store during the sync: the earlier data is on \
                 the disk, but after a power cut the store would be refused; sync again when \
                 fewer writes are running",
            ),
            Error::Forbidden { path, source } => write!(
                f,
                "this process can no longer open the store file {} ({source}), as its first write \
                 requires; open the store after dropping privileges",
                path.display()
            ),
            Error::MessageTooLong { length, most } => write!(
                f,
                "expected a message of at most {most} bytes, a quarter of the store's message \
                 ring, got {length}"
            ),
            Error::TooManyWaiters => f.write_str(
                "this process already has 512 subscribers, the maximum; close a subscription \
                 first",
            ),
            Error::Capacity {
                asked,
                allowed: (least, most),
            } => write!(
                f,
                "expected a capacity of {least} to {most} bytes, got {asked}; capacity is address \
                 space and uses no memory until data is stored"
            ),
            Error::TooManyProcesses => f.write_str(
                "4096 living processes already use the store, the maximum; close it in another \
                 process first",
            ),
        }
    }
}

/// Formats an error that names the process that keeps the store busy, and that process's state.
fn busy(f: &mut fmt::Formatter<'_>, holder: Holder, pid: u32) -> fmt::Result {
    match holder {
        Holder::Active => write!(f, "the store is busy: process {pid} is writing"),
        Holder::Stopped => write!(
            f,
            "the store is busy: process {pid} holds a lock and is stopped; resume it (kill -CONT \
             {pid}) or end it"
        ),
        Holder::Dead => write!(
            f,
            "the store is busy: process {pid} died while writing; recover the store from a \
             process that can write to it (undercroft recover)"
        ),
        Holder::Unknown => write!(
            f,
            "the store is busy: process {pid} holds a lock, and this process cannot open the \
             store file to tell whether that process is alive"
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
