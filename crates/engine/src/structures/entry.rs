//! One key with its value: the block that a bucket's slot refers to.
//!
//! ```text
//! | type, encoding, flags, key length, value length |  8 bytes
//! | expiry, Unix milliseconds                       |  8, if it expires
//! | key length                                      |  8, if beyond 65,534
//! | key, padded to 8                                |
//! | value, padded to 8; or the offset of its block; |
//! |   or the root words of an object                |
//! ```

use undercroft_memory::{Fault, Offset, View};

use crate::error::Error;

/// The maximum size in bytes of a value that is stored in the entry itself.
pub(crate) const INLINE_MAX: u64 = 4096;
/// The maximum length of a key whose length fits in the header.
const SHORT_KEY_MAX: u64 = 0xfffe;

const EXPIRES: u64 = 1 << 8;
const LONG_KEY: u64 = 1 << 9;
const RAW: u64 = 1 << 10;
/// The position and the maximum value of the header bits that the value's type can use freely.
const DETAIL_SHIFT: u64 = 11;
const DETAIL_MAX: u64 = 31;

/// The place where the bytes of a value are stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    /// The value is stored in the entry.
    Inline = 0,
    /// The value is an integer that is stored in the entry as a word.
    Integer = 1,
    /// The value is stored in a separate block.
    Block = 2,
    /// The value is a tree or a dictionary, whose root words are in the entry.
    Object = 3,
}

/// The type of a value and the type's detail bits, as stored in the header of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Kind {
    /// The number of the value's type (four bits).
    pub(crate) number: u64,
    /// Bits that the value's type can use freely (five bits).
    pub(crate) detail: u64,
}

/// The first word of an entry, which contains its type, flags and lengths.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Header(pub(crate) u64);

impl Header {
    /// Creates the header for a value of `value` bytes under a key of `key` bytes.
    #[inline(always)]
    pub(crate) fn new(kind: Kind, form: Form, key: u64, value: u64, expires: bool) -> Header {
        let short = if key > SHORT_KEY_MAX { 0xffff } else { key };
        let mut bits = kind.number
            | (form as u64) << 4
            | (kind.detail & DETAIL_MAX) << DETAIL_SHIFT
            | short << 16
            | value << 32;
        if expires {
            bits |= EXPIRES;
        }
        if key > SHORT_KEY_MAX {
            bits |= LONG_KEY;
        }
        Header(bits)
    }

    /// Returns this header, flagged as the header of a string that counts as changed in place.
    /// Redis reports the encoding of such a string as "raw".
    pub(crate) fn as_raw(self) -> Header {
        Header(self.0 | RAW)
    }

    /// Returns a header with the given bits and with the expiry flag set or cleared.
    pub(crate) fn with_expiry(bits: u64, expires: bool) -> Header {
        Header(bits & !EXPIRES | if expires { EXPIRES } else { 0 })
    }

    /// Returns this header with a different key length.
    pub(crate) fn with_key_length(self, key: u64) -> Header {
        let rest = self.0 & !(0xffff << 16 | LONG_KEY);
        if key > SHORT_KEY_MAX {
            Header(rest | 0xffff << 16 | LONG_KEY)
        } else {
            Header(rest | key << 16)
        }
    }

    /// Returns this header for a string that was changed in place and now has `length` bytes.
    pub(crate) fn changed_in_place(self, length: u64) -> Header {
        Header(self.0 & 0xffff_ffff | RAW | length << 32)
    }

    #[inline(always)]
    pub(crate) fn form(self) -> Option<Form> {
        match self.0 >> 4 & 15 {
            0 => Some(Form::Inline),
            1 => Some(Form::Integer),
            2 => Some(Form::Block),
            3 => Some(Form::Object),
            _ => None,
        }
    }

    /// Returns the number of the value's type.
    #[inline(always)]
    pub(crate) fn type_number(self) -> u64 {
        self.0 & 15
    }

    /// Returns the bits that the value's type can use freely.
    #[inline(always)]
    pub(crate) fn detail(self) -> u64 {
        self.0 >> DETAIL_SHIFT & DETAIL_MAX
    }

    #[inline(always)]
    pub(crate) fn raw(self) -> bool {
        self.0 & RAW != 0
    }

    #[inline(always)]
    pub(crate) fn expires(self) -> bool {
        self.0 & EXPIRES != 0
    }

    #[inline(always)]
    pub(crate) fn long_key(self) -> bool {
        self.0 & LONG_KEY != 0
    }

    #[inline(always)]
    pub(crate) fn short_key_length(self) -> u64 {
        self.0 >> 16 & 0xffff
    }

    #[inline(always)]
    pub(crate) fn value_length(self) -> u64 {
        self.0 >> 32
    }

    /// Returns the number of bytes in the entry before the key.
    #[inline(always)]
    pub(crate) fn key_offset(self) -> u64 {
        8 + (self.0 & EXPIRES) / EXPIRES * 8 + (self.0 & LONG_KEY) / LONG_KEY * 8
    }

    /// Returns how many bytes of the value are stored in the entry.
    #[inline(always)]
    pub(crate) fn inline_length(self) -> u64 {
        match self.form() {
            Some(Form::Inline | Form::Object) => self.value_length(),
            _ => 8,
        }
    }
}

/// An entry in the store, given by its offset and its decoded header.
#[derive(Clone, Copy, Debug)]
pub struct Entry {
    pub(crate) at: Offset,
    pub(crate) header: Header,
    pub(crate) key_length: u64,
}

impl Entry {
    /// Reads the header of the entry at an offset. A torn read is detected before any length is
    /// used (R3), so the lengths are consistent.
    #[inline(always)]
    pub(crate) fn load(view: &View<'_>, at: Offset) -> Result<Entry, Fault> {
        let header = Header(view.word(at)?);
        let key_length = if header.long_key() {
            view.word(at + header.key_offset() - 8)?
        } else {
            header.short_key_length()
        };
        Ok(Entry {
            at,
            header,
            key_length,
        })
    }

    /// Reads the header of the entry at an offset, and returns the entry if its key equals `key`.
    #[inline(always)]
    pub(crate) fn load_if_key(
        view: &View<'_>,
        at: Offset,
        key: &[u8],
    ) -> Result<Option<Entry>, Fault> {
        let block = view.block(at)?;
        // Prefetch the next cache line, which usually contains the value.
        block.prefetch_next_line();
        let header = Header(block.word(0)?);
        let key_offset = header.key_offset();
        let key_length = if header.long_key() {
            block.word(key_offset - 8)?
        } else {
            header.short_key_length()
        };
        if key_length != key.len() as u64 || !block.equals(key_offset, key)? {
            return Ok(None);
        }
        Ok(Some(Entry {
            at,
            header,
            key_length,
        }))
    }

    // A torn header can yield any offset, so the offset is checked where it is used (S3).
    #[inline(always)]
    pub(crate) fn key_at(&self) -> Offset {
        self.at.wrapping_add(self.header.key_offset())
    }

    #[inline(always)]
    pub(crate) fn value_at(&self) -> Offset {
        self.key_at().wrapping_add(padded(self.key_length))
    }

    /// Returns the number of bytes that the entry uses in its block.
    #[inline(always)]
    pub(crate) fn size(&self) -> u64 {
        entry_size(self.header, self.key_length)
    }

    /// Appends the key to `out`.
    pub fn append_key(&self, view: &View<'_>, out: &mut Vec<u8>) -> Result<(), Error> {
        Ok(view.append_to(self.key_at(), self.key_length, out)?)
    }

    /// Returns the length of the key in bytes.
    pub fn key_length(&self) -> u64 {
        self.key_length
    }

    /// Returns the time when the key expires in Unix milliseconds, if it has an expiry.
    #[inline(always)]
    pub fn expiry(&self, view: &View<'_>) -> Result<Option<u64>, Error> {
        if self.header.expires() {
            Ok(Some(view.word(self.at + 8)?))
        } else {
            Ok(None)
        }
    }

    pub(crate) fn fault(&self) -> Fault {
        Fault {
            at: self.at,
            what: "an entry of a known type and form",
        }
    }

    /// Returns the separate block of the value, or `None` if the value has no separate block.
    #[inline(always)]
    pub(crate) fn block(&self, view: &View<'_>) -> Result<Option<Offset>, Error> {
        match self.header.form() {
            Some(Form::Block) => Ok(Some(view.word(self.value_at())?)),
            Some(_) => Ok(None),
            None => Err(self.fault().into()),
        }
    }
}

/// Rounds `length` bytes up to a multiple of the word size.
#[inline(always)]
fn padded(length: u64) -> u64 {
    length.wrapping_add(7) & !7
}

/// Returns the size in bytes of an entry with the given header and key length.
#[inline(always)]
pub(crate) fn entry_size(header: Header, key_length: u64) -> u64 {
    let inline = padded(header.inline_length());
    header
        .key_offset()
        .wrapping_add(padded(key_length))
        .wrapping_add(inline)
}
