//! All keys as they are at one moment, for an export.

use undercroft_memory::View;

use crate::error::Error;
use crate::store::Store;
use crate::structures::entry::Entry;
use crate::structures::ranges::Ranges;
use crate::structures::roots::{DATABASES, Root};
use crate::structures::walk::scan_bucket;
use crate::types::registry::ValueType;

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
    /// Shows every key that has not expired, once, as they all are at one moment: every shard is locked meanwhile,
    /// so `visit` must be quick and must neither wait nor use the store. O(data).
    ///
    /// # Errors
    /// [`Error::Memory`] where the locks cannot be had or an entry is damaged, or what `visit` returned.
    pub fn snapshot<E: From<Error>>(
        &self,
        mut visit: impl FnMut(Item<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        let shown = self.read_locked(self.all_shards(), |view| {
            let now = self.now();
            let (mut key, mut items) = (Vec::new(), Ranges::new());
            for shard in 0..self.shards() {
                for database in 0..DATABASES {
                    let root = Root { shard, database };
                    walk(view, root, |entry| {
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
        });
        shown?
    }
}

/// Visits each entry of one dictionary once; it must be locked.
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
