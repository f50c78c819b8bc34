//! Maps each value type to its implementation.

use crate::error::Error;
use crate::structures::elements::Elements;
use crate::structures::entry::{Entry, Form};
use crate::structures::roots::ELEMENTS_WORDS;
use crate::types::contract::{Contract, Description, FreeableTree};
use crate::types::feed::Feeds;
use crate::types::hash::Hashes;
use crate::types::list::Lists;
use crate::types::set::Sets;
use crate::types::sorted::SortedSets;
use crate::types::stream::Streams;
use crate::types::string::Strings;
use crate::types::value_type::{Encoding, ValueType};

impl ValueType {
    /// Returns the implementation of this type.
    pub(crate) fn contract(self) -> &'static dyn Contract {
        match self {
            ValueType::String => &Strings,
            ValueType::List => &Lists,
            ValueType::Set => &Sets,
            ValueType::SortedSet => &SortedSets,
            ValueType::Hash => &Hashes,
            ValueType::Feed => &Feeds,
            ValueType::Stream => &Streams,
        }
    }

    /// Returns the operations for freeing this type's trees, or `None` if its objects contain no
    /// trees.
    pub(crate) fn tree(self) -> Option<&'static dyn FreeableTree> {
        self.contract().object()?.tree()
    }

    /// Returns the properties of this type.
    pub fn description(self) -> &'static Description {
        self.contract().description()
    }

    /// Returns the name that the TYPE command reports.
    pub fn name(self) -> &'static str {
        self.description().name
    }
}

impl Entry {
    /// Returns the encoding of the value, as reported by OBJECT ENCODING.
    pub fn encoding(&self) -> Result<Encoding, Error> {
        let form = self.header.form().ok_or_else(|| self.fault())?;
        Ok(self.value_type()?.contract().encoding(self.header, form))
    }

    /// Returns the value's dictionary of elements for reading, or `None` if the value has none. The
    /// entry can contain more words after the dictionary's root words.
    pub(crate) fn elements(&self) -> Option<Elements> {
        let has_one = self.header.form() == Some(Form::Object)
            && self.header.value_length() >= ELEMENTS_WORDS as u64 * 8
            && self.header.value_type()?.description().has_elements;
        has_one.then(|| Elements::at(self.value_at()))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn names_and_numbers_of_types_are_unique() {
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
