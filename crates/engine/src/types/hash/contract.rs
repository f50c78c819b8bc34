//! Implements the type interface for hashes.

use undercroft_memory::View;

use super::fields::{Hash, Parts};
use crate::error::Error;
use crate::rdb_form::{Input, Output, RdbVersion};
use crate::structures::entry::{Entry, Form, Header};
use crate::structures::key::Key;
use crate::structures::ranges::Ranges;
use crate::transaction::writer::Writer;
use crate::types::collection::Collections;
use crate::types::contract::{Contract, Description, Object};
use crate::types::limits::Limits;
use crate::types::value_type::Encoding;

const RDB_HASH: u8 = 4;
const RDB_ZIPMAP: u8 = 9;
const RDB_ZIPLIST: u8 = 13;
const RDB_LISTPACK: u8 = 16;

/// Implements [`Contract`] for hashes.
pub(crate) struct Hashes;

impl Contract for Hashes {
    fn description(&self) -> &'static Description {
        &Description {
            name: "hash",
            plural: "hashes",
            width: 2,
            ordered: false,
            unique: true,
            has_elements: true,
        }
    }

    fn encoding(&self, _header: Header, form: Form) -> Encoding {
        match form {
            Form::Object => Encoding::HashTable,
            _ => Encoding::ListPack,
        }
    }

    fn append_items(&self, view: &View<'_>, entry: &Entry, out: &mut Ranges) -> Result<(), Error> {
        Hash::of(view, entry)?.append_all(view, Parts::Both, out)
    }

    fn add_items(
        &self,
        writer: &mut Writer<'_, '_>,
        (database, key): (usize, &Key<'_>),
        items: &[&[u8]],
        limits: &Limits,
    ) -> Result<(), Error> {
        let set = writer.hash_set(database, key, items, &limits.hash);
        set.map(drop)
    }

    fn rdb_kinds(&self) -> &'static [u8] {
        &[RDB_HASH, RDB_ZIPMAP, RDB_ZIPLIST, RDB_LISTPACK]
    }

    fn dump(&self, encoding: Encoding, items: &Ranges, version: RdbVersion, out: &mut Output) {
        if encoding == Encoding::ListPack && version >= RdbVersion::V10 {
            out.kind(RDB_LISTPACK);
            return out.listpack(items.iter());
        }
        out.kind(RDB_HASH);
        out.length(items.len() / 2);
        out.strings(items);
    }

    fn restore(&self, kind: u8, input: &mut Input<'_>, items: &mut Ranges) -> Option<()> {
        match kind {
            RDB_LISTPACK => input.listpack(items),
            RDB_ZIPLIST => input.ziplist(items),
            RDB_ZIPMAP => input.zipmap(items),
            _ => {
                let fields = input.length()?;
                input.strings(fields.checked_mul(2)?, items)
            }
        }
    }

    fn object(&self) -> Option<&'static dyn Object> {
        Some(&Collections)
    }
}
