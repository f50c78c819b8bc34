//! Converts replies to Rust types.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::hash::{BuildHasher, Hash};

use bytes::Bytes;

use super::reply::Reply;
use crate::error::{Error, Result};

impl Reply {
    /// Converts the reply to the type that the caller expects.
    ///
    /// # Errors
    /// [`Error::Unexpected`] if the reply has another type.
    ///
    /// ```
    /// use undercroft::Reply;
    /// let reply = Reply::Array(vec![Reply::Bytes(b"7".to_vec()), Reply::Nil]);
    /// assert_eq!(reply.to::<Vec<Option<i64>>>()?, [Some(7), None]);
    /// # Ok::<(), undercroft::Error>(())
    /// ```
    pub fn to<T: FromReply>(self) -> Result<T> {
        T::from_reply(self)
    }
}

/// A type that a [`Reply`] can be converted to with [`Reply::to`].
///
/// - Integers of every size, checked for their range, and floating point numbers are also read from
///   strings of digits, and `bool` from 0, 1 and `OK`, so that RESP2 and RESP3 replies both work.
/// - Vectors, sets and tuples are read from arrays and sets. `Vec<u8>`, `String` and `Bytes` are
///   read from strings.
/// - Maps, and vectors of pairs, are read from maps, from arrays of pairs, and from arrays in which
///   keys and values alternate.
/// - `Option` is `None` for a reply without a value.
///
/// ```
/// use std::collections::BTreeMap;
/// use undercroft::cmd;
/// # let directory = undercroft_testkit::fresh::directory();
/// # let store = undercroft::Store::open_path(directory.path().join("store"))?;
/// store.hset("user:1", [("born", 1815), ("visits", 3)])?;
/// let user: BTreeMap<String, u16> = cmd("HGETALL").arg("user:1").query(&store)?;
/// assert_eq!(user["born"], 1815);
/// let (born, name): (u16, Option<String>) =
///     cmd("HMGET").arg(("user:1", "born", "name")).query(&store)?;
/// assert_eq!((born, name), (1815, None));
/// # Ok::<(), undercroft::Error>(())
/// ```
pub trait FromReply: Sized {
    /// Converts the reply.
    ///
    /// # Errors
    /// [`Error::Unexpected`] if the reply has another type.
    ///
    /// ```
    /// use undercroft::{Error, FromReply, Reply, Result};
    /// struct Celsius(f64);
    /// impl FromReply for Celsius {
    ///     fn from_reply(reply: Reply) -> Result<Celsius> {
    ///         reply.to().map(Celsius)
    ///     }
    /// }
    /// let reply = Reply::Array(vec![Reply::Integer(20), Reply::Double(21.5)]);
    /// assert_eq!(reply.to::<Vec<Celsius>>()?[1].0, 21.5);
    /// # Ok::<(), Error>(())
    /// ```
    fn from_reply(reply: Reply) -> Result<Self>;

    /// Converts a reply to a vector of this type. Bytes override it, because together they are a
    /// string, and tuples, because arrays may contain their items in turn.
    #[doc(hidden)]
    fn all_from(reply: Reply) -> Result<Vec<Self>> {
        items(reply)?.into_iter().map(Self::from_reply).collect()
    }
}

impl FromReply for Reply {
    fn from_reply(reply: Reply) -> Result<Reply> {
        Ok(reply)
    }
}

/// Returns the items of a reply that is an array or a set.
fn items(reply: Reply) -> Result<Vec<Reply>> {
    match reply {
        Reply::Array(items) | Reply::Set(items) => Ok(items),
        other => Err(other.is_not("an array")),
    }
}

fn bytes(reply: Reply) -> Result<Vec<u8>> {
    match reply {
        Reply::Bytes(bytes) | Reply::Status(bytes) | Reply::BigNumber(bytes) => Ok(bytes),
        Reply::Integer(value) => Ok(value.to_string().into_bytes()),
        other => Err(other.is_not("a string")),
    }
}

impl FromReply for String {
    fn from_reply(reply: Reply) -> Result<String> {
        String::from_utf8(bytes(reply)?).map_err(|_| Error::Unexpected {
            expected: "a string in UTF-8",
            got: "other bytes",
        })
    }
}

impl FromReply for Bytes {
    fn from_reply(reply: Reply) -> Result<Bytes> {
        bytes(reply).map(Bytes::from)
    }
}

impl<T: FromReply> FromReply for Vec<T> {
    fn from_reply(reply: Reply) -> Result<Vec<T>> {
        T::all_from(reply)
    }
}

/// Returns an integer of any size.
fn integer(reply: &Reply) -> Result<i128> {
    match reply {
        Reply::Integer(value) => Ok((*value).into()),
        Reply::Boolean(value) => Ok((*value).into()),
        Reply::Bytes(digits) | Reply::BigNumber(digits) => {
            if let Some(value) = undercroft_numbers::parse_integer(digits) {
                return Ok(value.into());
            }
            // Only integers of more than 64 bits are parsed here, because `parse` also accepts signs
            // and zeros at the start.
            let text = std::str::from_utf8(digits).ok();
            let text = text.filter(|text| text.len() > 18 && !text.starts_with('+'));
            let value = text.and_then(|text| text.parse().ok());
            value.ok_or_else(|| reply.is_not("an integer"))
        }
        other => Err(other.is_not("an integer")),
    }
}

macro_rules! integers {
    ($($type:ident: $expected:literal),*) => {$(
        impl FromReply for $type {
            fn from_reply(reply: Reply) -> Result<$type> {
                $type::try_from(integer(&reply)?).map_err(|_| Error::Unexpected {
                    expected: $expected,
                    got: "an integer outside of its range",
                })
            }
        }
    )*};
}

integers!(
    i8: "an integer of 8 bits",
    i16: "an integer of 16 bits",
    i32: "an integer of 32 bits",
    i64: "an integer of 64 bits",
    i128: "an integer of 128 bits",
    isize: "an integer of 64 bits",
    u16: "an unsigned integer of 16 bits",
    u32: "an unsigned integer of 32 bits",
    u64: "an unsigned integer of 64 bits",
    u128: "an unsigned integer of 128 bits",
    usize: "an unsigned integer of 64 bits"
);

impl FromReply for u8 {
    fn from_reply(reply: Reply) -> Result<u8> {
        u8::try_from(integer(&reply)?).map_err(|_| Error::Unexpected {
            expected: "an unsigned integer of 8 bits",
            got: "an integer outside of its range",
        })
    }

    fn all_from(reply: Reply) -> Result<Vec<u8>> {
        bytes(reply)
    }
}

impl FromReply for f64 {
    fn from_reply(reply: Reply) -> Result<f64> {
        match &reply {
            Reply::Double(value) => Ok(*value),
            Reply::Integer(value) => Ok(*value as f64),
            Reply::Bytes(text) => {
                let text = std::str::from_utf8(text).ok();
                let value = text.and_then(|text| text.parse().ok());
                value.ok_or_else(|| reply.is_not("a number"))
            }
            other => Err(other.is_not("a number")),
        }
    }
}

impl FromReply for f32 {
    fn from_reply(reply: Reply) -> Result<f32> {
        f64::from_reply(reply).map(|value| value as f32)
    }
}

impl FromReply for bool {
    fn from_reply(reply: Reply) -> Result<bool> {
        match &reply {
            Reply::Boolean(value) => Ok(*value),
            Reply::Integer(0) | Reply::Nil => Ok(false),
            Reply::Integer(1) => Ok(true),
            Reply::Bytes(digit) if digit == b"0" || digit == b"1" => Ok(digit == b"1"),
            Reply::Status(status) if status == b"OK" => Ok(true),
            other => Err(other.is_not("a truth value")),
        }
    }
}

impl<T: FromReply> FromReply for Option<T> {
    fn from_reply(reply: Reply) -> Result<Option<T>> {
        match reply {
            Reply::Nil => Ok(None),
            other => T::from_reply(other).map(Some),
        }
    }
}

impl<T: FromReply + Eq + Hash, S: BuildHasher + Default> FromReply for HashSet<T, S> {
    fn from_reply(reply: Reply) -> Result<HashSet<T, S>> {
        items(reply)?.into_iter().map(T::from_reply).collect()
    }
}

impl<T: FromReply + Ord> FromReply for BTreeSet<T> {
    fn from_reply(reply: Reply) -> Result<BTreeSet<T>> {
        items(reply)?.into_iter().map(T::from_reply).collect()
    }
}

impl<K: FromReply + Eq + Hash, V: FromReply, S: BuildHasher + Default> FromReply
    for HashMap<K, V, S>
{
    fn from_reply(reply: Reply) -> Result<HashMap<K, V, S>> {
        Ok(<(K, V)>::all_from(reply)?.into_iter().collect())
    }
}

impl<K: FromReply + Ord, V: FromReply> FromReply for BTreeMap<K, V> {
    fn from_reply(reply: Reply) -> Result<BTreeMap<K, V>> {
        Ok(<(K, V)>::all_from(reply)?.into_iter().collect())
    }
}

/// Splits a reply into rows of `width` items.
fn rows(reply: Reply, width: usize) -> Result<Vec<Reply>> {
    let flat = match reply {
        Reply::Map(pairs) if width == 2 => {
            let row = |(key, value)| Reply::Array(vec![key, value]);
            return Ok(pairs.into_iter().map(row).collect());
        }
        other => items(other)?,
    };
    if flat.iter().all(|item| matches!(item, Reply::Array(_))) {
        return Ok(flat);
    }
    if !flat.len().is_multiple_of(width) {
        return Err(Error::Unexpected {
            expected: if width == 2 { "pairs" } else { "complete rows" },
            got: "items that are left over",
        });
    }
    let mut flat = flat.into_iter().peekable();
    let mut rows = Vec::with_capacity(flat.len() / width);
    while flat.peek().is_some() {
        rows.push(Reply::Array(flat.by_ref().take(width).collect()));
    }
    Ok(rows)
}

impl FromReply for () {
    fn from_reply(_: Reply) -> Result<()> {
        Ok(())
    }
}

macro_rules! tuples {
    (@ $width:literal $($name:ident)+) => {
        impl<$($name: FromReply),+> FromReply for ($($name,)+) {
            fn from_reply(reply: Reply) -> Result<Self> {
                let items = match reply {
                    // A map with one entry is a pair.
                    Reply::Map(pairs) if $width == 2 * pairs.len() => {
                        pairs.into_iter().flat_map(|(key, value)| [key, value]).collect()
                    }
                    other => items(other)?,
                };
                if items.len() != $width {
                    return Err(Error::Unexpected {
                        expected: concat!("an array of ", $width, " items"),
                        got: "an array of another length",
                    });
                }
                let mut items = items.into_iter();
                Ok(($($name::from_reply(items.next().unwrap_or(Reply::Nil))?,)+))
            }

            fn all_from(reply: Reply) -> Result<Vec<Self>> {
                rows(reply, $width)?.into_iter().map(Self::from_reply).collect()
            }
        }
    };
}

tuples!(@ 1 A);
tuples!(@ 2 A B);
tuples!(@ 3 A B C);
tuples!(@ 4 A B C D);
tuples!(@ 5 A B C D E);
tuples!(@ 6 A B C D E F);
tuples!(@ 7 A B C D E F G);
tuples!(@ 8 A B C D E F G H);

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes(text: &str) -> Reply {
        Reply::Bytes(text.as_bytes().to_vec())
    }

    #[test]
    fn pairs_are_read_from_maps_and_flat_or_nested_arrays() {
        let map = Reply::Map(vec![(bytes("a"), bytes("1"))]);
        let turns = Reply::Array(vec![bytes("a"), bytes("1")]);
        let pairs = Reply::Array(vec![Reply::Array(vec![bytes("a"), Reply::Double(1.0)])]);
        for reply in [map, turns, pairs] {
            let read: Vec<(String, f64)> = reply.to().expect("pairs");
            assert_eq!(read, [("a".to_owned(), 1.0)]);
        }
        let odd = Reply::Array(vec![bytes("a")]);
        assert!(odd.to::<Vec<(String, String)>>().is_err());
    }

    #[test]
    fn errors_name_the_unexpected_type() {
        let error = bytes("x").to::<i64>().expect_err("no integer");
        assert_eq!(error.to_string(), "expected an integer, got a string");
        let error = Reply::Error("WRONGTYPE no".into())
            .to::<i64>()
            .expect_err("an error");
        assert!(error.is_wrong_type());
        assert!(Reply::Integer(-1).to::<u64>().is_err());
        assert_eq!(Reply::Nil.to::<Option<i64>>().expect("nil"), None);
        assert!(Reply::Integer(2).to::<bool>().is_err());
        let error = Reply::Integer(256).to::<u8>().expect_err("too large");
        assert_eq!(
            error.to_string(),
            "expected an unsigned integer of 8 bits, got an integer outside of its range"
        );
    }

    #[test]
    fn integers_are_read_up_to_their_limits() {
        assert_eq!(Reply::Integer(-128).to::<i8>().expect("i8"), -128);
        assert!(Reply::Integer(128).to::<i8>().is_err());
        assert_eq!(
            bytes("18446744073709551615").to::<u64>().expect("u64"),
            u64::MAX
        );
        assert!(bytes("18446744073709551616").to::<u64>().is_err());
        assert_eq!(
            bytes("18446744073709551616").to::<u128>().expect("u128"),
            1 << 64
        );
        let big = Reply::BigNumber(b"-9223372036854775809".to_vec());
        assert!(big.clone().to::<i64>().is_err());
        assert_eq!(big.to::<i128>().expect("i128"), i128::from(i64::MIN) - 1);
        for wrong in ["", "1.5", "+1", " 1", "x"] {
            assert!(bytes(wrong).to::<u32>().is_err(), "{wrong:?}");
        }
        assert_eq!(bytes("1.5").to::<f32>().expect("f32"), 1.5);
        assert_eq!(
            (bytes("1").to::<bool>().ok(), bytes("2").to::<bool>().ok()),
            (Some(true), None)
        );
    }

    #[test]
    fn collections_are_read_from_arrays_sets_and_maps() {
        let letters = || Reply::Set(vec![bytes("b"), bytes("a")]);
        assert_eq!(letters().to::<Vec<String>>().expect("texts"), ["b", "a"]);
        assert_eq!(letters().to::<Vec<Bytes>>().expect("bytes"), ["b", "a"]);
        let set = BTreeSet::from(["a".to_owned(), "b".to_owned()]);
        assert_eq!(letters().to::<BTreeSet<String>>().expect("a set"), set);
        assert_eq!(letters().to::<HashSet<String>>().expect("a set").len(), 2);
        let nested = Reply::Array(vec![letters(), Reply::Nil]);
        let read: Vec<Option<Vec<Vec<u8>>>> = nested.to().expect("nested");
        assert_eq!(read, [Some(vec![b"b".to_vec(), b"a".to_vec()]), None]);
        let turns = Reply::Array(vec![
            bytes("a"),
            Reply::Integer(1),
            bytes("b"),
            Reply::Integer(2),
        ]);
        let map = BTreeMap::from([("a".to_owned(), 1), ("b".to_owned(), 2)]);
        assert_eq!(
            turns.clone().to::<BTreeMap<String, u8>>().expect("a map"),
            map
        );
        assert_eq!(
            turns.clone().to::<HashMap<String, u8>>().expect("a map")["b"],
            2
        );
        let row: (String, i64, Vec<u8>, Option<u8>) = turns.clone().to().expect("a row");
        assert_eq!(row, ("a".to_owned(), 1, b"b".to_vec(), Some(2)));
        assert_eq!(
            turns
                .clone()
                .to::<Vec<(String, i64, String, u8)>>()
                .expect("rows")
                .len(),
            1
        );
        assert!(turns.clone().to::<(String, i64, String)>().is_err());
        assert!(turns.to::<Vec<(String, i64, String)>>().is_err());
        let empty = Reply::Array(Vec::new());
        assert!(
            empty
                .clone()
                .to::<Vec<(String, u8)>>()
                .expect("none")
                .is_empty()
        );
        assert!(empty.to::<HashMap<String, u8>>().expect("none").is_empty());
        let one = Reply::Map(vec![(bytes("a"), Reply::Integer(1))]);
        assert_eq!(
            one.to::<(String, u8)>().expect("a pair"),
            ("a".to_owned(), 1)
        );
    }
}
