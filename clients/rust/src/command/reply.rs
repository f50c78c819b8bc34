//! Defines command replies, and converts the replies of stores and servers to them.

use undercroft_commands::reply::Tree;
use undercroft_resp::Value;

use crate::error::{Error, Result};

/// The reply to a command. An error reply becomes an [`Error::Reply`], unless it is nested in
/// another reply.
///
/// ```
/// use undercroft::Reply;
/// # let directory = undercroft_testkit::fresh::directory();
/// # let store = undercroft::Store::open_path(directory.path().join("store"))?;
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

    /// Returns the error for a reply of another type than the expected one.
    #[cold]
    pub(super) fn is_not(&self, expected: &'static str) -> Error {
        match self {
            Reply::Error(text) => Error::reply(text.as_str()),
            other => Error::Unexpected {
                expected,
                got: other.kind(),
            },
        }
    }
}

/// Converts a reply from a store.
pub(crate) fn from_tree(tree: Tree) -> Reply {
    let all = |items: Vec<Tree>| items.into_iter().map(from_tree).collect();
    match tree {
        Tree::Simple(text) => Reply::Status(text),
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
