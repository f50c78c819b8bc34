//! Who has the store mapped, readers included.

use crate::error::Error;
use crate::inspection::statistics::Member;
use crate::mapped::platform;
use crate::processes::user_marks::marked;
use crate::segment::Segment;

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
