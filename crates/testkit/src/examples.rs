//! Generates sample values of every type, for tests of behavior that all types share.

use undercroft_engine::feeds::{Order, Schema};
use undercroft_engine::streams::{StreamId, StreamRecord};
use undercroft_engine::{Ranges, ValueType};

/// The kind of items that a sample value contains.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Items {
    /// Items that are integers.
    Integers,
    /// Strings of at least this many bytes.
    Texts(usize),
}

impl Items {
    /// Returns the first item of the element with this number.
    fn first(self, element: u32) -> String {
        match self {
            Items::Integers => format!("{}", 1000 + element),
            Items::Texts(length) => format!("{element:08}{}", "x".repeat(length.max(8) - 8)),
        }
    }
}

/// Returns a value of a type with `elements` elements, as the flat list of items that an export
/// returns. `items` is the kind of the first item of each element. A second item, such as a value
/// or a score, is an increasing number. Types with differently structured elements have separate
/// arms in this function.
///
/// # Panics
/// Never panics, because the schema of a feed is valid.
pub fn example(value_type: ValueType, elements: u32, items: Items) -> Ranges {
    let mut all = Ranges::new();
    if value_type == ValueType::Feed {
        return feed(elements, items, Some);
    }
    if value_type == ValueType::Stream {
        return stream(elements, items);
    }
    for element in 0..elements {
        all.push(items.first(element).as_bytes());
        for _ in 1..value_type.description().width {
            all.push(element.to_string().as_bytes());
        }
    }
    all
}

/// Returns a feed like [`example`], but with an index.
///
/// # Panics
/// Never panics, because the schema of the feed is valid.
pub fn indexed_feed(elements: u32, items: Items) -> Ranges {
    feed(elements, items, Schema::with_index)
}

/// Returns a stream, whose header is the first element. If it has at least 50 elements, a quarter
/// of them are pending entries of a group with two consumers.
fn stream(elements: u32, items: Items) -> Ranges {
    const GROUP_ROWS: u32 = 3;
    let pending = if elements < 50 { 0 } else { elements / 4 };
    let rows = if pending > 0 { GROUP_ROWS } else { 0 };
    let entries = elements - 1 - rows - pending;
    let id = |entry: u32| StreamId {
        ms: 1_700_000_000_000 + u64::from(entry / 3),
        seq: u64::from(entry % 3),
    };
    let mut all = Ranges::new();
    let head = StreamRecord::Stream {
        last: id(entries + 5),
        deleted: id(0),
        added: u64::from(entries) + 2,
    };
    all.push(&head.row());
    for entry in 1..=entries {
        let (value, other) = (items.first(entry), entry.to_string());
        let mut texts: Vec<&[u8]> = vec![b"value", value.as_bytes(), b"number", other.as_bytes()];
        if entry % 11 == 0 {
            texts.truncate(2);
        }
        let id = id(entry);
        all.push(&StreamRecord::Entry { id, texts }.row());
    }
    if pending == 0 {
        return all;
    }
    let (group, last, read) = (&b"group"[..], id(pending), i64::from(pending));
    let name = group;
    all.push(&StreamRecord::Group { name, last, read }.row());
    for name in [&b"a consumer"[..], b"another consumer"] {
        let (seen, active) = (1_700_000_001_000, 1_700_000_001_000);
        let row = StreamRecord::Consumer {
            group,
            name,
            seen,
            active,
        };
        all.push(&row.row());
    }
    for entry in 1..=pending {
        let consumer: &[u8] = if entry % 3 == 0 {
            b"a consumer"
        } else {
            b"another consumer"
        };
        let row = StreamRecord::Pending {
            group,
            consumer,
            id: id(entry),
            time: 1_700_000_001_000 + u64::from(entry),
            deliveries: u64::from(entry % 4 + 1),
        };
        all.push(&row.row());
    }
    all
}

/// Returns a feed whose schema is derived by `schema` from the schema of a list. The schema is the
/// first element. Values have at most 255 bytes.
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

/// Returns the elements of a value. If the type has no order, the elements are sorted.
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
