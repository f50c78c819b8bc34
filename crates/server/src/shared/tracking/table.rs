//! The keys that connections have read since they were last told about changes of the keys.

use std::collections::HashMap;
use std::sync::Arc;

/// The connections that have read one key.
struct Readers {
    /// The IDs of the connections, in ascending order.
    ids: Vec<u64>,
    /// The number of IDs beyond which those of closed connections are removed.
    most: usize,
    /// The index of the key in the list of keys.
    place: usize,
}

/// The number of connections of a key from which closed ones are looked for.
const READERS_MIN: usize = 16;

/// The keys that connections have read. As in Redis, the entries of a closed connection stay until
/// the key changes or is evicted, but each key has at most twice as many as there are connections, or
/// [`READERS_MIN`].
#[derive(Default)]
pub(super) struct Table {
    readers: HashMap<Arc<[u8]>, Readers>,
    /// All keys, from which a random one is chosen for eviction.
    keys: Vec<Arc<[u8]>>,
    /// The number of pairs of a key and a connection.
    items: u64,
    /// The state of the generator that chooses keys for eviction.
    random: u64,
}

impl Table {
    /// Returns the number of keys.
    pub(super) fn len(&self) -> usize {
        self.keys.len()
    }

    /// Returns the number of pairs of a key and a connection.
    pub(super) fn items(&self) -> u64 {
        self.items
    }

    /// Remembers that a connection reads a key. `tracks` returns whether a connection still tracks keys.
    /// Returns whether the key was not in the table.
    pub(super) fn remember(&mut self, key: &[u8], id: u64, tracks: impl Fn(u64) -> bool) -> bool {
        let is_new = !self.readers.contains_key(key);
        if is_new {
            let key: Arc<[u8]> = key.into();
            let readers = Readers {
                ids: Vec::new(),
                most: READERS_MIN,
                place: self.keys.len(),
            };
            self.keys.push(Arc::clone(&key));
            self.readers.insert(key, readers);
        }
        if let Some(readers) = self.readers.get_mut(key)
            && let Err(place) = readers.ids.binary_search(&id)
        {
            readers.ids.insert(place, id);
            self.items += 1;
            let before = readers.ids.len();
            if before > readers.most {
                readers.ids.retain(|id| tracks(*id));
                let left = readers.ids.len();
                readers.most = READERS_MIN.max(2 * left);
                self.items -= (before - left) as u64;
            }
        }
        is_new
    }

    /// Removes a key. Returns the key and the connections that have read it.
    pub(super) fn take(&mut self, key: &[u8]) -> Option<(Arc<[u8]>, Vec<u64>)> {
        let (key, readers) = self.readers.remove_entry(key)?;
        self.keys.swap_remove(readers.place);
        if let Some(moved) = self.keys.get(readers.place)
            && let Some(moved) = self.readers.get_mut(moved)
        {
            moved.place = readers.place;
        }
        self.items -= readers.ids.len() as u64;
        Some((key, readers.ids))
    }

    /// Removes a random key.
    pub(super) fn take_any(&mut self) -> Option<(Arc<[u8]>, Vec<u64>)> {
        self.random = self
            .random
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        let place = (self.random >> 33) as usize % self.keys.len().max(1);
        let key = Arc::clone(self.keys.get(place)?);
        self.take(&key)
    }

    /// Removes all keys.
    pub(super) fn clear(&mut self) {
        *self = Table {
            random: self.random,
            ..Table::default()
        };
    }
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};

    use super::*;

    #[test]
    fn closed_connections_do_not_accumulate() {
        let mut table = Table::default();
        for id in 0..10_000 {
            table.remember(b"key", id, |other| other + 5 > id);
            assert!(
                table.items() <= READERS_MIN as u64,
                "{id}: {}",
                table.items()
            );
        }
        let (_, ids) = table.take(b"key").expect("a known key");
        assert!(ids.ends_with(&[9995, 9996, 9997, 9998, 9999]));
        assert_eq!(table.items(), 0);
    }

    #[test]
    fn table_matches_a_naive_map() {
        let mut random = fastrand::Rng::with_seed(4);
        let (mut table, mut model) = (Table::default(), BTreeMap::<Vec<u8>, BTreeSet<u64>>::new());
        for _ in 0..20_000 {
            let key = vec![random.u8(..40)];
            match random.u32(..10) {
                0..6 => {
                    let id = random.u64(..5);
                    let is_new = table.remember(&key, id, |_| true);
                    assert_eq!(is_new, !model.contains_key(&key));
                    model.entry(key).or_default().insert(id);
                }
                6..8 => {
                    let taken = table.take(&key).map(|(_, ids)| ids);
                    let expected = model.remove(&key).map(|ids| ids.into_iter().collect());
                    assert_eq!(taken, expected);
                }
                8 => {
                    let taken = table.take_any();
                    assert_eq!(taken.is_none(), model.is_empty());
                    if let Some((key, ids)) = taken {
                        let expected = model.remove(&*key).expect("a known key");
                        assert!(ids.into_iter().eq(expected));
                    }
                }
                _ if random.u32(..100) == 0 => {
                    table.clear();
                    model.clear();
                }
                _ => {}
            }
            let items: usize = model.values().map(BTreeSet::len).sum();
            assert_eq!((table.len(), table.items()), (model.len(), items as u64));
        }
    }
}
