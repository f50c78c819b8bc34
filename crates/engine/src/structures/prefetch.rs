//! Prefetching for walks over collections. Elements are scattered in memory, so their cache lines
//! are loaded while the walk processes earlier elements.

use undercroft_memory::{Offset, View};

/// The number of keys that are prefetched as a group, large enough to keep the CPU's load units
/// busy.
pub(crate) const TOGETHER: usize = 16;
/// The number of elements whose loads are in flight. CPUs support ten to sixteen outstanding cache
/// misses.
const DISTANCE: usize = 16;
/// The typical size of an element in bytes. If an element of this size extends into the next cache
/// line, that line is also prefetched.
const USUAL_SIZE: u64 = 48;

/// A ring of offsets that a walk has reached but not visited yet, in walk order.
pub(crate) struct Ahead {
    ring: [Offset; DISTANCE],
    /// The number of offsets added so far.
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

    /// Prefetches the block at `at` and adds it to the ring. If the ring was full, returns the
    /// oldest offset, which the walk must visit now.
    #[inline(always)]
    pub(crate) fn put(&mut self, view: &View<'_>, at: Offset) -> Option<Offset> {
        view.prefetch(at);
        view.prefetch(at.wrapping_add(USUAL_SIZE));
        let due = std::mem::replace(&mut self.ring[self.known % DISTANCE], at);
        self.known += 1;
        (self.known > DISTANCE).then_some(due)
    }

    /// Returns the offsets that remain in the ring, in walk order.
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
    fn each_offset_is_returned_once_and_in_order() {
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
