//! The types of values, each with its number in the file and with what answers for it.

use crate::types::contract::{Contract, Description, DyingTree};
use crate::types::feed::Feeds;
use crate::types::hash::Hashes;
use crate::types::list::Lists;
use crate::types::set::Sets;
use crate::types::sorted::SortedSets;
use crate::types::stream::Streams;
use crate::types::string::Strings;

macro_rules! value_types {
    ($($(#[$meta:meta])* $name:ident = $number:literal => $contract:expr,)*) => {
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

            /// What answers for the type.
            pub(crate) fn contract(self) -> &'static dyn Contract {
                match self {
                    $(ValueType::$name => &$contract,)*
                }
            }
        }
    };
}

value_types! {
    /// A string.
    String = 0 => Strings,
    /// A list.
    List = 1 => Lists,
    /// A set.
    Set = 2 => Sets,
    /// A set whose members have a score, in the order of their scores.
    SortedSet = 3 => SortedSets,
    /// A hash: fields with their values.
    Hash = 4 => Hashes,
    /// A feed: values of one size with attributes, by position.
    Feed = 5 => Feeds,
    /// A stream: entries in the order of their ids.
    Stream = 6 => Streams,
}

impl ValueType {
    /// The number that stands for the type in stores and in exports. It never changes.
    #[inline(always)]
    pub fn number(self) -> u64 {
        self as u64
    }

    /// What answers for the trees of its objects, where they have such.
    pub(crate) fn tree(self) -> Option<&'static dyn DyingTree> {
        self.contract().object()?.tree()
    }

    /// What the type is.
    pub fn description(self) -> &'static Description {
        self.contract().description()
    }

    /// The name that TYPE answers.
    pub fn name(self) -> &'static str {
        self.description().name
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn each_type_has_names_and_numbers_of_its_own() {
        let (mut names, mut kinds) = (HashSet::new(), HashSet::new());
        for value_type in ValueType::ALL {
            assert_eq!(ValueType::of_number(value_type.number()), Some(value_type));
            assert!(value_type.number() < 16, "four bits of a header");
            assert!(names.insert(value_type.name()), "{value_type:?}");
            assert!(
                names.insert(value_type.description().plural),
                "{value_type:?}"
            );
            for kind in value_type.contract().rdb_kinds() {
                assert!(kinds.insert(kind), "{value_type:?} and another: {kind}");
            }
        }
        assert_eq!(ValueType::of_number(15), None);
        let trees = ValueType::ALL.into_iter().filter_map(ValueType::tree);
        let numbers: Vec<u64> = trees.map(|tree| tree.number()).collect();
        let own: HashSet<u64> = numbers.iter().copied().collect();
        assert_eq!(own.len(), numbers.len());
        assert!(
            own.is_disjoint(&HashSet::from([0, 1, 4])),
            "other structures"
        );
    }
}
