//! Parses and formats feed values. Values in feeds sorted by number or by text are given as text.
//! Values in all other feeds are raw bytes of the size that the schema specifies.

use std::borrow::Cow;
use std::ops::Bound;

use undercroft_engine::Ranges;
use undercroft_engine::feeds::{FeedType, Order, Schema};

use super::parse::wrong;
use crate::algorithms::double::parse_double;
use crate::arguments::{CommandError, is_keyword};
use crate::reply::Reply;

/// The lower and upper bounds of a range.
pub(super) type Limits<'t> = (Bound<Cow<'t, [u8]>>, Bound<Cow<'t, [u8]>>);

/// Parses an argument as a value of the feed.
pub(super) fn value<'t>(schema: &Schema, text: &'t [u8]) -> Result<Cow<'t, [u8]>, CommandError> {
    let (size, length) = (schema.value_size(), text.len());
    match schema.order().sorted_by() {
        Some(FeedType::Text) if length > size => Err(CommandError::new(format!(
            "ERR value has {length} bytes, expected up to {size}"
        ))),
        Some(FeedType::Text) if text.contains(&0) => {
            let error = "ERR value has a zero byte, expected a text without zero bytes";
            Err(CommandError::fixed(error))
        }
        Some(FeedType::Text) => {
            let mut value = text.to_vec();
            value.resize(size, 0);
            Ok(value.into())
        }
        Some(of) if of.size().is_some() => {
            let number = number(of, text);
            number
                .map(Cow::Owned)
                .ok_or_else(|| wrong("value", text, expected(of)))
        }
        _ if length == size => Ok(text.into()),
        _ => Err(CommandError::new(format!(
            "ERR value has {length} bytes, expected {size}"
        ))),
    }
}

/// Parses each argument as a value of the feed.
pub(super) fn values<'t>(
    schema: &Schema,
    texts: &[&'t [u8]],
) -> Result<Vec<Cow<'t, [u8]>>, CommandError> {
    texts.iter().map(|text| value(schema, text)).collect()
}

/// Parses a number and returns its bytes. Integers must be in canonical form, without leading
/// zeros, a plus sign or `-0`. A floating-point `-0` is converted to `0`.
fn number(of: FeedType, text: &[u8]) -> Option<Vec<u8>> {
    fn integer<T: std::str::FromStr + ToString>(text: &[u8]) -> Option<T> {
        let number = std::str::from_utf8(text).ok()?.parse::<T>().ok()?;
        (number.to_string().as_bytes() == text).then_some(number)
    }
    Some(match of {
        FeedType::Int32 => integer::<i32>(text)?.to_le_bytes().to_vec(),
        FeedType::Uint32 => integer::<u32>(text)?.to_le_bytes().to_vec(),
        FeedType::Int64 => integer::<i64>(text)?.to_le_bytes().to_vec(),
        FeedType::Uint64 => integer::<u64>(text)?.to_le_bytes().to_vec(),
        FeedType::Float32 => {
            let exact = parse_double(text)?;
            let number = exact as f32;
            let fits = number.is_finite() || exact.is_infinite();
            fits.then(|| (number + 0.0).to_le_bytes().to_vec())?
        }
        FeedType::Float64 => (parse_double(text)? + 0.0).to_le_bytes().to_vec(),
        FeedType::Bytes | FeedType::Text => return None,
    })
}

/// Describes the numbers that are valid for a type, for use in an error message.
fn expected(of: FeedType) -> &'static str {
    match of {
        FeedType::Int32 => "an integer from -2147483648 to 2147483647",
        FeedType::Uint32 => "an integer from 0 to 4294967295",
        FeedType::Int64 => "an integer from -9223372036854775808 to 9223372036854775807",
        FeedType::Uint64 => "an integer from 0 to 18446744073709551615",
        FeedType::Float32 | FeedType::Float64 => "a number",
        FeedType::Bytes | FeedType::Text => "bytes",
    }
}

/// Borrows the bytes of a bound.
pub(super) fn bytes_of<'l>(limit: &'l Bound<Cow<'_, [u8]>>) -> Bound<&'l [u8]> {
    limit.as_ref().map(AsRef::as_ref)
}

/// Parses the bounds of a range in a sorted feed. Numeric bounds use the syntax of ZRANGEBYSCORE,
/// and all other bounds use that of ZRANGEBYLEX. Returns `None` if no feed can contain a value in
/// the range.
pub(super) fn limits<'t>(
    schema: &Schema,
    low: &'t [u8],
    high: &'t [u8],
) -> Result<Option<Limits<'t>>, CommandError> {
    let Some(of) = schema.order().sorted_by() else {
        return Err(CommandError::new(format!(
            "ERR ranges of values need a sorted feed, this one is a {}",
            schema.order().name()
        )));
    };
    let (low, high) = (limit(of, "low", low)?, limit(of, "high", high)?);
    Ok(low.zip(high))
}

/// Parses one bound of a range. Returns `None` if no value can satisfy it.
fn limit<'t>(
    of: FeedType,
    what: &str,
    text: &'t [u8],
) -> Result<Option<Bound<Cow<'t, [u8]>>>, CommandError> {
    let is_number = of.size().is_some();
    // Integers are always finite, so an infinite bound does not limit them. Floating-point values
    // can be infinite.
    let is_integer = is_number && !matches!(of, FeedType::Float32 | FeedType::Float64);
    let is = |words: &[&str]| is_integer && words.iter().any(|word| is_keyword(text, word));
    if text == b"-" || is(&["-inf"]) {
        return Ok((what == "low").then_some(Bound::Unbounded));
    }
    if text == b"+" || is(&["inf", "+inf"]) {
        return Ok((what == "high").then_some(Bound::Unbounded));
    }
    let found = match (is_number, text) {
        (true, [b'(', rest @ ..]) => number(of, rest).map(|it| Bound::Excluded(it.into())),
        (true, text) => number(of, text).map(|it| Bound::Included(it.into())),
        (false, [b'(', rest @ ..]) => Some(Bound::Excluded(rest.into())),
        (false, [b'[', rest @ ..]) => Some(Bound::Included(rest.into())),
        (false, _) => None,
    };
    found.map(Some).ok_or_else(|| {
        let form = match is_number {
            true => format!("{}, alone or after '(', or -inf or +inf", expected(of)),
            false => "a value after '[' or '(', or - or +".to_owned(),
        };
        wrong(what, text, &form)
    })
}

/// Appends a value in the text form that clients receive.
fn append_shown(of: FeedType, value: &[u8], out: &mut Vec<u8>) {
    fn number<const N: usize, T: ToString>(value: &[u8], from: fn([u8; N]) -> T) -> String {
        // The default is never used, because a feed stores only values of the correct size.
        value
            .try_into()
            .map(from)
            .map_or_else(|_| String::new(), |it| it.to_string())
    }
    let text = match of {
        FeedType::Int32 => number(value, i32::from_le_bytes),
        FeedType::Uint32 => number(value, u32::from_le_bytes),
        FeedType::Int64 => number(value, i64::from_le_bytes),
        FeedType::Uint64 => number(value, u64::from_le_bytes),
        FeedType::Float32 => number(value, |bytes| float(f32::from_le_bytes(bytes))),
        FeedType::Float64 => number(value, |bytes| float(f64::from_le_bytes(bytes))),
        FeedType::Bytes => return out.extend_from_slice(value),
        FeedType::Text => {
            let end = value.iter().rposition(|&byte| byte != 0);
            return out.extend_from_slice(&value[..end.map_or(0, |last| last + 1)]);
        }
    };
    out.extend_from_slice(text.as_bytes());
}

/// Formats a number as the shortest text that parses to exactly this number.
fn float<T: Copy + Into<f64> + std::fmt::Display + std::fmt::LowerExp>(number: T) -> String {
    let size = number.into().abs();
    if size == 0.0 || size.is_infinite() || (1e-5..1e17).contains(&size) {
        number.to_string()
    } else {
        format!("{number:e}")
    }
}

/// Replies with a list of values. If `attributes` is set, each value is followed by its attributes.
pub(super) fn reply_with(order: Order, items: &Ranges, attributes: bool, reply: &mut dyn Reply) {
    reply.array(items.len());
    let Some(of) = order.sorted_by().filter(|&of| of != FeedType::Bytes) else {
        return reply.bulks(items);
    };
    let mut text = Vec::new();
    for (index, item) in items.iter().enumerate() {
        if attributes && index % 2 == 1 {
            reply.bulk(item);
        } else {
            text.clear();
            append_shown(of, item, &mut text);
            reply.bulk(&text);
        }
    }
}

/// Replies with a single value.
pub(super) fn reply_with_one(order: Order, value: &[u8], reply: &mut dyn Reply) {
    match order.sorted_by() {
        None => reply.bulk(value),
        Some(of) => {
            let mut text = Vec::new();
            append_shown(of, value, &mut text);
            reply.bulk(&text);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn schema(of: FeedType, size: u8) -> Schema {
        let order = Order::Sorted { of, unique: false };
        Schema::new(of.size().unwrap_or(size), &[], order).expect("a sound schema")
    }

    #[test]
    fn values_round_trip_through_their_text_form() {
        for (of, texts) in [
            (FeedType::Int32, &["-2147483648", "0", "2147483647"][..]),
            (FeedType::Uint32, &["0", "4294967295"]),
            (FeedType::Int64, &["-9223372036854775808", "7"]),
            (FeedType::Uint64, &["18446744073709551615"]),
            (
                FeedType::Float32,
                &["0.1", "-inf", "inf", "3e38", "1e-30", "-2.5"],
            ),
            (
                FeedType::Float64,
                &["0.1", "1e300", "123456789.125", "-5e-324"],
            ),
            (FeedType::Text, &["", "abc", "\u{e9}t"]),
            (FeedType::Bytes, &["abcd"]),
        ] {
            for text in texts {
                let value = value(&schema(of, 4), text.as_bytes()).expect(text);
                assert!(schema(of, 4).takes(&value), "{of:?} {text}");
                let mut shown = Vec::new();
                append_shown(of, &value, &mut shown);
                assert_eq!(shown, text.as_bytes(), "{of:?} {text}");
            }
        }
        assert_eq!(
            number(FeedType::Float64, b"-0"),
            number(FeedType::Float64, b"0")
        );
    }

    #[test]
    fn invalid_values_are_rejected() {
        for (of, text) in [
            (FeedType::Int32, "2147483648"),
            (FeedType::Int32, "007"),
            (FeedType::Int32, "+7"),
            (FeedType::Uint32, "-1"),
            (FeedType::Uint64, "1.5"),
            (FeedType::Float32, "1e39"),
            (FeedType::Float32, "nan"),
            (FeedType::Float64, "x"),
            (FeedType::Text, "abcde"),
            (FeedType::Text, "a\0b"),
            (FeedType::Bytes, "abc"),
        ] {
            assert!(
                value(&schema(of, 4), text.as_bytes()).is_err(),
                "{of:?} {text}"
            );
        }
    }
}
