//! Finds out whether a stopped process holds a lock of a journal's folder, so that the processes that
//! wait for the lock can name it.
//!
//! The kernel does not report which process holds the lock of an open file description. The file
//! `/proc/PID/fdinfo/FD` lists the locks of a process's descriptor.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::{Duration, Instant};

use crate::processes::liveness;

/// How long a stopped process may hold the lock before a wait for it fails.
const PATIENCE: Duration = Duration::from_secs(5);
/// The interval between two searches for the process.
const PAUSE: Duration = Duration::from_secs(1);

/// A wait for the lock on a byte of a file.
pub(crate) struct LockWait<'a> {
    file: &'a File,
    byte: u64,
    next: Instant,
}

impl<'a> LockWait<'a> {
    /// Begins a wait.
    pub(crate) fn new(file: &'a File, byte: u64) -> LockWait<'a> {
        LockWait {
            file,
            byte,
            next: Instant::now() + PATIENCE,
        }
    }

    /// Fails if a stopped process has held the lock for too long. Call it repeatedly during the wait.
    pub(crate) fn check(&mut self) -> io::Result<()> {
        let now = Instant::now();
        if now < self.next {
            return Ok(());
        }
        self.next = now + PAUSE;
        match stopped_holder(self.file, self.byte) {
            Some(pid) => Err(stopped(pid)),
            None => Ok(()),
        }
    }
}

fn stopped(pid: u32) -> io::Error {
    let reason = format!(
        "process {pid} holds the lock of the folder and is stopped; resume it (kill -CONT {pid}) or \
         end it"
    );
    io::Error::new(io::ErrorKind::TimedOut, reason)
}

/// Returns a stopped process that holds a lock on a byte of the file. Returns `None` if there is
/// none, or if this process may not see it.
fn stopped_holder(file: &File, byte: u64) -> Option<u32> {
    let known = file.metadata().ok()?;
    let processes = fs::read_dir("/proc").ok()?;
    let numbers = processes.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
    numbers
        .filter(|&pid| liveness::is_stopped(pid))
        .find(|&pid| holds(pid, (known.dev(), known.ino()), byte))
}

/// Returns whether a descriptor of a process holds a lock on a byte of the file with the given device
/// and inode numbers.
fn holds(pid: u32, file: (u64, u64), byte: u64) -> bool {
    let process = Path::new("/proc").join(pid.to_string());
    let Ok(descriptors) = fs::read_dir(process.join("fd")) else {
        return false;
    };
    descriptors.flatten().any(|descriptor| {
        let is_of_file =
            fs::metadata(descriptor.path()).is_ok_and(|found| (found.dev(), found.ino()) == file);
        is_of_file
            && fs::read_to_string(process.join("fdinfo").join(descriptor.file_name()))
                .is_ok_and(|text| text.lines().any(|line| is_lock_on(line, byte)))
    })
}

/// Returns whether a line of a descriptor's information describes a lock that includes a byte, such as
/// `lock: 1: OFDLCK ADVISORY WRITE -1 00:1b:5 0 0`.
fn is_lock_on(line: &str, byte: u64) -> bool {
    let mut words = line.split_ascii_whitespace();
    if words.next() != Some("lock:") {
        return false;
    }
    let mut last = words.rev();
    let (end, start) = (last.next(), last.next().and_then(|word| word.parse().ok()));
    let end = match end {
        Some("EOF") => Some(u64::MAX),
        end => end.and_then(|word| word.parse().ok()),
    };
    matches!((start, end), (Some(start), Some(end)) if (start..=end).contains(&byte))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mapped::platform;

    #[test]
    fn locks_of_a_descriptor_are_found_by_their_bytes() {
        let file = tempfile::tempfile_in("/dev/shm").expect("a file in /dev/shm");
        assert!(platform::try_lock_byte(&file, 1).expect("a lock"));
        let found = file.metadata().expect("a file");
        let numbers = (found.dev(), found.ino());
        let me = std::process::id();
        assert!(holds(me, numbers, 1) && !holds(me, numbers, 0));
        assert!(!holds(me, (numbers.0, numbers.1 + 1), 1));
        // The process that holds it is not stopped.
        assert_eq!(stopped_holder(&file, 1), None);
        assert!(is_lock_on(
            "lock:\t1: POSIX  ADVISORY  WRITE 7 00:1b:5 2 EOF",
            9
        ));
        assert!(!is_lock_on("pos:\t0", 0));
    }
}
