//! Wrappers for the few system calls that the store needs.

use std::ffi::CString;
use std::fs::File;
use std::io::{self, Read};
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::Duration;

/// The identity of a file: its device and inode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FileId {
    device: u64,
    inode: u64,
}

impl std::fmt::Display for FileId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} {}", self.device, self.inode)
    }
}

/// The fields of a `stat` result that the store uses.
pub(crate) struct FileStatus {
    pub(crate) id: FileId,
    pub(crate) length: u64,
    pub(crate) owner: u32,
    pub(crate) regular: bool,
}

fn path_string(path: &Path) -> io::Result<CString> {
    CString::new(path.as_os_str().as_bytes())
        .map_err(|_| io::Error::new(io::ErrorKind::InvalidInput, "path contains a zero byte"))
}

pub(super) fn check(result: libc::c_int) -> io::Result<libc::c_int> {
    if result < 0 {
        Err(io::Error::last_os_error())
    } else {
        Ok(result)
    }
}

/// Opens an existing file. Never follows a symlink in the last component, and never blocks on a
/// FIFO.
pub(crate) fn open(path: &Path, write: bool) -> io::Result<File> {
    let path = path_string(path)?;
    let mode = if write { libc::O_RDWR } else { libc::O_RDONLY };
    let flags = mode | libc::O_CLOEXEC | libc::O_NOFOLLOW | libc::O_NONBLOCK;
    // SAFETY: `path` is a zero-terminated string that outlives the call.
    let descriptor = check(unsafe { libc::open(path.as_ptr(), flags) })?;
    // SAFETY: the descriptor is open and has no other owner.
    Ok(unsafe { File::from_raw_fd(descriptor) })
}

/// Creates an unnamed file with mode 0600 in `directory`.
pub(crate) fn create_unnamed(directory: &Path) -> io::Result<File> {
    let path = path_string(directory)?;
    let flags = libc::O_TMPFILE | libc::O_RDWR | libc::O_CLOEXEC;
    // SAFETY: `path` is a zero-terminated string that outlives the call.
    let descriptor = check(unsafe { libc::open(path.as_ptr(), flags, 0o600) })?;
    // SAFETY: the descriptor is open and has no other owner.
    Ok(unsafe { File::from_raw_fd(descriptor) })
}

/// Gives an unnamed file a name. Fails if the path exists.
pub(crate) fn link(file: &File, path: &Path) -> io::Result<()> {
    let from = CString::new(format!("/proc/self/fd/{}", file.as_raw_fd())).expect("no zero byte");
    let to = path_string(path)?;
    let at = libc::AT_FDCWD;
    // SAFETY: both strings are zero-terminated and outlive the call.
    let result =
        unsafe { libc::linkat(at, from.as_ptr(), at, to.as_ptr(), libc::AT_SYMLINK_FOLLOW) };
    check(result).map(drop)
}

fn status_of(raw: &libc::stat) -> FileStatus {
    FileStatus {
        id: FileId {
            device: raw.st_dev,
            inode: raw.st_ino,
        },
        length: raw.st_size as u64,
        owner: raw.st_uid,
        regular: raw.st_mode & libc::S_IFMT == libc::S_IFREG,
    }
}

/// Returns the status of an open file (`fstat`).
pub(crate) fn status(file: &File) -> io::Result<FileStatus> {
    // SAFETY: `stat` is plain data, and all zeros is a valid value for it.
    let mut raw: libc::stat = unsafe { std::mem::zeroed() };
    // SAFETY: the descriptor is open and `raw` is writable.
    check(unsafe { libc::fstat(file.as_raw_fd(), &mut raw) })?;
    Ok(status_of(&raw))
}

/// Returns the status of a path without following a symlink (`lstat`).
pub(crate) fn status_of_path(path: &Path) -> io::Result<FileStatus> {
    let path = path_string(path)?;
    // SAFETY: `stat` is plain data, and all zeros is a valid value for it.
    let mut raw: libc::stat = unsafe { std::mem::zeroed() };
    // SAFETY: `path` is zero-terminated and `raw` is writable.
    check(unsafe { libc::lstat(path.as_ptr(), &mut raw) })?;
    Ok(status_of(&raw))
}

/// Returns true if the file is on tmpfs or ramfs, whose contents do not survive a power failure.
pub(crate) fn is_in_memory(file: &File) -> io::Result<bool> {
    // The magic numbers of tmpfs and ramfs.
    Ok(matches!(file_system(file)?, 0x0102_1994 | 0x8584_58f6))
}

/// Returns the magic number of the file system that holds a file.
fn file_system(file: &File) -> io::Result<u64> {
    // SAFETY: `statfs` is plain data, and all zeros is a valid value for it.
    let mut raw: libc::statfs = unsafe { std::mem::zeroed() };
    // SAFETY: the descriptor is open and `raw` is writable.
    check(unsafe { libc::fstatfs(file.as_raw_fd(), &mut raw) })?;
    Ok(raw.f_type as u64 & 0xffff_ffff)
}

/// Returns the name of the file's file system if it is unsuitable, which means that it does not
/// keep mappings coherent or shows different files to different processes.
pub(crate) fn unsuitable_file_system(file: &File) -> io::Result<Option<&'static str>> {
    // Magic numbers from linux/magic.h and the file systems' own headers.
    Ok(match file_system(file)? {
        0x6969 => Some("NFS"),
        0xff53_4d42 | 0xfe53_4d42 | 0x517b => Some("SMB"),
        0x794c_7630 => Some("overlayfs"),
        0x0102_1997 => Some("9p"),
        0x6573_5546 => Some("FUSE"),
        0x00c3_6400 => Some("Ceph"),
        0x5346_414f => Some("AFS"),
        _ => None,
    })
}

/// Returns the total size in bytes of the file system that holds `file`.
pub(crate) fn file_system_size(file: &File) -> io::Result<u64> {
    // SAFETY: `statvfs` is plain data, and all zeros is a valid value for it.
    let mut raw: libc::statvfs = unsafe { std::mem::zeroed() };
    // SAFETY: the descriptor is open and `raw` is writable.
    check(unsafe { libc::fstatvfs(file.as_raw_fd(), &mut raw) })?;
    Ok(raw.f_blocks.saturating_mul(raw.f_frsize))
}

/// Returns the caller's effective user ID.
pub fn effective_user() -> u32 {
    // SAFETY: `geteuid` always succeeds and touches no memory.
    unsafe { libc::geteuid() }
}

/// Backs a range of the file with memory, so that later writes cannot fail (H2).
pub(crate) fn allocate(file: &File, start: u64, length: u64) -> io::Result<()> {
    // SAFETY: the descriptor is open, and the call touches no memory of this process.
    let result = unsafe { libc::posix_fallocate(file.as_raw_fd(), start as i64, length as i64) };
    if result == 0 {
        Ok(())
    } else {
        Err(io::Error::from_raw_os_error(result))
    }
}

/// Asks the system to begin writing a range of the file to the disk. A failure is reported by the
/// next sync.
pub(crate) fn start_writing(file: &File, start: u64, length: u64) {
    let flags = libc::SYNC_FILE_RANGE_WRITE;
    // SAFETY: the descriptor is open, and the call touches no memory of this process.
    unsafe { libc::sync_file_range(file.as_raw_fd(), start as i64, length as i64, flags) };
}

/// Tries, without waiting, to acquire an exclusive lock on one byte of the file for this open file
/// description (L1).
pub(crate) fn try_lock_byte(file: &File, at: u64) -> io::Result<bool> {
    set_byte_lock(file, libc::F_WRLCK, at)
}

/// Tries, without waiting, to acquire a shared lock on one byte of the file.
pub(crate) fn share_byte(file: &File, at: u64) -> io::Result<bool> {
    set_byte_lock(file, libc::F_RDLCK, at)
}

/// Releases the lock on one byte.
pub(crate) fn unlock_byte(file: &File, at: u64) -> io::Result<()> {
    set_byte_lock(file, libc::F_UNLCK, at).map(drop)
}

fn set_byte_lock(file: &File, kind: libc::c_int, at: u64) -> io::Result<bool> {
    let mut lock = byte_lock(kind, at);
    // SAFETY: the descriptor is open and `lock` is a valid request.
    let result = unsafe { libc::fcntl(file.as_raw_fd(), libc::F_OFD_SETLK, &mut lock) };
    match check(result) {
        Ok(_) => Ok(true),
        Err(error) => match error.raw_os_error() {
            Some(libc::EAGAIN | libc::EACCES) => Ok(false),
            _ => Err(error),
        },
    }
}

/// Returns true if another open file description holds a lock on the byte.
pub(crate) fn byte_is_locked(file: &File, at: u64) -> io::Result<bool> {
    let mut lock = byte_lock(libc::F_WRLCK, at);
    // SAFETY: the descriptor is open and `lock` is a valid request.
    check(unsafe { libc::fcntl(file.as_raw_fd(), libc::F_OFD_GETLK, &mut lock) })?;
    Ok(lock.l_type != libc::F_UNLCK as libc::c_short)
}

/// Returns the first byte of a locked range held by another open file description, or `None` if the
/// range is unlocked.
pub(crate) fn locked_byte(file: &File, start: u64, length: u64) -> io::Result<Option<u64>> {
    let mut lock = range_lock(libc::F_WRLCK, start, length);
    // SAFETY: the descriptor is open and `lock` is a valid request.
    check(unsafe { libc::fcntl(file.as_raw_fd(), libc::F_OFD_GETLK, &mut lock) })?;
    Ok((lock.l_type != libc::F_UNLCK as libc::c_short).then_some(lock.l_start as u64))
}

fn byte_lock(kind: libc::c_int, at: u64) -> libc::flock {
    range_lock(kind, at, 1)
}

fn range_lock(kind: libc::c_int, start: u64, length: u64) -> libc::flock {
    libc::flock {
        l_type: kind as libc::c_short,
        l_whence: libc::SEEK_SET as libc::c_short,
        l_start: start as libc::off_t,
        l_len: length as libc::off_t,
        l_pid: 0,
    }
}

/// Returns true if all threads of a process have ended. `pid` is the process's number in the
/// caller's pid namespace.
pub(crate) fn process_has_ended(pid: u32) -> bool {
    let pid = pid as libc::pid_t;
    if pid <= 0 {
        return false;
    }
    // SAFETY: the call touches no memory of this process.
    let descriptor = unsafe { libc::syscall(libc::SYS_pidfd_open, pid, 0) };
    if descriptor >= 0 {
        // SAFETY: the descriptor is open and has no other owner.
        let process = unsafe { OwnedFd::from_raw_fd(descriptor as libc::c_int) };
        let mut poll = libc::pollfd {
            fd: process.as_raw_fd(),
            events: libc::POLLIN,
            revents: 0,
        };
        // SAFETY: the argument is one valid `pollfd`. A pidfd becomes readable when the process
        // ends, even before its parent reaps it.
        return unsafe { libc::poll(&mut poll, 1, 0) } == 1 && poll.revents & libc::POLLIN != 0;
    }
    // Fallback if `pidfd_open` fails, because the system lacks the call or no descriptor is free: a
    // zombie counts as alive.
    // SAFETY: signal 0 is not delivered; the call only checks whether the process exists.
    let result = unsafe { libc::kill(pid, 0) };
    result < 0 && io::Error::last_os_error().raw_os_error() == Some(libc::ESRCH)
}

/// Returns the kernel's ID of the current boot, a UUID in text form, or `None` if it is
/// unavailable.
pub(crate) fn boot_id() -> Option<[u8; 36]> {
    let mut id = [0; 36];
    let mut file = File::open("/proc/sys/kernel/random/boot_id").ok()?;
    (file.read(&mut id).ok()? == id.len()).then_some(id)
}

/// Returns the number of this process's pid namespace, or 0 if it is unknown. Namespaces that exist
/// simultaneously have different numbers.
pub(crate) fn pid_namespace() -> u32 {
    std::fs::metadata("/proc/self/ns/pid").map_or(0, |status| status.ino() as u32)
}

/// Returns a descriptor that becomes readable after each period.
pub(crate) fn timer(period: Duration) -> io::Result<OwnedFd> {
    let flags = libc::TFD_CLOEXEC | libc::TFD_NONBLOCK;
    // SAFETY: the call touches no memory of this process.
    let descriptor = check(unsafe { libc::timerfd_create(libc::CLOCK_MONOTONIC, flags) })?;
    // SAFETY: the descriptor is open and has no other owner.
    let timer = unsafe { OwnedFd::from_raw_fd(descriptor) };
    let period = libc::timespec {
        tv_sec: period.as_secs() as libc::time_t,
        tv_nsec: period.subsec_nanos().into(),
    };
    let times = libc::itimerspec {
        it_interval: period,
        it_value: period,
    };
    // SAFETY: the descriptor is a timer, `times` is readable, and the null pointer means that the
    // old times are not returned.
    let result =
        unsafe { libc::timerfd_settime(timer.as_raw_fd(), 0, &times, std::ptr::null_mut()) };
    check(result)?;
    Ok(timer)
}

/// Consumes the expirations of a timer, so that its descriptor is no longer readable.
pub(crate) fn read_timer(timer: &OwnedFd) {
    let mut periods = 0_u64;
    // SAFETY: the descriptor is open and `periods` is writable. If no period has passed, the read
    // fails, which is harmless.
    unsafe { libc::read(timer.as_raw_fd(), (&raw mut periods).cast(), 8) };
}

/// Returns a descriptor that is readable while at least one of the given descriptors is readable.
pub(crate) fn poll_of(descriptors: &[BorrowedFd<'_>]) -> io::Result<OwnedFd> {
    // SAFETY: the call touches no memory of this process.
    let descriptor = check(unsafe { libc::epoll_create1(libc::EPOLL_CLOEXEC) })?;
    // SAFETY: the descriptor is open and has no other owner.
    let poll = unsafe { OwnedFd::from_raw_fd(descriptor) };
    for member in descriptors {
        let mut event = libc::epoll_event {
            events: libc::EPOLLIN as u32,
            u64: 0,
        };
        // SAFETY: both descriptors are open and `event` is readable.
        check(unsafe {
            libc::epoll_ctl(
                poll.as_raw_fd(),
                libc::EPOLL_CTL_ADD,
                member.as_raw_fd(),
                &mut event,
            )
        })?;
    }
    Ok(poll)
}

/// Receives from a socket into memory at `target` and, once that memory is full, into the spare
/// capacity of `more`, in one call. Returns the total number of bytes received.
///
/// # Safety
/// `target` must be valid for writes of `length` bytes, and no Rust reference to any of these bytes
/// may be in use.
pub(crate) unsafe fn receive(
    socket: BorrowedFd<'_>,
    target: *mut u8,
    length: usize,
    more: &mut Vec<u8>,
) -> io::Result<usize> {
    let room = more.spare_capacity_mut();
    let parts = [
        libc::iovec {
            iov_base: target.cast(),
            iov_len: length,
        },
        libc::iovec {
            iov_base: room.as_mut_ptr().cast(),
            iov_len: room.len(),
        },
    ];
    // SAFETY: the caller guarantees that `target` is writable; the second buffer is the spare
    // capacity of an exclusively borrowed vector.
    let received = unsafe { libc::readv(socket.as_raw_fd(), parts.as_ptr(), 2) };
    let received = usize::try_from(received).map_err(|_| io::Error::last_os_error())?;
    let beyond = received.saturating_sub(length);
    // SAFETY: after filling the first buffer, the kernel wrote `beyond` bytes into the spare
    // capacity.
    unsafe { more.set_len(more.len() + beyond) };
    Ok(received)
}

/// Returns milliseconds since boot from a coarse clock, which costs a few nanoseconds to read and
/// is accurate to a few milliseconds.
#[inline]
pub fn coarse_milliseconds() -> u64 {
    milliseconds_of(libc::CLOCK_MONOTONIC_COARSE)
}

/// Returns milliseconds since boot, including time during which the machine was suspended.
/// Adjusting the system time does not affect this clock, and all processes on a machine share it.
#[inline]
pub fn boot_milliseconds() -> u64 {
    milliseconds_of(libc::CLOCK_BOOTTIME)
}

/// Returns the CPU time used by the calling thread.
pub fn thread_time() -> std::time::Duration {
    let mut now = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: `now` is a writable local variable.
    if unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &mut now) } != 0 {
        return std::time::Duration::ZERO;
    }
    std::time::Duration::new(now.tv_sec as u64, now.tv_nsec as u32)
}

/// Returns the system time in Unix milliseconds.
#[inline]
pub fn unix_milliseconds() -> u64 {
    milliseconds_of(libc::CLOCK_REALTIME)
}

#[inline(always)]
fn milliseconds_of(clock: libc::clockid_t) -> u64 {
    let mut now = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: `now` is writable.
    unsafe { libc::clock_gettime(clock, &mut now) };
    // Times before 1970 count as 0.
    let seconds = u64::try_from(now.tv_sec).unwrap_or(0);
    seconds * 1000 + now.tv_nsec as u64 / 1_000_000
}

/// Registers functions that run before every `fork` of this process, and after it in the parent and
/// in the child.
pub(crate) fn at_fork(
    prepare: unsafe extern "C" fn(),
    parent: unsafe extern "C" fn(),
    child: unsafe extern "C" fn(),
) {
    // SAFETY: the functions are `extern "C"`, are never unloaded and, as `pthread_atfork` requires,
    // only access an atomic.
    let result = unsafe { libc::pthread_atfork(Some(prepare), Some(parent), Some(child)) };
    assert_eq!(result, 0, "pthread_atfork: out of memory");
}

/// Runs `body` with all signals blocked for the calling thread. A thread that `body` starts inherits
/// this, so that signal handlers run in the program's own threads only.
pub(crate) fn with_signals_blocked<R>(body: impl FnOnce() -> R) -> R {
    // SAFETY: an all-zero `sigset_t` may be overwritten, and the calls only access the two sets.
    let before = unsafe {
        let (mut all, mut before) = (std::mem::zeroed(), std::mem::zeroed());
        libc::sigfillset(&mut all);
        libc::pthread_sigmask(libc::SIG_SETMASK, &all, &mut before);
        before
    };
    let result = body();
    // SAFETY: `before` was filled in by the first call.
    unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &before, std::ptr::null_mut()) };
    result
}

/// Returns a number that identifies the calling thread within its process.
pub(crate) fn this_thread() -> usize {
    // SAFETY: `pthread_self` has no preconditions.
    (unsafe { libc::pthread_self() }) as usize
}

/// Fills a buffer with random bytes from the kernel.
pub(crate) fn random(buffer: &mut [u8]) -> io::Result<()> {
    // SAFETY: the buffer is writable for its entire length. The kernel never truncates requests of
    // up to 256 bytes.
    let length = unsafe { libc::getrandom(buffer.as_mut_ptr().cast(), buffer.len(), 0) };
    if length == buffer.len() as isize {
        Ok(())
    } else {
        Err(io::Error::last_os_error())
    }
}
