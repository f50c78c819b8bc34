//! Values of every type, for the tests of what all types have in common.

use undercroft_engine::{Order, Ranges, Schema, ValueType};

/// What the items of an example are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Items {
    /// Integers.
    Integers,
    /// Texts of so many bytes, or a few more.
    Texts(usize),
}

impl Items {
    /// The first item of an element.
    fn first(self, element: u32) -> String {
        match self {
            Items::Integers => format!("{}", 1000 + element),
            Items::Texts(length) => format!("{element:08}{}", "x".repeat(length.max(8) - 8)),
        }
    }
}

/// A value of a type with so many elements, as the flat list that an export has, in the order in which it is read.
/// The first item of an element is what [`Items`] says. Where it has a second one, it is a number that grows: a value,
/// a score. A type whose elements must be something else has an arm of its own here.
///
/// # Panics
/// Never: the schema of feeds is sound.
pub fn example(value_type: ValueType, elements: u32, items: Items) -> Ranges {
    let mut all = Ranges::new();
    if value_type == ValueType::Feed {
        return feed(elements, items, Some);
    }
    for element in 0..elements {
        all.push(items.first(element).as_bytes());
        for _ in 1..value_type.description().width {
            all.push(element.to_string().as_bytes());
        }
    }
    all
}

/// A feed with an index, as [`example`] gives one without.
///
/// # Panics
/// Never: its schema is sound.
pub fn indexed_feed(elements: u32, items: Items) -> Ranges {
    feed(elements, items, Schema::with_index)
}

/// A feed whose schema is made of a list's. What its items are is the first element; a value has 255 bytes at most.
fn feed(elements: u32, items: Items, schema: fn(Schema) -> Option<Schema>) -> Ranges {
    let size = items.first(0).len().min(255);
    let list = Schema::new(size as u8, &[4, 3, 1], Order::List);
    let schema = list.and_then(schema).expect("sound");
    let mut all = Ranges::new();
    all.push(&schema.row());
    for element in 1..elements {
        let attributes = [element % 16, element % 5, element % 2];
        let value = &items.first(element).into_bytes()[..size];
        all.push(&schema.item_row(value, &attributes, element % 7 == 0));
    }
    all
}

/// Elements in an order that depends on nothing but themselves, for types that have none.
pub fn sorted(value_type: ValueType, items: &Ranges) -> Vec<Vec<Vec<u8>>> {
    let texts: Vec<Vec<u8>> = items.iter().map(<[u8]>::to_vec).collect();
    let description = value_type.description();
    let mut elements: Vec<Vec<Vec<u8>>> = texts
        .chunks(description.width)
        .map(<[Vec<u8>]>::to_vec)
        .collect();
    if !description.ordered {
        elements.sort();
    }
    elements
}
