//! User marks: byte locks that show which processes have the store mapped.
//!
//! A reader claims no entry in the process table and writes nothing that affects the data (R6). Its
//! mark is a shared lock on a byte beyond the file's end, at an offset that encodes the reader's
//! pid namespace and process number ([`slot::USERS`]). The lock belongs to the open file
//! description of the reader's mapping. The kernel releases it when the last process that inherited
//! the mapping ends, so no cleanup is ever needed.

use std::fs::File;
use std::io;

use crate::mapped::layout::slot;
use crate::mapped::platform;

/// The number of bits in a process number. The kernel's `PID_MAX_LIMIT` is 2^22.
const PID_BITS: u32 = 22;
const BYTES: u64 = 1 << (32 + PID_BITS);

/// Marks this process, in its pid namespace, as a user of the store. `file` must be the open file
/// description that is mapped: the mark lasts until that mapping and all inherited copies of it are
/// unmapped.
pub(crate) fn mark(file: &File, namespace: u32) -> io::Result<()> {
    platform::share_byte(file, place((namespace, std::process::id()))).map(drop)
}

fn place((namespace, pid): (u32, u32)) -> u64 {
    let pid = u64::from(pid) & ((1 << PID_BITS) - 1);
    slot::USERS + (u64::from(namespace) << PID_BITS) + pid
}

/// Returns the pid namespace and number of every marked process, sorted and without duplicates.
pub(crate) fn marked(file: &File) -> io::Result<Vec<(u32, u32)>> {
    let mut found = Vec::new();
    // Each query reports one lock, not necessarily the first, so the ranges before and after it are
    // queried next.
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
