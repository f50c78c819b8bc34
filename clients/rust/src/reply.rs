//! Defines command replies from stores and servers, and converts them to Rust types.

use undercroft_commands::reply::Tree;
use undercroft_resp::Value;

use crate::error::{Error, Result};

/// The reply to a command. An error reply becomes an [`Error::Reply`], unless it is nested in
/// another reply.
///
/// ```
/// use undercroft::Reply;
/// # let directory = undercroft_testkit::fresh::directory();
/// # let store = undercroft::Store::at(directory.path().join("store"))?;
/// assert_eq!(store.command(&["STRLEN", "key"])?, Reply::Integer(0));
/// let length: i64 = store.command(&["APPEND", "key", "value"])?.to()?;
/// assert_eq!(length, 5);
/// # Ok::<(), undercroft::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Reply {
    /// No value.
    Nil,
    /// A status such as `OK`.
    Status(Vec<u8>),
    /// An integer.
    Integer(i64),
    /// A string of arbitrary bytes.
    Bytes(Vec<u8>),
    /// A floating point number.
    Double(f64),
    /// A Boolean.
    Boolean(bool),
    /// An integer of any size, in decimal digits.
    BigNumber(Vec<u8>),
    /// An array of replies.
    Array(Vec<Reply>),
    /// Pairs of keys and values, in their original order.
    Map(Vec<(Reply, Reply)>),
    /// A set of replies, in no particular order.
    Set(Vec<Reply>),
    /// An error nested in another reply, for example in the reply of EXEC. The text starts with an
    /// error code.
    Error(String),
}

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

    fn kind(&self) -> &'static str {
        match self {
            Reply::Nil => "no value",
            Reply::Status(_) => "a status",
            Reply::Integer(_) => "an integer",
            Reply::Bytes(_) => "a string",
            Reply::Double(_) => "a double",
            Reply::Boolean(_) => "a truth value",
            Reply::BigNumber(_) => "a big number",
            Reply::Array(_) => "an array",
            Reply::Map(_) => "a map",
            Reply::Set(_) => "a set",
            Reply::Error(_) => "an error",
        }
    }

    #[cold]
    fn is_not(&self, expected: &'static str) -> Error {
        match self {
            Reply::Error(text) => Error::reply(text.as_str()),
            other => Error::Unexpected {
                expected,
                got: other.kind(),
            },
        }
    }
}

/// A type that a [`Reply`] can be converted to with [`Reply::to`].
///
/// Numbers are also parsed from strings of digits, and `bool` from 0, 1 and `OK`, so that RESP2 and
/// RESP3 replies both work. Pairs are read from maps, and from arrays in which keys and values
/// alternate.
///
/// ```
/// use undercroft::{FromReply, Reply};
/// assert_eq!(f64::from_reply(Reply::Bytes(b"1.5".to_vec()))?, 1.5);
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
    /// assert_eq!(Reply::Integer(20).to::<Celsius>()?.0, 20.0);
    /// # Ok::<(), Error>(())
    /// ```
    fn from_reply(reply: Reply) -> Result<Self>;
}

impl FromReply for Reply {
    fn from_reply(reply: Reply) -> Result<Reply> {
        Ok(reply)
    }
}

impl FromReply for () {
    fn from_reply(_: Reply) -> Result<()> {
        Ok(())
    }
}

impl FromReply for Vec<u8> {
    fn from_reply(reply: Reply) -> Result<Vec<u8>> {
        match reply {
            Reply::Bytes(bytes) | Reply::Status(bytes) | Reply::BigNumber(bytes) => Ok(bytes),
            Reply::Integer(value) => Ok(value.to_string().into_bytes()),
            other => Err(other.is_not("a string")),
        }
    }
}

impl FromReply for String {
    fn from_reply(reply: Reply) -> Result<String> {
        let bytes = Vec::<u8>::from_reply(reply)?;
        String::from_utf8(bytes).map_err(|_| Error::Unexpected {
            expected: "a string in UTF-8",
            got: "other bytes",
        })
    }
}

impl FromReply for i64 {
    fn from_reply(reply: Reply) -> Result<i64> {
        match &reply {
            Reply::Integer(value) => Ok(*value),
            Reply::Boolean(value) => Ok((*value).into()),
            Reply::Bytes(digits) => {
                undercroft_numbers::parse_integer(digits).ok_or_else(|| reply.is_not("an integer"))
            }
            other => Err(other.is_not("an integer")),
        }
    }
}

impl FromReply for u64 {
    fn from_reply(reply: Reply) -> Result<u64> {
        let value = i64::from_reply(reply)?;
        u64::try_from(value).map_err(|_| Error::Unexpected {
            expected: "a count",
            got: "a negative integer",
        })
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

impl FromReply for bool {
    fn from_reply(reply: Reply) -> Result<bool> {
        match &reply {
            Reply::Boolean(value) => Ok(*value),
            Reply::Integer(0) | Reply::Nil => Ok(false),
            Reply::Integer(1) => Ok(true),
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

/// Returns the items of a reply that is an array or a set.
fn items(reply: Reply) -> Result<Vec<Reply>> {
    match reply {
        Reply::Array(items) | Reply::Set(items) => Ok(items),
        other => Err(other.is_not("an array")),
    }
}

macro_rules! vectors {
    ($($item:ty),*) => {$(
        impl FromReply for Vec<$item> {
            fn from_reply(reply: Reply) -> Result<Vec<$item>> {
                items(reply)?.into_iter().map(FromReply::from_reply).collect()
            }
        }
    )*};
}

// The item types are listed one by one, because `Vec<u8>` is read as a string, which rules out a
// generic implementation for `Vec<T>`.
vectors!(
    Reply,
    Vec<u8>,
    String,
    i64,
    f64,
    bool,
    Option<Vec<u8>>,
    Option<String>,
    Option<i64>,
    Option<f64>
);

impl<K: FromReply, V: FromReply> FromReply for Vec<(K, V)> {
    fn from_reply(reply: Reply) -> Result<Vec<(K, V)>> {
        if let Reply::Map(pairs) = reply {
            let pair = |(key, value): (Reply, Reply)| Ok((key.to()?, value.to()?));
            return pairs.into_iter().map(pair).collect();
        }
        let mut items = items(reply)?.into_iter();
        let mut pairs = Vec::with_capacity(items.len() / 2);
        while let Some(key) = items.next() {
            let (key, value) = match key {
                Reply::Array(pair) => {
                    let mut pair = pair.into_iter();
                    (pair.next(), pair.next())
                }
                key => (Some(key), items.next()),
            };
            let (Some(key), Some(value)) = (key, value) else {
                return Err(Error::Unexpected {
                    expected: "pairs",
                    got: "a key without a value",
                });
            };
            pairs.push((key.to()?, value.to()?));
        }
        Ok(pairs)
    }
}

/// Converts a reply from a store.
pub(crate) fn from_tree(tree: Tree) -> Reply {
    let all = |items: Vec<Tree>| items.into_iter().map(from_tree).collect();
    match tree {
        Tree::Simple(text) => Reply::Status(text.into_bytes()),
        Tree::Error(text) => Reply::Error(text),
        Tree::Integer(value) => Reply::Integer(value),
        Tree::Bulk(bytes) => Reply::Bytes(bytes),
        Tree::Null | Tree::NullArray => Reply::Nil,
        Tree::Array(items) | Tree::Push(items) => Reply::Array(all(items)),
        Tree::Set(items) => Reply::Set(all(items)),
        Tree::Map(pairs) => {
            let pair = |(key, value)| (from_tree(key), from_tree(value));
            Reply::Map(pairs.into_iter().map(pair).collect())
        }
        Tree::Double(value) => Reply::Double(value),
        Tree::Decimal(digits) => Reply::Double(digits.parse().unwrap_or(f64::NAN)),
        Tree::Boolean(value) => Reply::Boolean(value),
        Tree::BigNumber(digits) => Reply::BigNumber(digits.into_bytes()),
        Tree::Verbatim { text, .. } => Reply::Bytes(text),
    }
}

/// Converts a reply from a server. Attributes are dropped, because they only describe a reply.
pub(crate) fn from_value(value: Value) -> Reply {
    let all = |items: Vec<Value>| items.into_iter().map(from_value).collect();
    match value {
        Value::Simple(text) => Reply::Status(text),
        Value::Error(text) | Value::BulkError(text) => Reply::Error(lossy(text)),
        Value::Integer(value) => Reply::Integer(value),
        Value::Bulk(bytes) | Value::Verbatim(_, bytes) => Reply::Bytes(bytes),
        Value::Null(_) => Reply::Nil,
        Value::Double(value) => Reply::Double(value),
        Value::Boolean(value) => Reply::Boolean(value),
        Value::BigNumber(digits) => Reply::BigNumber(digits),
        Value::Array(items) | Value::Push(items) => Reply::Array(all(items)),
        Value::Set(items) => Reply::Set(all(items)),
        Value::Map(pairs) => {
            let pair = |(key, value)| (from_value(key), from_value(value));
            Reply::Map(pairs.into_iter().map(pair).collect())
        }
        Value::Attributed(_, value) => from_value(*value),
    }
}

/// Converts a reply from the cluster client.
#[cfg(feature = "cluster")]
pub(crate) fn from_redis(value: redis::Value) -> Reply {
    let all = |items: Vec<redis::Value>| items.into_iter().map(from_redis).collect();
    match value {
        redis::Value::Int(value) => Reply::Integer(value),
        redis::Value::BulkString(bytes) => Reply::Bytes(bytes),
        redis::Value::Array(items) => Reply::Array(all(items)),
        redis::Value::SimpleString(text) => Reply::Status(text.into_bytes()),
        redis::Value::Okay => Reply::Status(b"OK".to_vec()),
        redis::Value::Map(pairs) => {
            let pair = |(key, value)| (from_redis(key), from_redis(value));
            Reply::Map(pairs.into_iter().map(pair).collect())
        }
        redis::Value::Attribute { data, .. } => from_redis(*data),
        redis::Value::Set(items) => Reply::Set(all(items)),
        redis::Value::Double(value) => Reply::Double(value),
        redis::Value::Boolean(value) => Reply::Boolean(value),
        redis::Value::VerbatimString { text, .. } => Reply::Bytes(text.into_bytes()),
        redis::Value::BigNumber(digits) => Reply::BigNumber(digits),
        redis::Value::Push { data, .. } => Reply::Array(all(data)),
        redis::Value::ServerError(error) => {
            let details = error.details().unwrap_or_default();
            Reply::Error(format!("{} {details}", error.code()))
        }
        _ => Reply::Nil,
    }
}

fn lossy(text: Vec<u8>) -> String {
    String::from_utf8(text)
        .unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned())
}

/// Converts a complete reply to the result of a command: an error reply becomes an error.
pub(crate) fn outcome(reply: Reply) -> Result<Reply> {
    match reply {
        Reply::Error(text) => Err(Error::reply(text)),
        other => Ok(other),
    }
}

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
    }
}
