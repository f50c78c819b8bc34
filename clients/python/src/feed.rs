//! Reads and writes many feed items in one buffer, without a Python object for each item.

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyTuple};
use undercroft_commands::Failure;
use undercroft_embedded::{FeedItems, FeedQuery, OpenStore, with_feed_buffer};
use undercroft_engine::feeds::{FeedRange, FoundItems, Schema, Seen};

use crate::client::Client;
use crate::conversion::shape::Shape;
use crate::error;
use crate::execute::{ask, encode, with_words};

/// The word in FEED.ADD that precedes attributes.
const ATTRIBUTES: &[u8] = b"ATTRS";

/// The layout of a row.
pub(crate) struct Form<'c> {
    /// The number of bytes in a value.
    pub(crate) size: usize,
    /// The width of each attribute in bytes. Empty for values without attributes.
    pub(crate) columns: &'c [u8],
}

impl Form<'_> {
    /// Whether a feed's items have this layout. A layout without attributes matches every feed with
    /// this value size.
    fn fits(&self, schema: &Schema) -> bool {
        let mut widths = schema.widths().iter().zip(self.columns);
        let columns = self.columns.len();
        schema.value_size() == self.size
            && (columns == 0
                || schema.widths().len() == columns
                    && widths.all(|(&width, &column)| width.div_ceil(8) <= column))
    }

    /// Returns items as rows. Each row is a value followed by its attributes as little-endian
    /// integers.
    fn rows<'py>(&self, py: Python<'py>, items: &FoundItems) -> PyResult<Bound<'py, PyBytes>> {
        let columns = self.columns.len();
        if columns == 0 {
            return Ok(PyBytes::new(py, items.values()));
        }
        let width: usize = self.columns.iter().map(|&column| usize::from(column)).sum();
        let row = self.size + width;
        PyBytes::new_with(py, row * items.len(), |buffer| {
            let values = items.values().chunks_exact(self.size);
            let attributes = items.attributes().chunks_exact(columns);
            let rows = buffer.chunks_exact_mut(row);
            for ((row, value), attributes) in rows.zip(values).zip(attributes) {
                let (place, mut rest) = row.split_at_mut(self.size);
                place.copy_from_slice(value);
                for (&column, attribute) in self.columns.iter().zip(attributes) {
                    let place;
                    (place, rest) = rest.split_at_mut(column.into());
                    place.copy_from_slice(&attribute.to_le_bytes()[..column.into()]);
                }
            }
            Ok(())
        })
    }
}

/// Parses the Python name of a visibility.
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

/// The arguments of a range query.
pub(crate) struct Asked<'a, 'py> {
    pub(crate) key: &'a Bound<'py, PyAny>,
    pub(crate) start: i64,
    pub(crate) count: u64,
    pub(crate) filter: Option<&'a Bound<'py, PyAny>>,
    pub(crate) seen: &'a str,
    pub(crate) reverse: bool,
}

/// Returns a range as rows, or None if the items have a different layout.
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
    client.again(py, || {
        let shared = client.enter(py)?;
        with_feed_buffer(|items| {
            let place = (client.database(py), key.bytes());
            let read = shared.feed_items(place, query, range, |schema| form.fits(schema), items);
            match read.map_err(|failure| raise(client, py, &shared, failure))? {
                Some(schema) if !form.fits(&schema) => Ok(None),
                _ => form.rows(py, items).map(Some),
            }
        })
    })
}

#[cold]
fn raise(client: &Client, py: Python<'_>, shared: &OpenStore, failure: Failure) -> PyErr {
    let raises = client.codec.raises;
    match failure {
        Failure::Reply(error) => error::raise_reply(py, raises, &shared.store, error.text()),
        Failure::Blocked(blocked) => error::raise_blocked(py, raises, &blocked),
    }
}

/// Splits bytes into little-endian 32-bit integers.
fn numbers(bytes: &[u8]) -> Vec<u32> {
    let (numbers, _) = bytes.as_chunks::<4>();
    numbers
        .iter()
        .map(|bytes| u32::from_le_bytes(*bytes))
        .collect()
}

/// Runs FEED.ADD with values of `size` bytes and `columns` 4-byte attributes each.
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
            "expected values of {size} bytes with {columns} attributes of 4 bytes each, got {} \
             bytes of values and {} of attributes",
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
            let text = "expected FEED.ADD, a key and a position";
            return Err(PyValueError::new_err(text));
        };
        let place = match *position {
            b"*" => Some(None),
            digits => str::from_utf8(digits)
                .ok()
                .and_then(|text| text.parse().ok().map(Some)),
        };
        if let Some(position) = place {
            let added = client.again(py, || {
                let shared = client.enter(py)?;
                let added = shared.feed_add((client.database(py), key), position, &items);
                let raises = client.codec.raises;
                added.map_err(|error| error::raise(py, raises, &shared.store, error))
            })?;
            if let Some(added) = added {
                return Ok(added.into_pyobject(py)?.into_any());
            }
        }
        add_by_words(client, py, words, &items)
    })
}

/// Runs FEED.ADD through the command table, which reports the error in the items.
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
                "expected attributes for the value before a value that reads ATTRS, got none: \
                 FEED.ADD would read that value as the keyword",
            ));
        }
        words.push(value);
        if let Some(text) = texts.get(index) {
            words.extend([ATTRIBUTES, text.as_bytes()]);
        }
    }
    ask(client, py, &words, true, Shape::Reply, None)
}
