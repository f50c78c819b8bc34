//! Whether the processes that staged or pinned blocks are alive.

use smallvec::SmallVec;

use crate::processes::lock::Owner;
use crate::segment::Segment;

/// What is known of the life of processes, each of which is asked for once: a dead one stays dead, and who lives may
/// be asked for again another time.
#[derive(Default)]
pub(crate) struct Owners(SmallVec<[(u64, bool); 8]>);

impl Owners {
    /// Whether the process with this slot, in the high half, and generation is dead.
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
