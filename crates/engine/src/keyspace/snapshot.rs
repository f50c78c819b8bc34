//! All keys as they are at one moment, for an export.

use undercroft_memory::View;

use crate::error::Error;
use crate::handle::store::Store;
use crate::structures::entry::Entry;
use crate::structures::ranges::Ranges;
use crate::structures::roots::{DATABASES, Root};
use crate::structures::walk::scan_bucket;
use crate::types::value_type::ValueType;

/// One key as a snapshot shows it.
#[derive(Clone, Copy, Debug)]
pub struct Item<'i> {
    /// The database the key lies in.
    pub database: usize,
    /// The key.
    pub key: &'i [u8],
    /// What kind of value it holds.
    pub value_type: ValueType,
    /// When it expires, Unix milliseconds.
    pub expiry: Option<u64>,
    /// The value as a flat list; see [`Entry::append_items`].
    pub items: &'i Ranges,
}

impl Store {
    /// Shows every key that has not expired, once, as they all are at one moment. Others read and write meanwhile:
    /// the store is copied into this process' memory first, which takes as much of it as the store has in use, and no
    /// lock is held while `visit` runs, however long it takes. O(data).
    ///
    /// # Errors
    /// [`Error::Memory`] where the locks cannot be had, the store changes faster than it can be copied, or an entry is
    /// damaged; or what `visit` returned.
    pub fn snapshot<E: From<Error>>(
        &self,
        visit: impl FnMut(Item<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        if self.segment.is_alone() {
            // Nobody to stop; and the maps of a store whose pages are of several moments may say anything, so that
            // what can be read is read where it lies.
            let mut visit = visit;
            let shown = self.read_locked(self.all_shards(), |view| {
                show(view, self.shards(), self.now(), &mut visit)
            });
            return shown?;
        }
        let (image, now) = self.image(|| self.now(), &mut || {})?;
        show(&image.view(), self.shards(), now, visit)
    }

    /// [`snapshot`](Self::snapshot) that calls `between` after every page that it copies, with no lock held; for tests.
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

/// Shows every key that has not expired by `now`.
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

/// Visits each entry of one dictionary once, which nobody changes meanwhile.
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
