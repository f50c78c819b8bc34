//! Represents the text of a string value as an integer or as the location of its bytes.

use undercroft_memory::{Offset, View};

use crate::error::Error;
use crate::structures::entry::{Entry, Form};
use crate::structures::key::Key;
use crate::transaction::writer::Writer;
use crate::types::value_type::ValueType;

/// The text of a string value, which is either an integer or the location of its bytes.
#[derive(Clone, Copy, Debug)]
pub enum Text {
    /// An integer whose decimal representation is the text.
    Integer(i64),
    /// The offset of the text's first byte, and the length of the text in bytes.
    Bytes(Offset, u64),
}

impl Text {
    /// Returns the length of the text in bytes.
    #[inline(always)]
    pub fn length(&self) -> u64 {
        match *self {
            Text::Integer(value) => itoa::Buffer::new().format(value).len() as u64,
            Text::Bytes(_, length) => length,
        }
    }

    /// Appends the complete text to `out`.
    #[inline(always)]
    pub fn append_to(&self, view: &View<'_>, out: &mut Vec<u8>) -> Result<(), Error> {
        match *self {
            Text::Bytes(at, length) => Ok(view.append_to(at, length, out)?),
            Text::Integer(value) => {
                out.extend_from_slice(itoa::Buffer::new().format(value).as_bytes());
                Ok(())
            }
        }
    }

    /// Appends bytes `start..end` of the text to `out`. The range must lie inside the text.
    pub fn append_range(
        &self,
        view: &View<'_>,
        start: u64,
        end: u64,
        out: &mut Vec<u8>,
    ) -> Result<(), Error> {
        match *self {
            Text::Integer(value) => {
                let mut buffer = itoa::Buffer::new();
                let text = buffer.format(value).as_bytes();
                out.extend_from_slice(&text[start as usize..end as usize]);
            }
            Text::Bytes(at, _) => view.append_part(at, start, end, out)?,
        }
        Ok(())
    }
}

impl Entry {
    /// Returns the text of the value, or [`Error::WrongType`] if the value is not a string.
    #[inline(always)]
    pub fn text(&self, view: &View<'_>) -> Result<Text, Error> {
        if self.header.type_number() != ValueType::String.number() {
            return Err(Error::WrongType);
        }
        match self.header.form() {
            Some(Form::Inline) => Ok(Text::Bytes(self.value_at(), self.header.value_length())),
            Some(Form::Integer) => Ok(Text::Integer(view.word(self.value_at())? as i64)),
            Some(Form::Block) => {
                let at = view.word(self.value_at())?;
                Ok(Text::Bytes(at, self.header.value_length()))
            }
            Some(Form::Object) | None => Err(self.fault().into()),
        }
    }
}

impl Writer<'_, '_> {
    /// Returns whether the string at a key equals `text`, or `None` if the key does not exist.
    ///
    /// # Errors
    /// [`Error::WrongType`] if the key holds a value of another type.
    pub fn holds(
        &mut self,
        database: usize,
        key: &Key<'_>,
        text: &[u8],
    ) -> Result<Option<bool>, Error> {
        let Some(entry) = self.find(database, key)? else {
            return Ok(None);
        };
        let held = entry.text(self.view())?;
        if held.length() != text.len() as u64 {
            return Ok(Some(false));
        }
        let mut bytes = Vec::with_capacity(text.len());
        held.append_to(self.view(), &mut bytes)?;
        Ok(Some(bytes == text))
    }
}
