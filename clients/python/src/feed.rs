//! Many items of a feed in one buffer, either way: no object is made for an item, and none is read from one.

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyTuple};
use undercroft_commands::handler::Failure;
use undercroft_embedded::{FeedItems, FeedQuery, OpenStore, with_feed_buffer};
use undercroft_engine::{FeedRange, Ranges, Seen};

use crate::client::Client;
use crate::error;
use crate::execute::{ask, encode, with_words};
use crate::shape::Shape;

/// The word in FEED.ADD behind which attributes stand.
const ATTRIBUTES: &[u8] = b"ATTRS";

/// What an array has of each item.
pub(crate) struct Form<'c> {
    /// Bytes of a value.
    pub(crate) size: usize,
    /// Bytes of each attribute; none where values come alone.
    pub(crate) columns: &'c [u8],
}

impl Form<'_> {
    /// Items as rows: each value with its attributes behind it, little-endian numbers of these sizes. None where the
    /// items have another form.
    fn rows<'py>(&self, py: Python<'py>, items: &Ranges) -> Option<PyResult<Bound<'py, PyBytes>>> {
        let (bytes, _) = items.parts();
        if self.columns.is_empty() {
            return Some(Ok(PyBytes::new(py, bytes)));
        }
        let width = self.columns.iter().map(|&column| usize::from(column)).sum();
        let row = self.size.checked_add(width)?;
        let mut fits = true;
        let made = PyBytes::new_with(py, row.checked_mul(items.len() / 2)?, |buffer| {
            let mut items = items.iter();
            for row in buffer.chunks_exact_mut(row) {
                let (value, attributes) = row.split_at_mut(self.size);
                fits = match (items.next(), items.next()) {
                    (Some(given), Some(text)) if given.len() == self.size => {
                        value.copy_from_slice(given);
                        write_attributes(text, self.columns, attributes).is_some()
                    }
                    _ => false,
                };
                if !fits {
                    break;
                }
            }
            Ok(())
        });
        (fits || made.is_err()).then_some(made)
    }
}

/// Writes the attributes of a text such as `3:0:1` behind one another. None where they are others.
fn write_attributes(text: &[u8], columns: &[u8], mut row: &mut [u8]) -> Option<()> {
    let mut parts = text.split(|&byte| byte == b':');
    for &column in columns {
        let mut value = 0u64;
        for byte in parts.next().filter(|part| !part.is_empty())? {
            let digit = byte.checked_sub(b'0').filter(|digit| *digit < 10)?;
            value = value.checked_mul(10)?.checked_add(digit.into())?;
        }
        let (field, rest) = row.split_at_mut_checked(column.into())?;
        let bytes = value.to_le_bytes();
        // What has no room in its column was written by a feed of another form.
        if bytes.get(field.len()..)?.iter().any(|&byte| byte != 0) {
            return None;
        }
        field.copy_from_slice(&bytes[..field.len()]);
        row = rest;
    }
    parts.next().is_none().then_some(())
}

/// Which items are seen, by the name that Python has for them.
fn seen_of(name: &str) -> PyResult<Seen> {
    match name {
        "visible" => Ok(Seen::Visible),
        "hidden" => Ok(Seen::Hidden),
        "all" => Ok(Seen::All),
        other => Err(PyValueError::new_err(format!(
            "expected seen to be 'visible', 'hidden' or 'all', got {other:?}"
        ))),
    }
}

/// A range as Python has it.
pub(crate) struct Asked<'a, 'py> {
    pub(crate) key: &'a Bound<'py, PyAny>,
    pub(crate) start: i64,
    pub(crate) count: u64,
    pub(crate) filter: Option<&'a Bound<'py, PyAny>>,
    pub(crate) seen: &'a str,
    pub(crate) reverse: bool,
}

/// The rows of a range; none where items have other sizes or other attributes.
pub(crate) fn rows<'py>(
    client: &Client,
    py: Python<'py>,
    asked: &Asked<'_, 'py>,
    form: &Form<'_>,
) -> PyResult<Option<Bound<'py, PyBytes>>> {
    let key = encode(&client.codec, asked.key.as_borrowed())?;
    let filter = asked
        .filter
        .map(|it| encode(&client.codec, it.as_borrowed()));
    let filter = filter.transpose()?;
    let query = FeedQuery {
        seen: seen_of(asked.seen)?,
        filter: filter.as_ref().map(|it| it.bytes()),
        between: None,
    };
    let range = FeedRange {
        from: asked.start,
        count: asked.count,
        reverse: asked.reverse,
        attributes: !form.columns.is_empty(),
    };
    let shared = client.enter(py)?;
    with_feed_buffer(|items| {
        let place = (client.database(py), key.bytes());
        let takes = |size: usize, attributes: usize| {
            size == form.size && (!range.attributes || attributes == form.columns.len())
        };
        let read = shared.feed_items(
            place,
            query,
            range,
            |schema| takes(schema.value_size(), schema.widths().len()),
            items,
        );
        match read.map_err(|failure| raise(client, py, &shared, failure))? {
            Some(schema) if !takes(schema.value_size(), schema.widths().len()) => Ok(None),
            _ => form.rows(py, items).transpose(),
        }
    })
}

#[cold]
fn raise(client: &Client, py: Python<'_>, shared: &OpenStore, failure: Failure) -> PyErr {
    let raises = client.codec.raises;
    match failure {
        Failure::Reply(error) => error::raise_reply(py, raises, &shared.store, error.text()),
        Failure::Blocked(blocked) => error::raise_wait(py, raises, &blocked),
    }
}

/// Numbers of four bytes that lie one behind the other.
fn numbers(bytes: &[u8]) -> Vec<u32> {
    let (numbers, _) = bytes.as_chunks::<4>();
    numbers
        .iter()
        .map(|bytes| u32::from_le_bytes(*bytes))
        .collect()
}

/// Adds items of so many bytes, with so many attributes of four bytes each, behind the words of a FEED.ADD.
pub(crate) fn add<'py>(
    client: &Client,
    py: Python<'py>,
    words: &Bound<'py, PyTuple>,
    (values, size): (&[u8], usize),
    (attributes, columns): (&[u8], usize),
) -> PyResult<Bound<'py, PyAny>> {
    let count = values.len().checked_div(size).unwrap_or(0);
    let expected = count.checked_mul(columns).and_then(|n| n.checked_mul(4));
    if count == 0 || count * size != values.len() || expected != Some(attributes.len()) {
        return Err(PyValueError::new_err(format!(
            "expected values of {size} bytes with {columns} attributes of 4 bytes each; got {} bytes of values and {} \
             of attributes",
            values.len(),
            attributes.len()
        )));
    }
    let attributes = numbers(attributes);
    let items = FeedItems {
        values,
        size,
        attributes: &attributes,
        columns,
    };
    with_words(&client.codec, words.iter_borrowed(), |words| {
        let [_, key, position] = words else {
            let text = "expected the words FEED.ADD, a key and a position";
            return Err(PyValueError::new_err(text));
        };
        let place = match *position {
            b"*" => Some(None),
            digits => str::from_utf8(digits)
                .ok()
                .and_then(|text| text.parse().ok().map(Some)),
        };
        if let Some(position) = place {
            let shared = client.enter(py)?;
            let added = shared.feed_add((client.database(py), key), position, &items);
            let raises = client.codec.raises;
            let added = added.map_err(|error| error::raise(py, raises, &shared.store, error))?;
            if let Some(added) = added {
                return Ok(added.into_pyobject(py)?.into_any());
            }
        }
        add_by_words(client, py, words, &items)
    })
}

/// The same by the command, which says what is wrong.
#[cold]
fn add_by_words<'py>(
    client: &Client,
    py: Python<'py>,
    first: &[&[u8]],
    items: &FeedItems<'_>,
) -> PyResult<Bound<'py, PyAny>> {
    let texts: Vec<String> = items
        .attributes
        .chunks_exact(items.columns.max(1))
        .map(|row| {
            let row: Vec<String> = row.iter().map(u32::to_string).collect();
            row.join(":")
        })
        .collect();
    let mut words = first.to_vec();
    for (index, value) in items.values.chunks_exact(items.size).enumerate() {
        if items.columns == 0 && index > 0 && value.eq_ignore_ascii_case(ATTRIBUTES) {
            return Err(PyValueError::new_err(
                "expected attributes for the value before one that reads ATTRS, got none: FEED.ADD would take it for a \
                 word",
            ));
        }
        words.push(value);
        if let Some(text) = texts.get(index) {
            words.extend([ATTRIBUTES, text.as_bytes()]);
        }
    }
    ask(client, py, &words, true, Shape::Reply)
}
