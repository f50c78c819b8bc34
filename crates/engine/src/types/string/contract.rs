//! Implements the type interface for strings.

use undercroft_memory::View;

use crate::error::Error;
use crate::rdb_form::{Input, Output, RdbVersion};
use crate::structures::entry::{Entry, Form, Header};
use crate::structures::key::Key;
use crate::structures::ranges::Ranges;
use crate::transaction::writer::{Expiry, Writer};
use crate::types::contract::{Contract, Description, Object};
use crate::types::limits::Limits;
use crate::types::value_type::Encoding;

const RDB_STRING: u8 = 0;
/// The maximum length in bytes of a string that Redis embeds in the block of its object header.
const EMBEDDED_MAX: u64 = 44;

/// Implements [`Contract`] for strings.
pub(crate) struct Strings;

impl Contract for Strings {
    fn description(&self) -> &'static Description {
        &Description {
            name: "string",
            plural: "strings",
            width: 1,
            ordered: true,
            unique: false,
            has_elements: false,
        }
    }

    fn encoding(&self, header: Header, form: Form) -> Encoding {
        if form == Form::Integer {
            Encoding::Integer
        } else if header.raw() || header.value_length() > EMBEDDED_MAX {
            Encoding::Raw
        } else {
            Encoding::Embedded
        }
    }

    fn append_items(&self, view: &View<'_>, entry: &Entry, out: &mut Ranges) -> Result<(), Error> {
        let text = entry.text(view)?;
        out.push_with(|out| text.append_to(view, out))
    }

    fn add_items(
        &self,
        writer: &mut Writer<'_, '_>,
        (database, key): (usize, &Key<'_>),
        items: &[&[u8]],
        _limits: &Limits,
    ) -> Result<(), Error> {
        writer.set(database, key, &items.concat(), Expiry::Never)
    }

    fn rdb_kinds(&self) -> &'static [u8] {
        &[RDB_STRING]
    }

    fn dump(&self, _encoding: Encoding, items: &Ranges, _version: RdbVersion, out: &mut Output) {
        out.kind(RDB_STRING);
        out.string(items.iter().next().unwrap_or_default());
    }

    fn restore(&self, _kind: u8, input: &mut Input<'_>, items: &mut Ranges) -> Option<()> {
        items.push(&input.string()?);
        Some(())
    }

    fn object(&self) -> Option<&'static dyn Object> {
        None
    }
}
