//! Reads strings without copying them: long strings are read in place in shared memory.

use std::sync::Arc;

use bytes::Bytes;
use undercroft_embedded::OpenStore;
use undercroft_engine::strings::StringInPlace;

use crate::command::ToSingleArg;
use crate::error::Result;
use crate::store::Store;

/// A string of a store that no process changes or frees before this value is dropped (R7).
struct InPlace {
    open: Arc<OpenStore>,
    found: Option<StringInPlace>,
}

impl AsRef<[u8]> for InPlace {
    fn as_ref(&self) -> &[u8] {
        match &self.found {
            Some(found) => self.open.store.bytes_of(found),
            None => &[],
        }
    }
}

impl Drop for InPlace {
    fn drop(&mut self) {
        if let Some(found) = self.found.take() {
            self.open.store.let_go(found);
        }
    }
}

impl Store {
    /// Calls `read` with the string value of a key. Returns its result, or `None` if the key does
    /// not exist. O(1) for a string of 32 KiB or more, because only shorter strings are copied.
    ///
    /// During the call, other processes can replace or delete the key; `read` sees the value from
    /// before. `read` may itself use the store, because no lock is held. If this process already
    /// reads 126 strings in place, or if the store is mapped read-only, the string is copied.
    ///
    /// # Errors
    /// The errors of [`get`](Self::get).
    ///
    /// ```
    /// # let directory = undercroft_testkit::fresh::directory();
    /// # let store = undercroft::Store::open_path(directory.path().join("store"))?;
    /// store.set("image", vec![7; 1_000_000])?;
    /// let sum = store.get_ref("image", |bytes| bytes.iter().map(|byte| u64::from(*byte)).sum::<u64>());
    /// assert_eq!(sum?, Some(7_000_000));
    /// assert_eq!(store.get_ref("other", |bytes| bytes.len())?, None);
    /// # Ok::<(), undercroft::Error>(())
    /// ```
    pub fn get_ref<R>(
        &self,
        key: impl ToSingleArg,
        read: impl FnOnce(&[u8]) -> R,
    ) -> Result<Option<R>> {
        let found = key.with_arg(|key| self.in_place(key))?;
        Ok(found.map(|found| read(found.as_ref())))
    }

    /// Returns the string value of a key, which clones share. O(1) for a string of 32 KiB or more:
    /// the bytes stay in shared memory, and their memory is freed after the last clone is dropped.
    /// They count against the limits of [`get_ref`](Self::get_ref).
    ///
    /// # Errors
    /// The errors of [`get`](Self::get).
    ///
    /// ```
    /// # let directory = undercroft_testkit::fresh::directory();
    /// # let store = undercroft::Store::open_path(directory.path().join("store"))?;
    /// store.set("image", vec![7; 1_000_000])?;
    /// let image: bytes::Bytes = store.get_bytes("image")?.expect("it was set");
    /// store.del(&["image"])?;
    /// assert_eq!(image.len(), 1_000_000);
    /// # Ok::<(), undercroft::Error>(())
    /// ```
    pub fn get_bytes(&self, key: impl ToSingleArg) -> Result<Option<Bytes>> {
        let Some(mut found) = key.with_arg(|key| self.in_place(key))? else {
            return Ok(None);
        };
        Ok(Some(match found.found.take() {
            // The copy already belongs to this process.
            Some(StringInPlace::Copied(copy)) => copy.into(),
            other => {
                found.found = other;
                Bytes::from_owner(found)
            }
        }))
    }

    fn in_place(&self, key: &[u8]) -> Result<Option<InPlace>> {
        self.call(|open| {
            let found = open.store.get_in_place(self.database, key)?;
            Ok(found.map(|found| InPlace {
                open: open.clone(),
                found: Some(found),
            }))
        })
    }
}

#[cfg(test)]
mod tests {
    use std::panic::{AssertUnwindSafe, catch_unwind};

    use super::*;

    #[test]
    fn strings_read_in_place_are_freed_after_the_last_reader() -> Result<()> {
        let directory = undercroft_testkit::fresh::directory();
        let store = Store::open_path(directory.path().join("store"))?;
        let used = || -> u64 { store.with(|store| store.used_memory()) };
        store.set("long", vec![1; 300_000])?;
        store.del(["long"])?;
        let before = used();
        store.set("long", vec![7; 300_000])?;
        let bytes = store.get_bytes("long")?.expect("it was set");
        let clone = bytes.clone();
        // A panic of the reader releases the string as well.
        let panicking = || store.get_ref("long", |_| panic!("expected by the test"));
        assert!(catch_unwind(AssertUnwindSafe(panicking)).is_err());
        let seen = store.get_ref("long", |bytes| {
            store.del(["long"])?;
            Ok::<_, crate::Error>((bytes.len(), bytes[299_999], store.get("long")?))
        })?;
        assert_eq!(seen.expect("it was set")?, (300_000, 7, None));
        drop(bytes);
        assert!(used() > before + 300_000, "a clone still reads the string");
        assert_eq!(&*clone, &[7; 300_000][..]);
        drop(clone);
        assert!(used() < before + 5_000);
        Ok(())
    }

    #[test]
    fn short_and_missing_strings_and_other_types_are_read_like_get() -> Result<()> {
        let directory = undercroft_testkit::fresh::directory();
        let store = Store::open_path(directory.path().join("store"))?;
        for length in [0, 1, 32_767, 32_768, 1_000_000] {
            let value = vec![b'x'; length];
            store.set("key", &value)?;
            assert_eq!(store.get_ref("key", <[u8]>::to_vec)?, Some(value.clone()));
            assert_eq!(store.get_bytes("key")?.as_deref(), Some(&value[..]));
        }
        assert_eq!(store.get_bytes("none")?, None);
        store.rpush("list", ["item"])?;
        assert!(
            store
                .get_bytes("list")
                .is_err_and(|error| error.is_wrong_type())
        );
        assert!(store.get_ref("list", |_| ()).is_err());
        Ok(())
    }
}
