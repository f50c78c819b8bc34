//! Defines the value types and the numbers that identify them in the store file.

use crate::error::Error;
use crate::structures::detached;
use crate::structures::entry::{Entry, Header, Kind};

macro_rules! value_types {
    ($($(#[$meta:meta])* $name:ident = $number:literal,)*) => {
        /// The type of a key's value.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum ValueType {
            $($(#[$meta])* $name = $number,)*
        }

        impl ValueType {
            /// All value types, ordered by number.
            pub const ALL: [ValueType; [$(ValueType::$name),*].len()] = [$(ValueType::$name),*];

            /// Returns the type whose [`number`](Self::number) is `number`, or `None` if there is
            /// no such type.
            #[inline(always)]
            pub fn of_number(number: u64) -> Option<ValueType> {
                match number {
                    $($number => Some(ValueType::$name),)*
                    _ => None,
                }
            }
        }
    };
}

value_types! {
    /// A string.
    String = 0,
    /// A list.
    List = 1,
    /// A set.
    Set = 2,
    /// A sorted set, whose members are ordered by score.
    SortedSet = 3,
    /// A hash, which maps fields to values.
    Hash = 4,
    /// A feed, which contains fixed-size values with attributes, addressed by position.
    Feed = 5,
    /// A stream, whose entries are ordered by ID.
    Stream = 6,
}

impl ValueType {
    /// Returns the number that identifies the type in stores and exports. It never changes.
    #[inline(always)]
    pub const fn number(self) -> u64 {
        self as u64
    }

    /// Returns the kind that an entry's header stores for this type. `detail` occupies the five
    /// bits whose meaning each type defines.
    pub(crate) const fn kind(self, detail: u64) -> Kind {
        Kind {
            number: self.number(),
            detail,
        }
    }

    /// Returns the number that identifies the type in the records of detached parts, which are
    /// freed later. Lists have the number 0, because they were originally the only type with
    /// detached parts.
    pub(crate) fn number_of_parts(self) -> u64 {
        match self {
            ValueType::List => detached::LIST,
            other => other.number(),
        }
    }
}

impl Header {
    /// Returns the value's type, or `None` if the type number is unknown.
    #[inline(always)]
    pub(crate) fn value_type(self) -> Option<ValueType> {
        ValueType::of_number(self.type_number())
    }
}

impl Entry {
    /// Returns the value's type.
    pub fn value_type(&self) -> Result<ValueType, Error> {
        self.header.value_type().ok_or_else(|| self.fault().into())
    }
}

/// The encoding of a value, as reported by OBJECT ENCODING. The names are those of Redis' data
/// structures. The data structures here are different, but the encoding changes at the same limits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Encoding {
    /// A string that represents a 64-bit integer.
    Integer,
    /// A string of at most 44 bytes that was never changed in place.
    Embedded,
    /// Any other string.
    Raw,
    /// A small hash or sorted set, packed in one block.
    ListPack,
    /// A large hash, or a set that is not a packed integer set.
    HashTable,
    /// A small set that contains only integers.
    IntSet,
    /// A large sorted set.
    SkipList,
    /// A list.
    QuickList,
    /// A feed, which is a type that Redis does not have.
    Feed,
    /// A stream.
    Stream,
}

impl Encoding {
    /// Returns the name that OBJECT ENCODING reports.
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
