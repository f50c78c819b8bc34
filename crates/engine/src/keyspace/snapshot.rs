//! A consistent snapshot of all keys, for an export.

use undercroft_memory::View;

use crate::error::Error;
use crate::handle::store::Store;
use crate::structures::entry::Entry;
use crate::structures::ranges::Ranges;
use crate::structures::roots::{DATABASES, Root};
use crate::structures::walk::scan_bucket;
use crate::types::value_type::ValueType;

/// One key in a snapshot, with its value.
#[derive(Clone, Copy, Debug)]
pub struct Item<'i> {
    /// The database of the key.
    pub database: usize,
    /// The name of the key.
    pub key: &'i [u8],
    /// The type of the value.
    pub value_type: ValueType,
    /// The time when the key expires in Unix milliseconds, or `None` if the key does not expire.
    pub expiry: Option<u64>,
    /// The value as a flat list of items; see [`Entry::append_items`].
    pub items: &'i Ranges,
}

impl Store {
    /// Visits every unexpired key exactly once, in the state that the store had at one moment.
    /// Other processes keep reading and writing: the used part of the store is first copied to
    /// private memory, and no lock is held while `visit` runs. O(data).
    ///
    /// # Errors
    /// Returns [`Error::Memory`] if the locks cannot be acquired, if the store changes faster than
    /// it can be copied, or if an entry is damaged. Also returns any error from `visit`.
    pub fn snapshot<E: From<Error>>(
        &self,
        visit: impl FnMut(Item<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        if self.segment.is_alone() {
            // The mapping is private, so locks block no other process. Read the data in place: a
            // private copy of a store that was changing may have inconsistent page maps, which
            // copying requires.
            let mut visit = visit;
            let shown = self.read_locked(self.all_shards(), |view| {
                show(view, self.shards(), self.now(), &mut visit)
            });
            return shown?;
        }
        let (image, now) = self.image(|| self.now(), &mut || {})?;
        show(&image.view(), self.shards(), now, visit)
    }

    /// Like [`snapshot`](Self::snapshot), but calls `between` after each copied page, with no lock
    /// held. Only for tests.
    #[doc(hidden)]
    pub fn snapshot_interrupted<E: From<Error>>(
        &self,
        between: &mut dyn FnMut(),
        visit: impl FnMut(Item<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        let (image, now) = self.image(|| self.now(), between)?;
        show(&image.view(), self.shards(), now, visit)
    }
}

/// Visits every key that has not expired at the time `now`.
fn show<E: From<Error>>(
    view: &View<'_>,
    shards: usize,
    now: u64,
    mut visit: impl FnMut(Item<'_>) -> Result<(), E>,
) -> Result<(), E> {
    let (mut key, mut items) = (Vec::new(), Ranges::new());
    for shard in 0..shards {
        for database in 0..DATABASES {
            walk(view, Root { shard, database }, |entry| {
                let expiry = entry.expiry(view)?;
                if expiry.is_some_and(|expiry| expiry <= now) {
                    return Ok(());
                }
                key.clear();
                items.clear();
                entry.append_key(view, &mut key)?;
                entry.append_items(view, &mut items)?;
                visit(Item {
                    database,
                    key: &key,
                    value_type: entry.value_type()?,
                    expiry,
                    items: &items,
                })
            })?;
        }
    }
    Ok(())
}

/// Visits each entry of a dictionary once. The dictionary must not change during the walk.
fn walk<E: From<Error>>(
    view: &View<'_>,
    root: Root,
    mut visit: impl FnMut(&Entry) -> Result<(), E>,
) -> Result<(), E> {
    let mut position = 0;
    let mut found = Vec::new();
    loop {
        found.clear();
        position = scan_bucket(view, root, position, |at| {
            found.push(at);
            Ok(())
        })?;
        for &at in &found {
            visit(&Entry::load(view, at).map_err(Error::from)?)?;
        }
        if position == 0 {
            return Ok(());
        }
    }
}
