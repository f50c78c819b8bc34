//! The processes that have the store mapped, including readers.

use crate::error::Error;
use crate::inspection::statistics::Member;
use crate::mapped::platform;
use crate::processes::user_marks::marked;
use crate::segment::Segment;

/// A process that has the store mapped.
#[derive(Clone, Debug)]
pub struct User {
    /// The process ID, in the process's own pid namespace.
    pub pid: u32,
    /// Whether the process is in the caller's pid namespace, so that `pid` is meaningful to the
    /// caller.
    pub here: bool,
    /// Whether the process has ended but a forked child still has the inherited mapping.
    pub ended: bool,
    /// The process's entry in the process table, or `None` if the process has not written.
    pub member: Option<Member>,
}

impl Segment {
    /// Returns the other processes that have the store mapped, writers first.
    ///
    /// # Errors
    /// Fails if this process is not permitted to open the store's path, or if another file is at
    /// that path.
    pub fn users(&self) -> Result<Vec<User>, Error> {
        let io = |source| Error::Io {
            doing: "listing the users of",
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
