//! Implements the type interface for sets.

use undercroft_memory::View;
use undercroft_numbers::parse_integer;

use super::members::Set;
use crate::error::Error;
use crate::rdb_form::form::signed;
use crate::rdb_form::{Input, Output, RdbVersion};
use crate::structures::entry::{Entry, Form, Header};
use crate::structures::key::Key;
use crate::structures::ranges::Ranges;
use crate::transaction::writer::Writer;
use crate::types::collection::Collections;
use crate::types::contract::{Contract, Description, Object};
use crate::types::limits::Limits;
use crate::types::value_type::Encoding;

const RDB_SET: u8 = 2;
const RDB_INTSET: u8 = 11;
const RDB_LISTPACK: u8 = 20;

/// Implements [`Contract`] for sets.
pub(crate) struct Sets;

impl Contract for Sets {
    fn description(&self) -> &'static Description {
        &Description {
            name: "set",
            plural: "sets",
            width: 1,
            ordered: false,
            unique: true,
            has_elements: true,
        }
    }

    fn encoding(&self, header: Header, form: Form) -> Encoding {
        match form {
            Form::Inline | Form::Block if header.detail() == 0 => Encoding::IntSet,
            _ => Encoding::HashTable,
        }
    }

    fn append_items(&self, view: &View<'_>, entry: &Entry, out: &mut Ranges) -> Result<(), Error> {
        Set::of(view, entry)?.append_all(view, out)
    }

    fn add_items(
        &self,
        writer: &mut Writer<'_, '_>,
        (database, key): (usize, &Key<'_>),
        items: &[&[u8]],
        limits: &Limits,
    ) -> Result<(), Error> {
        let added = writer.set_add(database, key, items, limits.integers);
        added.map(drop)
    }

    fn rdb_kinds(&self) -> &'static [u8] {
        &[RDB_SET, RDB_INTSET, RDB_LISTPACK]
    }

    fn dump(&self, encoding: Encoding, items: &Ranges, _version: RdbVersion, out: &mut Output) {
        if encoding == Encoding::IntSet {
            out.kind(RDB_INTSET);
            return out.string(&intset(items));
        }
        out.kind(RDB_SET);
        out.length(items.len());
        out.strings(items);
    }

    fn restore(&self, kind: u8, input: &mut Input<'_>, items: &mut Ranges) -> Option<()> {
        match kind {
            RDB_INTSET => read_intset(&input.string()?, items),
            RDB_LISTPACK => input.listpack(items),
            _ => {
                let members = input.length()?;
                input.strings(members, items)
            }
        }
    }

    fn object(&self) -> Option<&'static dyn Object> {
        Some(&Collections)
    }
}

/// Encodes integers as a Redis intset, which consists of the width (4 bytes), the count (4 bytes),
/// and the sorted integers of `width` bytes each.
fn intset(items: &Ranges) -> Vec<u8> {
    let mut integers: Vec<i64> = items.iter().filter_map(parse_integer).collect();
    integers.sort_unstable();
    let width = |integer: &i64| match *integer {
        -0x8000..=0x7fff => 2,
        -0x8000_0000..=0x7fff_ffff => 4,
        _ => 8,
    };
    let width = integers.iter().map(width).max().unwrap_or(2);
    let mut out = (width as u32).to_le_bytes().to_vec();
    out.extend((integers.len() as u32).to_le_bytes());
    for integer in integers {
        out.extend(&integer.to_le_bytes()[..width]);
    }
    out
}

fn read_intset(bytes: &[u8], out: &mut Ranges) -> Option<()> {
    let (width, rest) = bytes.split_first_chunk()?;
    let (count, rest) = rest.split_first_chunk()?;
    let width = usize::try_from(u32::from_le_bytes(*width)).ok()?;
    let count = usize::try_from(u32::from_le_bytes(*count)).ok()?;
    if !matches!(width, 2 | 4 | 8) || count.checked_mul(width)? != rest.len() {
        return None;
    }
    for integer in rest.chunks(width) {
        out.push(signed(integer).to_string().as_bytes());
    }
    Some(())
}
