//! What a walk meets, asked for ahead of its use: a collection's elements lie anywhere in memory, and their memory
//! comes while the ones before them are looked at.

use undercroft_memory::{Offset, View};

/// Keys asked for together: enough to keep the processor's loads in flight.
pub(crate) const TOGETHER: usize = 16;
/// So many elements are on their way. Processors wait for ten to sixteen cache lines at a time.
const DISTANCE: usize = 16;
/// An element that begins in the last bytes of a cache line is asked for with the next line.
const USUAL_SIZE: u64 = 48;

/// Offsets that a walk has come to and not looked at yet, in its order.
pub(crate) struct Ahead {
    ring: [Offset; DISTANCE],
    /// How many were put in so far.
    known: usize,
}

impl Ahead {
    #[inline]
    pub(crate) fn new() -> Ahead {
        Ahead {
            ring: [0; DISTANCE],
            known: 0,
        }
    }

    /// Asks for what lies at an offset. Returns the offset that is to be looked at now.
    #[inline(always)]
    pub(crate) fn put(&mut self, view: &View<'_>, at: Offset) -> Option<Offset> {
        view.prefetch(at);
        view.prefetch(at.wrapping_add(USUAL_SIZE));
        let due = std::mem::replace(&mut self.ring[self.known % DISTANCE], at);
        self.known += 1;
        (self.known > DISTANCE).then_some(due)
    }

    /// Those that are left, in their order.
    pub(crate) fn rest(&self) -> impl Iterator<Item = Offset> {
        (self.known.saturating_sub(DISTANCE)..self.known).map(|place| self.ring[place % DISTANCE])
    }
}

#[cfg(test)]
mod tests {
    use undercroft_memory::{Options, ShardSet};

    use super::*;
    use crate::handle::store::Store;

    #[test]
    fn each_offset_is_due_once_and_in_its_order() {
        let directory = tempfile::tempdir_in("/dev/shm").expect("a directory in shared memory");
        let path = directory.path().join("store");
        let store = Store::create(&path, &Options::default()).expect("a new store");
        for count in [0, 1, 15, 16, 17, 100] {
            let seen = store.read(ShardSet::one(0), |reader| {
                let (mut ahead, mut seen) = (Ahead::new(), Vec::new());
                for at in 1..=count {
                    seen.extend(ahead.put(reader.view(), at));
                }
                seen.extend(ahead.rest());
                Ok::<_, crate::Error>(seen)
            });
            let wanted: Vec<Offset> = (1..=count).collect();
            assert_eq!(seen.expect("read"), wanted);
        }
    }
}
