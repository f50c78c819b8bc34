//! Parses attributes, filters and positions. Errors state what was expected and what was received.

use undercroft_engine::feeds::{
    ATTRIBUTES_MAX, FeedType, Filter, Order, Schema, Seen, Selection, Test,
};
use undercroft_numbers::parse_integer;

use crate::arguments::{CommandError, is_keyword};

/// Returns an error that quotes an argument and states what was expected instead.
pub(super) fn wrong(what: &str, got: &[u8], expected: &str) -> CommandError {
    let (start, end) = (
        format!("ERR {what} is '"),
        format!("', expected {expected}"),
    );
    CommandError::from_parts(&[start.as_bytes(), got, end.as_bytes()])
}

/// Parses a nonnegative integer.
fn number(text: &[u8]) -> Option<u64> {
    parse_integer(text).and_then(|number| u64::try_from(number).ok())
}

/// Parses the size of a feed's values in bytes.
fn size(argument: &[u8]) -> Result<u8, CommandError> {
    let size = number(argument).and_then(|size| u8::try_from(size).ok());
    let size = size.filter(|&size| size > 0);
    size.ok_or_else(|| wrong("SIZE", argument, "1 to 255"))
}

/// Parses the widths of a feed's attributes, in bits. Example: `4:3:1`.
fn widths(argument: &[u8]) -> Result<Vec<u8>, CommandError> {
    let parts: Vec<&[u8]> = argument.split(|&byte| byte == b':').collect();
    if parts.len() > ATTRIBUTES_MAX {
        let text = format!(
            "ERR ATTRS has {} attributes, expected up to {ATTRIBUTES_MAX}",
            parts.len()
        );
        return Err(CommandError::new(text));
    }
    let widths = parts.into_iter().map(|part| {
        let width = number(part).filter(|width| (1..=32).contains(width));
        let width = width.map(|width| width as u8);
        width.ok_or_else(|| wrong("a width in ATTRS", part, "1 to 32 bits"))
    });
    widths.collect()
}

/// Parses the options of FEED.CREATE.
pub(super) fn schema(words: &[&[u8]]) -> Result<Schema, CommandError> {
    let (mut bytes, mut bits, mut of) = (None, Vec::new(), None);
    let (mut order, mut unique, mut indexed) = (Order::List, false, false);
    let mut words = words.iter();
    while let Some(word) = words.next() {
        let mut next = || words.next().copied().ok_or(CommandError::SYNTAX);
        if is_keyword(word, "SIZE") {
            bytes = Some(size(next()?)?);
        } else if is_keyword(word, "ATTRS") {
            bits = widths(next()?)?;
        } else if is_keyword(word, "ORDER") {
            order = self::order(next()?)?;
        } else if is_keyword(word, "TYPE") {
            of = Some(feed_type(next()?)?);
        } else if is_keyword(word, "UNIQUE") {
            unique = true;
        } else if is_keyword(word, "INDEX") {
            indexed = true;
        } else {
            return Err(CommandError::SYNTAX);
        }
    }
    if let Order::Sorted { .. } = order {
        let of = of.unwrap_or(FeedType::Bytes);
        order = Order::Sorted { of, unique };
        let number = of.size();
        if let (Some(number), Some(bytes)) = (number, bytes)
            && number != bytes
        {
            let (name, bytes) = (of.name(), bytes.to_string());
            return Err(wrong(
                "SIZE",
                bytes.as_bytes(),
                &format!("{number} for {name}"),
            ));
        }
        bytes = bytes.or(number);
    } else if of.is_some() || unique {
        let word = if unique { "UNIQUE" } else { "TYPE" };
        let text = format!(
            "ERR {word} is for sorted feeds, but the order is {}; add ORDER SORTED",
            order.name()
        );
        return Err(CommandError::new(text));
    }
    let schema = bytes.and_then(|bytes| Schema::new(bytes, &bits, order));
    let schema = schema.ok_or(CommandError::SYNTAX)?;
    if !indexed {
        return Ok(schema);
    }
    schema.with_index().ok_or(CommandError::fixed(
        "ERR INDEX is for ORDER LIST or QUEUE; a sorted feed finds its values without an index",
    ))
}

/// Parses the order of a feed. For a sorted feed, separate options set the type and the uniqueness
/// of values.
fn order(argument: &[u8]) -> Result<Order, CommandError> {
    let (of, unique) = (FeedType::Bytes, false);
    let all = [Order::List, Order::Queue, Order::Sorted { of, unique }];
    let mut all = all.into_iter();
    let order = all.find(|order| is_keyword(argument, order.name()));
    order.ok_or_else(|| wrong("ORDER", argument, "LIST, QUEUE or SORTED"))
}

/// Parses the type of the values in a sorted feed.
fn feed_type(argument: &[u8]) -> Result<FeedType, CommandError> {
    let mut all = FeedType::ALL.into_iter();
    let of = all.find(|of| is_keyword(argument, of.name()));
    of.ok_or_else(|| {
        let names = FeedType::ALL.map(FeedType::name);
        wrong("TYPE", argument, &format!("one of {}", names.join(" ")))
    })
}

/// Parses VISIBLE, HIDDEN or ALL, which select items by visibility. Returns `None` for any other
/// word.
pub(super) fn seen(argument: &[u8]) -> Option<Seen> {
    let words = [
        ("VISIBLE", Seen::Visible),
        ("HIDDEN", Seen::Hidden),
        ("ALL", Seen::All),
    ];
    let mut words = words.into_iter();
    words.find_map(|(word, seen)| is_keyword(argument, word).then_some(seen))
}

/// Splits colon-separated text into parts, one for each attribute of the feed.
fn parts<'t>(schema: &Schema, what: &str, text: &'t [u8]) -> Result<Vec<&'t [u8]>, CommandError> {
    let expected = schema.widths().len();
    let parts: Vec<&[u8]> = match text {
        b"" if expected == 0 => Vec::new(),
        text => text.split(|&byte| byte == b':').collect(),
    };
    if parts.len() == expected {
        return Ok(parts);
    }
    let text = format!("ERR {what} has {} parts, expected {expected}", parts.len());
    Err(CommandError::new(text))
}

/// Parses the value of an attribute.
fn attribute(schema: &Schema, index: usize, text: &[u8]) -> Result<u32, CommandError> {
    let greatest = schema.greatest(index);
    let value = number(text).and_then(|value| u32::try_from(value).ok());
    let value = value.filter(|&value| value <= greatest);
    value.ok_or_else(|| {
        wrong(
            &format!("attribute {index}"),
            text,
            &format!("0 to {greatest}"),
        )
    })
}

/// Parses attributes such as `1:0:2`. An empty part yields `None`.
pub(super) fn attributes(
    schema: &Schema,
    argument: &[u8],
) -> Result<Vec<Option<u32>>, CommandError> {
    let parts = parts(schema, "ATTRS", argument)?.into_iter().enumerate();
    let attributes = parts.map(|(index, part)| match part {
        b"" => Ok(None),
        part => attribute(schema, index, part).map(Some),
    });
    attributes.collect()
}

/// Parses a condition on an attribute: `3`, `=3`, `!=3`, `<3`, `>3`, `1|3` or `!=1|3`.
fn test(schema: &Schema, index: usize, text: &[u8]) -> Result<Test, CommandError> {
    let set = |text: &[u8]| {
        let values = text.split(|&byte| byte == b'|');
        let values = values.map(|value| attribute(schema, index, value));
        values.collect::<Result<Vec<u32>, CommandError>>()
    };
    Ok(match text {
        [b'!', b'=', values @ ..] => Test::NoneOf(set(values)?),
        [b'<', limit @ ..] => Test::Less(attribute(schema, index, limit)?),
        [b'>', limit @ ..] => Test::Greater(attribute(schema, index, limit)?),
        [b'=', values @ ..] | values => Test::OneOf(set(values)?),
    })
}

/// Returns the selection of a query, which filters items by visibility and by conditions such as
/// `3::1` or `a0=3 a2=1`.
///
/// # Errors
/// Returns an error if `text` is not a valid filter for feeds with this schema.
pub fn selection(
    schema: &Schema,
    seen: Seen,
    text: Option<&[u8]>,
) -> Result<Selection<'static>, CommandError> {
    let mut filter = Filter::default();
    match text {
        None | Some(b"") => {}
        Some(text) if text.first() == Some(&b'a') => {
            for word in text
                .split(|&byte| byte == b' ')
                .filter(|word| !word.is_empty())
            {
                let (index, condition) = named(schema, word)?;
                filter.add(schema, index, test(schema, index, condition)?);
            }
        }
        Some(text) => {
            for (index, part) in parts(schema, "filter", text)?.into_iter().enumerate() {
                if !part.is_empty() {
                    filter.add(schema, index, test(schema, index, part)?);
                }
            }
        }
    }
    Ok(Selection::new(seen, filter))
}

/// Splits a condition such as `a2=1` into the index of the attribute and the rest of the condition.
fn named<'w>(schema: &Schema, word: &'w [u8]) -> Result<(usize, &'w [u8]), CommandError> {
    let digits = word.strip_prefix(b"a").unwrap_or(b"");
    let end = digits.iter().position(|byte| !byte.is_ascii_digit());
    let (name, condition) = digits.split_at(end.unwrap_or(digits.len()));
    let index = number(name).filter(|&index| index < schema.widths().len() as u64);
    match (index, condition) {
        (Some(index), [b'=' | b'!' | b'<' | b'>', ..]) => Ok((index as usize, condition)),
        (Some(_), _) => Err(wrong("a condition", word, "one of = != < > and a value")),
        (None, _) => {
            let expected = match schema.widths().len() {
                0 => "none: the feed has no attributes".to_owned(),
                count => format!("an attribute from a0 to a{}", count - 1),
            };
            Err(wrong("a condition", word, &expected))
        }
    }
}

/// Checks that an item can be inserted at a position. Queues accept items only at their ends.
pub(super) fn check_position(
    schema: &Schema,
    position: i64,
    items: u64,
) -> Result<(), CommandError> {
    let at_end = matches!(position, 0 | -1) || position > 0 && position as u64 >= items;
    if schema.order() == Order::List || at_end {
        return Ok(());
    }
    let text = format!("ERR position is {position}, expected 0 or -1 in a queue");
    Err(CommandError::new(text))
}

/// Returns the position at which FEED.ADD inserts items. If `position` is `None`, which stands for
/// `*`, the values determine the position.
pub(super) fn position_of(
    schema: &Schema,
    position: Option<i64>,
    items: u64,
) -> Result<i64, CommandError> {
    let text = match (schema.order(), position) {
        (Order::Sorted { .. }, None) => return Ok(-1),
        (Order::Sorted { .. }, Some(position)) => {
            format!("ERR position is {position}, expected * in a sorted feed")
        }
        (_, Some(position)) => return check_position(schema, position, items).map(|()| position),
        (order, None) => {
            format!(
                "ERR position is *, expected an integer in a {}",
                order.name()
            )
        }
    };
    Err(CommandError::new(text))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn example() -> Schema {
        Schema::new(12, &[4, 3, 1], Order::List).expect("a sound schema")
    }

    fn error(text: &str) -> String {
        let refused = selection(&example(), Seen::All, Some(text.as_bytes()));
        refused.expect_err(text).text().to_owned()
    }

    #[test]
    fn error_for_invalid_filter_states_what_was_expected() {
        for (filter, expected) in [
            ("3:1", "ERR filter has 2 parts, expected 3"),
            ("16::", "ERR attribute 0 is '16', expected 0 to 15"),
            (":<x:", "ERR attribute 1 is 'x', expected 0 to 7"),
            ("::1|2", "ERR attribute 2 is '2', expected 0 to 1"),
            ("1|::", "ERR attribute 0 is '', expected 0 to 15"),
            (
                "a3=1",
                "ERR a condition is 'a3=1', expected an attribute from a0 to a2",
            ),
            (
                "a=1",
                "ERR a condition is 'a=1', expected an attribute from a0 to a2",
            ),
            (
                "a1",
                "ERR a condition is 'a1', expected one of = != < > and a value",
            ),
            ("a0!1", "ERR attribute 0 is '!1', expected 0 to 15"),
        ] {
            assert_eq!(error(filter), expected, "{filter}");
        }
        for filter in ["", "::", "3::1", "a0=3 a2=1", "a0>1  a0<9", "!=1|3:<4:>0"] {
            let parsed = selection(&example(), Seen::All, Some(filter.as_bytes()));
            assert!(parsed.is_ok(), "{filter}");
        }
    }
}
