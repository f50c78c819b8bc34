//! The types of values, each with its number in the file.

use crate::error::Error;
use crate::structures::detached;
use crate::structures::entry::{Entry, Header, Kind};

macro_rules! value_types {
    ($($(#[$meta:meta])* $name:ident = $number:literal,)*) => {
        /// What kind of value a key holds.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum ValueType {
            $($(#[$meta])* $name = $number,)*
        }

        impl ValueType {
            /// All types, in the order of their numbers.
            pub const ALL: [ValueType; [$(ValueType::$name),*].len()] = [$(ValueType::$name),*];

            /// The type with a number, which [`number`](Self::number) gives.
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
    /// A set whose members have a score, in the order of their scores.
    SortedSet = 3,
    /// A hash: fields with their values.
    Hash = 4,
    /// A feed: values of one size with attributes, by position.
    Feed = 5,
    /// A stream: entries in the order of their ids.
    Stream = 6,
}

impl ValueType {
    /// The number that stands for the type in stores and in exports. It never changes.
    #[inline(always)]
    pub const fn number(self) -> u64 {
        self as u64
    }

    /// What a value of the type is in an entry's header, with five bits for the type's own use.
    pub(crate) const fn kind(self, detail: u64) -> Kind {
        Kind {
            number: self.number(),
            detail,
        }
    }

    /// The number of the type in records of detached parts: lists once were the only ones.
    pub(crate) fn number_of_parts(self) -> u64 {
        match self {
            ValueType::List => detached::LIST,
            other => other.number(),
        }
    }
}

impl Header {
    /// The type of the value.
    #[inline(always)]
    pub(crate) fn value_type(self) -> Option<ValueType> {
        ValueType::of_number(self.type_number())
    }
}

impl Entry {
    /// What kind of value it is.
    pub fn value_type(&self) -> Result<ValueType, Error> {
        self.header.value_type().ok_or_else(|| self.fault().into())
    }
}

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
