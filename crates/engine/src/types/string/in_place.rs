//! Long strings that are read in the store itself (R7), or taken out of it as they lie there. Objects are such strings.

use std::time::Duration;

use undercroft_memory::{Offset, Pinned, PinnedBlock, PutDown, ShardSet, limit_patience};

use crate::error::Error;
use crate::handle::events::KeyEvent;
use crate::handle::reader::Reader;
use crate::handle::store::Store;
use crate::structures::key::Key;
use crate::transaction::effect::Effect;
use crate::transaction::writer::root;
use crate::types::string::text::Text;

/// Shorter strings are copied: that takes less time than a pin, and they need not be blocks of whole pages.
const IN_PLACE_MIN: u64 = 32 << 10;
/// Attempts to pin a string that others replace all the time.
const PIN_ATTEMPTS: u32 = 3;
/// How long whoever lets go of a string waits for a lock: it may be a destructor, and upkeep does it otherwise.
const MOMENT: Duration = Duration::from_millis(1);

/// A string as it was found.
#[derive(Debug)]
#[must_use]
pub enum Whole {
    /// It is short, or there is no pin left: a copy.
    Copied(Vec<u8>),
    /// It is read where it lies, until it is [let go](Store::let_go).
    Pinned(Pinned),
    /// It is no key's any more, and this process' own until it is [let go](Store::let_go).
    Taken(PutDown),
    /// It was not what is taken, and is where it was; its first word, 0 where it has none.
    Refused(u64),
}

/// Where a reader found a string.
enum Seen {
    Copied,
    Missing,
    At(Offset, u64),
}

impl Store {
    /// The string that a key holds, in place where it is long: it does not change, and its memory is kept, until it is
    /// let go. O(1), and O(length) where it is copied: a string of less than 32 KiB, or of a store that is mapped to be
    /// read only, or where this process reads 126 strings in place already.
    ///
    /// # Errors
    /// [`Error::WrongType`] where the key holds something else; those of a read.
    pub fn get_in_place(&self, database: usize, key: &[u8]) -> Result<Option<Whole>, Error> {
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
                return Ok(Some(Whole::Pinned(pinned)));
            }
            self.segment.unpin(pinned);
            seen = see(is_there.is_some(), &mut copy)?;
        };
        self.looked_up(database, &key, found);
        Ok(found.then_some(Whole::Copied(copy)))
    }

    /// Pins the long string that a key holds, to be copied. None where it is no long string, or cannot be pinned now.
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

    /// Whether a string is still where it was found, which counts once the block is pinned. None where a change is in the
    /// way: whoever makes it may have looked at the pins already, and frees the block with the commit. So this is no look
    /// through the log (R7, R9).
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

    /// Removes a key and returns the string that it held: what is long is not copied, but becomes this process' own
    /// until it is let go. `accepts` is asked before, with the string's first word and its length; where it says
    /// no, nothing changes. O(1), and O(length) of what is shorter than 32 KiB.
    ///
    /// # Errors
    /// [`Error::WrongType`] where the key holds something else; those of a change.
    pub fn take_in_place(
        &self,
        database: usize,
        key: &[u8],
        accepts: impl Fn(u64, u64) -> bool + Sync,
    ) -> Result<Option<Whole>, Error> {
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
                return Ok(Some(Whole::Refused(first)));
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
                    Whole::Taken(taken)
                }
                None => {
                    let mut copy = Vec::new();
                    text.append_to(writer.view(), &mut copy)?;
                    writer.remove_found(root(database, &key), found)?;
                    Whole::Copied(copy)
                }
            };
            writer.changed(database, &key, Effect::Removed);
            writer.tell(KeyEvent::Del, database, &key);
            Ok::<_, Error>(Some(whole))
        })
    }

    /// Where a string that is not copied begins in this process' memory, and its length. Whoever reads there keeps this
    /// handle open, and ends before the string is let go.
    pub fn place_of(&self, whole: &Whole) -> (*const u8, usize) {
        match whole {
            Whole::Copied(bytes) => (bytes.as_ptr(), bytes.len()),
            Whole::Refused(_) => (std::ptr::NonNull::dangling().as_ptr(), 0),
            Whole::Pinned(pinned) => {
                let at = self.segment.address_of_pinned(pinned);
                (at, pinned.length() as usize)
            }
            Whole::Taken(taken) => (
                self.place_of_staged(taken).cast_const(),
                taken.length() as usize,
            ),
        }
    }

    /// Appends a string that was found to `out`. O(length).
    pub fn append_whole(&self, whole: &Whole, out: &mut Vec<u8>) {
        match whole {
            Whole::Copied(bytes) => out.extend_from_slice(bytes),
            Whole::Pinned(pinned) => self.segment.append_pinned(pinned, out),
            Whole::Taken(taken) => self.segment.append_put_down(taken, out),
            Whole::Refused(_) => {}
        }
    }

    /// Where memory that was [put down](undercroft_memory::Staged::put_down) begins in this process' memory.
    pub fn place_of_staged(&self, staged: &PutDown) -> *mut u8 {
        self.segment.address_of(staged)
    }

    /// Whether memory that was put down is this very process': a forked child's copy of it is not.
    pub fn is_own(&self, staged: &PutDown) -> bool {
        self.segment.is_own(staged)
    }

    /// The bytes of what was found; none of what was refused, nor in a forked child of what was found in place.
    pub fn bytes_of<'a>(&'a self, whole: &'a Whole) -> &'a [u8] {
        match whole {
            Whole::Copied(bytes) => bytes,
            Whole::Refused(_) => &[],
            Whole::Pinned(pinned) => self.segment.bytes_of_pinned(pinned),
            Whole::Taken(taken) => self.segment.bytes_of(taken),
        }
    }

    /// Ends the reading of a string in place. Its memory is freed where nobody else needs it, by upkeep where somebody is
    /// stopped with a lock. In a child that was forked
    /// meanwhile this does nothing: the string is the parent's.
    pub fn let_go(&self, whole: Whole) {
        let _limited = limit_patience(MOMENT);
        match whole {
            Whole::Copied(_) | Whole::Refused(_) => {}
            Whole::Pinned(pinned) => self.segment.unpin(pinned),
            Whole::Taken(taken) => self.give_up(taken),
        }
    }

    /// Frees memory that was put down and that nobody needs; as [`let_go`](Self::let_go) does.
    pub fn give_up(&self, staged: PutDown) {
        let _limited = limit_patience(MOMENT);
        drop(self.segment.take_up(staged));
    }

    /// The strings that are read in place now, by whom and since when, oldest first.
    pub fn pins(&self) -> Vec<PinnedBlock> {
        self.segment.pins()
    }
}

impl Reader<'_, '_> {
    /// Where a string is, if it is read in place; copies it otherwise.
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
