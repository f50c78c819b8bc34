//! One key with its value: the block that a bucket refers to. The elements of
//! large collections are entries, too.
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
use crate::types::registry::ValueType;

/// Entries up to this size hold their value themselves.
pub(crate) const INLINE_MAX: u64 = 4096;
/// Longest key length that the header itself holds.
const SHORT_KEY_MAX: u64 = 0xfffe;

const EXPIRES: u64 = 1 << 8;
const LONG_KEY: u64 = 1 << 9;
const RAW: u64 = 1 << 10;
/// Where a type's own bits lie, and how many they are.
const DETAIL_SHIFT: u64 = 11;
const DETAIL_MAX: u64 = 31;

/// How the value is held, in the names of OBJECT ENCODING, which stand for
/// structures of Redis: ours are other ones with the same limits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Encoding {
    /// A 64-bit integer.
    Integer,
    /// A string of at most 44 bytes that was never changed in place.
    Embedded,
    /// Any other string.
    Raw,
    /// A small hash or sorted set in one piece.
    ListPack,
    /// A hash, or a set that is not of integers only.
    HashTable,
    /// A small set of integers.
    IntSet,
    /// A large sorted set.
    SkipList,
    /// A list.
    QuickList,
    /// A feed, which Redis does not have.
    Feed,
    /// A stream.
    Stream,
}

impl Encoding {
    /// The name that OBJECT ENCODING answers.
    pub fn name(self) -> &'static str {
        match self {
            Encoding::Integer => "int",
            Encoding::Embedded => "embstr",
            Encoding::Raw => "raw",
            Encoding::ListPack => "listpack",
            Encoding::HashTable => "hashtable",
            Encoding::IntSet => "intset",
            Encoding::SkipList => "skiplist",
            Encoding::QuickList => "quicklist",
            Encoding::Feed => "feed",
            Encoding::Stream => "stream",
        }
    }
}

/// Where the bytes of a value are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    /// In the entry.
    Inline = 0,
    /// An integer in the entry.
    Integer = 1,
    /// In a block of its own.
    Block = 2,
    /// In a tree or a dictionary, whose root words are in the entry.
    Object = 3,
}

/// What a value is, as its entry's header says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Kind {
    pub(crate) value_type: ValueType,
    /// Five bits for the type's own use.
    pub(crate) detail: u64,
}

impl Kind {
    pub(crate) const STRING: Kind = Kind {
        value_type: ValueType::String,
        detail: 0,
    };
}

/// An entry's first word and what follows from it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Header(pub(crate) u64);

impl Header {
    /// The header of a value of so many bytes under a key of so many.
    #[inline(always)]
    pub(crate) fn new(kind: Kind, form: Form, key: u64, value: u64, expires: bool) -> Header {
        let short = if key > SHORT_KEY_MAX { 0xffff } else { key };
        let mut bits = kind.value_type.number()
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

    /// The same header for a string that counts as changed in place, Redis'
    /// "raw".
    pub(crate) fn as_raw(self) -> Header {
        Header(self.0 | RAW)
    }

    /// The same header for an entry that expires, or does not.
    pub(crate) fn with_expiry(bits: u64, expires: bool) -> Header {
        Header(bits & !EXPIRES | if expires { EXPIRES } else { 0 })
    }

    /// The same header for a key of another length.
    pub(crate) fn with_key_length(self, key: u64) -> Header {
        let rest = self.0 & !(0xffff << 16 | LONG_KEY);
        if key > SHORT_KEY_MAX {
            Header(rest | 0xffff << 16 | LONG_KEY)
        } else {
            Header(rest | key << 16)
        }
    }

    /// The same header for a string that was changed in place.
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

    #[inline(always)]
    pub(crate) fn value_type(self) -> Option<ValueType> {
        ValueType::of_number(self.0 & 15)
    }

    /// The type's own bits.
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

    /// Bytes before the key.
    #[inline(always)]
    pub(crate) fn key_offset(self) -> u64 {
        8 + (self.0 & EXPIRES) / EXPIRES * 8 + (self.0 & LONG_KEY) / LONG_KEY * 8
    }

    /// Bytes of the value inside the entry.
    #[inline(always)]
    pub(crate) fn inline_length(self) -> u64 {
        match self.form() {
            Some(Form::Inline | Form::Object) => self.value_length(),
            _ => 8,
        }
    }
}

/// An entry that was found: where it is, and what its header says.
#[derive(Clone, Copy, Debug)]
pub struct Entry {
    pub(crate) at: Offset,
    pub(crate) header: Header,
    pub(crate) key_length: u64,
}

/// A string value: an integer, or where its bytes are.
#[derive(Clone, Copy, Debug)]
pub enum Text {
    /// An integer, whose text is its decimal digits.
    Integer(i64),
    /// So many bytes from an offset on.
    Bytes(Offset, u64),
}

impl Entry {
    /// Reads the header at an offset. The lengths are those of one moment; a
    /// torn read is found out before they are trusted (R3).
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

    /// Reads the header at an offset if the entry's key is the given one.
    #[inline(always)]
    pub(crate) fn load_if_key(
        view: &View<'_>,
        at: Offset,
        key: &[u8],
    ) -> Result<Option<Entry>, Fault> {
        let block = view.block(at)?;
        // The value of a typical entry lies in the line behind its key.
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

    // What is torn gives any offset, which is checked where it is used (S3).
    #[inline(always)]
    pub(crate) fn key_at(&self) -> Offset {
        self.at.wrapping_add(self.header.key_offset())
    }

    #[inline(always)]
    pub(crate) fn value_at(&self) -> Offset {
        self.key_at().wrapping_add(padded(self.key_length))
    }

    /// Bytes of the entry's own block in use.
    #[inline(always)]
    pub(crate) fn size(&self) -> u64 {
        entry_size(self.header, self.key_length)
    }

    /// Appends the key to `out`.
    pub fn append_key(&self, view: &View<'_>, out: &mut Vec<u8>) -> Result<(), Error> {
        Ok(view.append_to(self.key_at(), self.key_length, out)?)
    }

    /// Length of the key in bytes.
    pub fn key_length(&self) -> u64 {
        self.key_length
    }

    /// When the key expires, Unix milliseconds.
    #[inline(always)]
    pub fn expiry(&self, view: &View<'_>) -> Result<Option<u64>, Error> {
        if self.header.expires() {
            Ok(Some(view.word(self.at + 8)?))
        } else {
            Ok(None)
        }
    }

    /// What kind of value it is.
    pub fn value_type(&self) -> Result<ValueType, Error> {
        self.header.value_type().ok_or_else(|| self.fault().into())
    }

    /// How the value is held.
    pub fn encoding(&self) -> Result<Encoding, Error> {
        let form = self.header.form().ok_or_else(|| self.fault())?;
        Ok(self.value_type()?.contract().encoding(self.header, form))
    }

    pub(crate) fn fault(&self) -> Fault {
        Fault {
            at: self.at,
            what: "an entry of a known type and form",
        }
    }

    /// The value's own block, if it has one.
    #[inline(always)]
    pub(crate) fn block(&self, view: &View<'_>) -> Result<Option<Offset>, Error> {
        match self.header.form() {
            Some(Form::Block) => Ok(Some(view.word(self.value_at())?)),
            Some(_) => Ok(None),
            None => Err(self.fault().into()),
        }
    }

    /// The value, if it is a string.
    #[inline(always)]
    pub fn text(&self, view: &View<'_>) -> Result<Text, Error> {
        if self.header.value_type() != Some(ValueType::String) {
            return Err(Error::WrongType);
        }
        match self.header.form() {
            Some(Form::Inline) => Ok(Text::Bytes(self.value_at(), self.header.value_length())),
            Some(Form::Integer) => Ok(Text::Integer(view.word(self.value_at())? as i64)),
            Some(Form::Block) => {
                let at = view.word(self.value_at())?;
                Ok(Text::Bytes(at, self.header.value_length()))
            }
            Some(Form::Object) | None => Err(self.fault().into()),
        }
    }
}

impl Text {
    /// Length of the text in bytes.
    #[inline(always)]
    pub fn length(&self) -> u64 {
        match *self {
            Text::Integer(value) => itoa::Buffer::new().format(value).len() as u64,
            Text::Bytes(_, length) => length,
        }
    }

    /// Appends the whole text to `out`.
    #[inline(always)]
    pub fn append_to(&self, view: &View<'_>, out: &mut Vec<u8>) -> Result<(), Error> {
        match *self {
            Text::Bytes(at, length) => Ok(view.append_to(at, length, out)?),
            Text::Integer(value) => {
                out.extend_from_slice(itoa::Buffer::new().format(value).as_bytes());
                Ok(())
            }
        }
    }

    /// Appends bytes `start..end` of the text to `out`; the range must lie
    /// inside.
    pub fn append_range(
        &self,
        view: &View<'_>,
        start: u64,
        end: u64,
        out: &mut Vec<u8>,
    ) -> Result<(), Error> {
        match *self {
            Text::Integer(value) => {
                let mut buffer = itoa::Buffer::new();
                let text = buffer.format(value).as_bytes();
                out.extend_from_slice(&text[start as usize..end as usize]);
            }
            Text::Bytes(at, _) => view.append_part(at, start, end, out)?,
        }
        Ok(())
    }
}

/// Bytes that so many take in whole words.
#[inline(always)]
fn padded(length: u64) -> u64 {
    length.wrapping_add(7) & !7
}

/// Bytes of an entry with such a header and key.
#[inline(always)]
pub(crate) fn entry_size(header: Header, key_length: u64) -> u64 {
    let inline = padded(header.inline_length());
    header
        .key_offset()
        .wrapping_add(padded(key_length))
        .wrapping_add(inline)
}
