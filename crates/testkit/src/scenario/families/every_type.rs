//! Defines scenarios for changes that every type supports through the same interface: creating,
//! copying, moving to another shard, and removing a value. Each change is made to a small value and
//! to a large value, which is an object with separate memory.

use undercroft_engine::{Limits, Store, ValueType};

use crate::examples::{Items, example};
use crate::scenario::changes::{copy, delete, rename, set, write};
use crate::scenario::definition::{Scenario, log_steps};
use crate::scenario::names::key;
use crate::scenario::stores::some_keys;

/// The number of elements of a value that fits in one block. A value with `MANY` elements does not
/// fit.
const FEW: u32 = 4;
const MANY: u32 = 600;

macro_rules! every_type {
    ($($of:ident)*) => {
        /// The types that have scenarios.
        #[cfg(test)]
        const TYPES: &[ValueType] = &[$(ValueType::$of),*];

        pub(super) const SCENARIOS: &[Scenario] = &[
            $(
                every_type!($of, FEW, "few"),
                every_type!($of, MANY, "many"),
            )*
        ].as_flattened();
    };
    ($of:ident, $elements:expr, $name:literal) => {
        [
            log_steps(
                concat!($name, " elements of ", stringify!($of), " made over a string"),
                some_keys,
                |s| put(s, ValueType::$of, $elements, &key(0, 0)),
            ),
            log_steps(
                concat!($name, " elements of ", stringify!($of), " replaced by a string"),
                |s| prepare(s, ValueType::$of, $elements),
                |s| set(s, &key(0, 90), 64),
            ),
            log_steps(
                concat!($name, " elements of ", stringify!($of), " copied to another shard"),
                |s| prepare(s, ValueType::$of, $elements),
                |s| copy(s, (0, &key(0, 90)), (0, &key(1, 91))),
            ),
            log_steps(
                concat!($name, " elements of ", stringify!($of), " renamed to another shard"),
                |s| prepare(s, ValueType::$of, $elements),
                |s| rename(s, &key(0, 90), &key(1, 91)),
            ),
            log_steps(
                concat!($name, " elements of ", stringify!($of), " removed"),
                |s| prepare(s, ValueType::$of, $elements),
                |s| delete(s, &[key(0, 90)]),
            ),
        ]
    };
}

every_type! { String List Set SortedSet Hash Feed Stream }

fn prepare(store: &Store, value_type: ValueType, elements: u32) {
    some_keys(store);
    put(store, value_type, elements, &key(0, 90));
}

fn put(store: &Store, value_type: ValueType, elements: u32, name: &[u8]) {
    let items = example(value_type, elements, Items::Texts(12));
    write(store, &[name], |writer| {
        let limits = Limits::DEFAULT;
        writer.put_items(0, &store.key(name), value_type, &items, None, &limits)
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_type_has_scenarios() {
        assert_eq!(TYPES, ValueType::ALL);
    }
}
