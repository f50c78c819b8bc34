//! Who has the store mapped, readers included.
//!
//! A reader takes no entry of the process table and writes nothing that counts
//! (R6). It is known by a shared lock on a byte beyond the file's end that says
//! its pid namespace and number ([`slot::USERS`]), on the description that its
//! mapping keeps open: the kernel lets go of it with the last process that
//! inherited the mapping, and nothing has to be cleaned up after anybody.

use std::fs::File;
use std::io;

use crate::error::Error;
use crate::handle::Segment;
use crate::inspection::statistics::Member;
use crate::mapped::layout::slot;
use crate::mapped::platform;

/// Process numbers are below this power of two (the kernel's `PID_MAX_LIMIT`).
const PID_BITS: u32 = 22;
const BYTES: u64 = 1 << (32 + PID_BITS);

/// A process that has the store mapped.
#[derive(Clone, Debug)]
pub struct User {
    /// Its process id, in its own pid namespace.
    pub pid: u32,
    /// Whether that is the pid namespace of who asks, where the number means
    /// something.
    pub here: bool,
    /// Whether it has ended, and a process that it forked has inherited its
    /// mapping.
    pub ended: bool,
    /// Its entry in the process table; none where it has not written.
    pub member: Option<Member>,
}

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
fn marked(file: &File) -> io::Result<Vec<(u32, u32)>> {
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

impl Segment {
    /// The other processes that have the store mapped, those that write first.
    ///
    /// # Errors
    /// Where this process may not open the store's path, or it names another
    /// file.
    pub fn users(&self) -> Result<Vec<User>, Error> {
        let io = |source| Error::Io {
            doing: "asking who uses",
            path: self.path().into(),
            source,
        };
        let namespace = platform::pid_namespace();
        let me = (namespace, std::process::id());
        let marked = match self.process.look().map_err(io)? {
            Some(file) => marked(&file).map_err(io)?,
            None => {
                return Err(Error::Removed {
                    path: self.path().into(),
                });
            }
        };
        let members: Vec<Member> = self.members();
        let of = |member: &Member| (member.namespace, member.pid);
        let reads = |user: &(u32, u32)| !members.iter().any(|member| of(member) == *user);
        let readers: Vec<(u32, u32)> = marked.into_iter().filter(reads).collect();
        let writers = members
            .into_iter()
            .map(|member| (of(&member), Some(member)));
        let all = writers.chain(readers.into_iter().map(|user| (user, None)));
        let others = all.filter(|(user, _)| *user != me);
        let users = others.map(|(user, member)| {
            let here = user.0 == namespace;
            User {
                pid: user.1,
                here,
                ended: here && member.is_none() && platform::process_has_ended(user.1),
                member,
            }
        });
        Ok(users.collect())
    }
}
