//! The prefixes of connections in BCAST mode, and the changed keys that begin with them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// The connections that are told about keys with one prefix.
#[derive(Default)]
struct Listeners {
    ids: BTreeSet<u64>,
    /// The keys that have changed since the connections were last told, each with the client that
    /// changed it last.
    changed: BTreeMap<Arc<[u8]>, u64>,
}

/// Keys that changed, each with the client that changed it last.
pub(super) type ChangedKeys = BTreeMap<Arc<[u8]>, u64>;

/// All prefixes.
#[derive(Default)]
pub(super) struct Prefixes(BTreeMap<Vec<u8>, Listeners>);

impl Prefixes {
    /// Returns the number of prefixes.
    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    pub(super) fn add(&mut self, prefix: &[u8], id: u64) {
        let listeners = self.0.entry(prefix.to_vec()).or_default();
        listeners.ids.insert(id);
    }

    /// Removes all prefixes of a connection. O(prefixes).
    pub(super) fn remove(&mut self, id: u64) {
        self.0.retain(|_, listeners| {
            listeners.ids.remove(&id);
            !listeners.ids.is_empty()
        });
    }

    /// Notes a changed key under each prefix with which it begins. O(prefixes).
    pub(super) fn note(&mut self, key: &[u8], origin: u64) {
        let mut shared: Option<Arc<[u8]>> = None;
        let meant = |prefix: &&Vec<u8>| key.starts_with(prefix);
        for (_, listeners) in self.0.iter_mut().filter(|(prefix, _)| meant(prefix)) {
            let key = shared.get_or_insert_with(|| key.into());
            listeners.changed.insert(Arc::clone(key), origin);
        }
    }

    /// Calls `tell` with the connections of each prefix under which keys were noted, and these keys,
    /// and forgets the keys.
    pub(super) fn tell(&mut self, mut tell: impl FnMut(&BTreeSet<u64>, ChangedKeys)) {
        for listeners in self.0.values_mut() {
            if !listeners.changed.is_empty() {
                tell(&listeners.ids, std::mem::take(&mut listeners.changed));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_told_to_the_connections_of_their_prefixes() {
        let mut prefixes = Prefixes::default();
        for (prefix, id) in [("", 1), ("a:", 2), ("a:b", 3), ("b:", 2)] {
            prefixes.add(prefix.as_bytes(), id);
        }
        for (key, origin) in [("a:1", 7), ("a:bc", 0), ("c", 0), ("a:1", 8)] {
            prefixes.note(key.as_bytes(), origin);
        }
        let mut told = Vec::new();
        prefixes.tell(|ids, keys| {
            let keys: Vec<(String, u64)> = keys
                .into_iter()
                .map(|(key, origin)| (String::from_utf8_lossy(&key).into(), origin))
                .collect();
            told.push((ids.iter().copied().collect::<Vec<_>>(), keys));
        });
        let key = |key: &str, origin| (key.to_owned(), origin);
        assert_eq!(
            told,
            [
                (vec![1], vec![key("a:1", 8), key("a:bc", 0), key("c", 0)]),
                (vec![2], vec![key("a:1", 8), key("a:bc", 0)]),
                (vec![3], vec![key("a:bc", 0)]),
            ]
        );
        prefixes.tell(|_, _| panic!("the keys were told"));
        prefixes.remove(2);
        assert_eq!(prefixes.len(), 2);
    }
}
