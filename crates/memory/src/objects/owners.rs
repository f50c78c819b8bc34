//! Checks whether the processes that staged or pinned blocks are alive.

use smallvec::SmallVec;

use crate::processes::lock::Owner;
use crate::segment::Segment;

/// Cached results of checking which processes are dead. Each process is checked once: a dead
/// process stays dead, and a living process may be checked again in a later round.
#[derive(Default)]
pub(crate) struct Owners(SmallVec<[(u64, bool); 8]>);

impl Owners {
    /// Returns whether a process is dead. `owner` contains the process's slot in its upper half and
    /// the slot's generation in its lower half.
    pub(crate) fn is_dead(&mut self, segment: &Segment, owner: u64) -> bool {
        if let Some(&(_, dead)) = self.0.iter().find(|(known, _)| *known == owner) {
            return dead;
        }
        let named = Owner::new(owner >> 32, owner & 0xffff_ffff);
        let dead = !segment.process.alive(&segment.mapping, named);
        self.0.push((owner, dead));
        dead
    }
}
