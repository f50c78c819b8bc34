//! The marks of processes that have the store mapped.
//!
//! A reader takes no entry of the process table and writes nothing that counts
//! (R6). It is known by a shared lock on a byte beyond the file's end that says
//! its pid namespace and number ([`slot::USERS`]), on the description that its
//! mapping keeps open: the kernel lets go of it with the last process that
//! inherited the mapping, and nothing has to be cleaned up after any process.

use std::fs::File;
use std::io;

use crate::mapped::layout::slot;
use crate::mapped::platform;

/// Process numbers are below this power of two (the kernel's `PID_MAX_LIMIT`).
const PID_BITS: u32 = 22;
const BYTES: u64 = 1 << (32 + PID_BITS);

/// Takes the mark of this process, in its pid namespace, on a description that is
/// mapped, until that mapping and all that inherited it are gone.
pub(crate) fn mark(file: &File, namespace: u32) -> io::Result<()> {
    platform::share_byte(file, place((namespace, std::process::id()))).map(drop)
}

fn place((namespace, pid): (u32, u32)) -> u64 {
    let pid = u64::from(pid) & ((1 << PID_BITS) - 1);
    slot::USERS + (u64::from(namespace) << PID_BITS) + pid
}

/// The processes whose marks somebody has, each once, by their numbers.
pub(crate) fn marked(file: &File) -> io::Result<Vec<(u32, u32)>> {
    let mut found = Vec::new();
    // The kernel names one lock at a time, not the first one: what lies before
    // and behind it is asked for next.
    let mut ranges = vec![(slot::USERS, slot::USERS + BYTES)];
    while let Some((start, end)) = ranges.pop() {
        if start >= end {
            continue;
        }
        if let Some(at) = platform::locked_byte(file, start, end - start)? {
            let at = at.clamp(start, end - 1);
            let number = at - slot::USERS;
            let pid = number & ((1 << PID_BITS) - 1);
            found.push(((number >> PID_BITS) as u32, pid as u32));
            ranges.extend([(start, at), (at + 1, end)]);
        }
    }
    found.sort_unstable();
    Ok(found)
}
