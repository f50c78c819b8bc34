//! Reads long strings in place in the store (R7), or removes them from their keys without copying
//! them. Clients store serialized objects in such strings.

use std::time::Duration;

use undercroft_memory::{Offset, Pinned, PinnedBlock, ShardSet, SuspendedBlock, limit_patience};

use crate::error::Error;
use crate::handle::events::KeyEvent;
use crate::handle::reader::Reader;
use crate::handle::store::Store;
use crate::structures::key::Key;
use crate::transaction::effect::Effect;
use crate::transaction::writer::root;
use crate::types::string::text::Text;

/// The minimum length in bytes of a string that is read in place. A shorter string is faster to
/// copy than to pin, and need not occupy complete pages.
const IN_PLACE_MIN: u64 = 32 << 10;
/// The number of attempts to pin a string that other processes keep replacing.
const PIN_ATTEMPTS: u32 = 3;
/// The maximum time to wait for a lock when a string is released. The wait is short because the
/// caller can be a destructor. If it times out, upkeep frees the memory later.
const MOMENT: Duration = Duration::from_millis(1);

/// The result of looking up a string in order to read it in place or to remove it from its key.
#[derive(Debug)]
#[must_use]
pub enum StringInPlace {
    /// A copy of the string, made because the string is short or could not be pinned.
    Copied(Vec<u8>),
    /// A pinned string, which can be read in place until it is [released](Store::let_go).
    Pinned(Pinned),
    /// A string that was removed from its key and belongs to this process until it is
    /// [released](Store::let_go).
    Taken(SuspendedBlock),
    /// The first word of a string that [`Store::take_in_place`] did not remove because `accepts`
    /// returned `false`. The word is 0 if the string is shorter than a word.
    Refused(u64),
}

/// The outcome of looking up a string. `At` contains the offset and length of a string that can be
/// read in place.
enum Seen {
    Copied,
    Missing,
    At(Offset, u64),
}

impl Store {
    /// Returns the string at a key, pinned in place if it is long. A pinned string does not change,
    /// and its memory is not freed before [`let_go`](Self::let_go). The string is copied instead if
    /// it is shorter than 32 KiB, if the store is mapped read-only, or if this process already
    /// reads 126 strings in place. O(1), or O(length) for a copy.
    ///
    /// # Errors
    /// [`Error::WrongType`] if the key holds a value of another type, or any error of a read.
    pub fn get_in_place(
        &self,
        database: usize,
        key: &[u8],
    ) -> Result<Option<StringInPlace>, Error> {
        let key = self.key(key);
        let mut copy = Vec::new();
        let see = |in_place: bool, copy: &mut Vec<u8>| {
            self.read_into(ShardSet::one(key.shard), copy, |reader, copy| {
                reader.see(database, key.bytes, in_place, copy)
            })
        };
        let mut seen = see(self.writable(), &mut copy)?;
        let found = loop {
            let Seen::At(at, length) = seen else {
                break !matches!(seen, Seen::Missing);
            };
            let Some(pinned) = self.segment.pin(at, length)? else {
                seen = see(false, &mut copy)?;
                continue;
            };
            let is_there = self.is_still_at(database, &key, (at, length));
            if is_there == Some(true) {
                self.looked_up(database, &key, true);
                return Ok(Some(StringInPlace::Pinned(pinned)));
            }
            self.segment.unpin(pinned);
            seen = see(is_there.is_some(), &mut copy)?;
        };
        self.looked_up(database, &key, found);
        Ok(found.then_some(StringInPlace::Copied(copy)))
    }

    /// Pins the long string at a key so that it can be copied. Returns `None` if the value is not a
    /// long string or cannot be pinned at the moment.
    pub(crate) fn pin_string(&self, database: usize, key: &Key<'_>) -> Option<Pinned> {
        if !self.writable() {
            return None;
        }
        for _ in 0..PIN_ATTEMPTS {
            let look = self.segment.try_read(ShardSet::one(key.shard), |view| {
                let reader = Reader { store: self, view };
                reader.see(database, key.bytes, true, &mut Vec::new())
            });
            let Some(Ok(Seen::At(at, length))) = look else {
                return None;
            };
            let pinned = self.segment.pin(at, length).ok()??;
            if self.is_still_at(database, key, (at, length)) == Some(true) {
                return Some(pinned);
            }
            self.segment.unpin(pinned);
        }
        None
    }

    /// Returns whether a string is still at the offset where it was found. A pin protects the block
    /// only if this function returns `Some(true)` after pinning. Returns `None` if a write to the
    /// shard is in progress, because the writer may have checked the pins already and may free the
    /// block when it commits. For the same reason, this check never reads through the undo log (R7,
    /// R9).
    fn is_still_at(&self, database: usize, key: &Key<'_>, place: (Offset, u64)) -> Option<bool> {
        let look = self.segment.try_read(ShardSet::one(key.shard), |view| {
            let reader = Reader { store: self, view };
            Ok::<_, Error>(match reader.find(database, key)? {
                Some(entry) => {
                    matches!(entry.text(view)?, Text::Bytes(at, length) if (at, length) == place)
                }
                None => false,
            })
        });
        Some(look?.unwrap_or(false))
    }

    /// Removes a key and returns its string. A long string is not copied but belongs to this
    /// process until [`let_go`](Self::let_go). Before the removal, `accepts` is called with the
    /// string's first word and its length. If `accepts` returns `false`, nothing changes. O(1), or
    /// O(length) for a string shorter than 32 KiB.
    ///
    /// # Errors
    /// [`Error::WrongType`] if the key holds a value of another type, or any error of a write.
    pub fn take_in_place(
        &self,
        database: usize,
        key: &[u8],
        accepts: impl Fn(u64, u64) -> bool + Sync,
    ) -> Result<Option<StringInPlace>, Error> {
        let key = self.key(key);
        self.write(ShardSet::one(key.shard), |writer| {
            let Some(found) = writer.find_slot(database, &key)? else {
                return Ok(None);
            };
            let text = found.entry.text(writer.view())?;
            let first = match text {
                Text::Bytes(at, 8..) => writer.view().word(at)?,
                _ => 0,
            };
            if !accepts(first, text.length()) {
                return Ok(Some(StringInPlace::Refused(first)));
            }
            let taken = match (text, found.entry.block(writer.view())?) {
                (Text::Bytes(_, length @ IN_PLACE_MIN..), Some(block)) => {
                    writer.transaction.take_over(key.shard, block, length)?
                }
                _ => None,
            };
            let whole = match taken {
                Some(taken) => {
                    writer.detach(root(database, &key), found)?;
                    StringInPlace::Taken(taken)
                }
                None => {
                    let mut copy = Vec::new();
                    text.append_to(writer.view(), &mut copy)?;
                    writer.remove_found(root(database, &key), found)?;
                    StringInPlace::Copied(copy)
                }
            };
            writer.changed(database, &key, Effect::Removed);
            writer.tell(KeyEvent::Del, database, &key);
            Ok::<_, Error>(Some(whole))
        })
    }

    /// Returns the address and the length of a string in this process' memory. Whenever the caller
    /// dereferences the address, this handle must still be open and the string must not have been
    /// released.
    pub fn place_of(&self, whole: &StringInPlace) -> (*const u8, usize) {
        match whole {
            StringInPlace::Copied(bytes) => (bytes.as_ptr(), bytes.len()),
            StringInPlace::Refused(_) => (std::ptr::NonNull::dangling().as_ptr(), 0),
            StringInPlace::Pinned(pinned) => {
                let at = self.segment.address_of_pinned(pinned);
                (at, pinned.length() as usize)
            }
            StringInPlace::Taken(taken) => (
                self.place_of_staged(taken).cast_const(),
                taken.length() as usize,
            ),
        }
    }

    /// Appends the bytes of a string to `out`. O(length).
    pub fn append_whole(&self, whole: &StringInPlace, out: &mut Vec<u8>) {
        match whole {
            StringInPlace::Copied(bytes) => out.extend_from_slice(bytes),
            StringInPlace::Pinned(pinned) => self.segment.append_pinned(pinned, out),
            StringInPlace::Taken(taken) => self.segment.append_put_down(taken, out),
            StringInPlace::Refused(_) => {}
        }
    }

    /// Returns the address in this process of memory that was [put
    /// down](undercroft_memory::Staged::put_down), that is, detached from the handle that staged
    /// it.
    pub fn place_of_staged(&self, staged: &SuspendedBlock) -> *mut u8 {
        self.segment.address_of(staged)
    }

    /// Returns whether memory that was [put down](undercroft_memory::Staged::put_down) belongs to
    /// this process. It does not belong to a forked child that inherited `staged`.
    pub fn is_own(&self, staged: &SuspendedBlock) -> bool {
        self.segment.is_own(staged)
    }

    /// Returns the bytes of a string. The result is empty for a refused string, and also in a
    /// forked child for a string that its parent pinned or removed.
    pub fn bytes_of<'a>(&'a self, whole: &'a StringInPlace) -> &'a [u8] {
        match whole {
            StringInPlace::Copied(bytes) => bytes,
            StringInPlace::Refused(_) => &[],
            StringInPlace::Pinned(pinned) => self.segment.bytes_of_pinned(pinned),
            StringInPlace::Taken(taken) => self.segment.bytes_of(taken),
        }
    }

    /// Releases a string. Its memory is freed once no other process is reading it in place. If a
    /// stopped process holds the lock, upkeep frees the memory later. In a child that was forked
    /// while its parent held the string, does nothing, because the string belongs to the parent.
    pub fn let_go(&self, whole: StringInPlace) {
        let _limited = limit_patience(MOMENT);
        match whole {
            StringInPlace::Copied(_) | StringInPlace::Refused(_) => {}
            StringInPlace::Pinned(pinned) => self.segment.unpin(pinned),
            StringInPlace::Taken(taken) => self.give_up(taken),
        }
    }

    /// Frees memory that was [put down](undercroft_memory::Staged::put_down) and is no longer
    /// needed, under the same conditions as [`let_go`](Self::let_go).
    pub fn give_up(&self, staged: SuspendedBlock) {
        let _limited = limit_patience(MOMENT);
        drop(self.segment.take_up(staged));
    }

    /// Returns the strings that are currently being read in place, with the process that is reading
    /// each string and the time at which it was pinned, oldest first.
    pub fn pins(&self) -> Vec<PinnedBlock> {
        self.segment.pins()
    }
}

impl Reader<'_, '_> {
    /// Locates a string that can be read in place. Copies any other string to `copy`.
    fn see(
        &self,
        database: usize,
        key: &[u8],
        in_place: bool,
        copy: &mut Vec<u8>,
    ) -> Result<Seen, Error> {
        let Some(entry) = self.find(database, &self.key(key))? else {
            return Ok(Seen::Missing);
        };
        let text = entry.text(self.view())?;
        match (text, entry.block(self.view())?) {
            (Text::Bytes(at, length @ IN_PLACE_MIN..), Some(_)) if in_place => {
                Ok(Seen::At(at, length))
            }
            _ => {
                text.append_to(self.view(), copy)?;
                Ok(Seen::Copied)
            }
        }
    }
}
