//! Defines the types of parameter values.

/// The value of a configuration parameter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Value {
    /// A `yes`/`no` flag.
    Boolean(bool),
    /// A signed integer.
    Integer(i64),
    /// A size, in bytes.
    Memory(u64),
    /// One word from a fixed list.
    Choice(&'static str),
    /// An arbitrary string, normalized.
    Text(Vec<u8>),
}

impl Value {
    /// Formats the value the way CONFIG GET does.
    pub fn text(&self) -> Vec<u8> {
        match self {
            Value::Boolean(true) => b"yes".to_vec(),
            Value::Boolean(false) => b"no".to_vec(),
            Value::Integer(number) => number.to_string().into_bytes(),
            Value::Memory(bytes) => bytes.to_string().into_bytes(),
            Value::Choice(word) => word.as_bytes().to_vec(),
            Value::Text(text) => text.clone(),
        }
    }

    /// Returns the value as a number. Sizes saturate at `i64::MAX`, `yes` is 1, and `no`, choices
    /// and strings are 0.
    pub(super) fn number(&self) -> i64 {
        match self {
            Value::Integer(number) => *number,
            Value::Memory(bytes) => i64::try_from(*bytes).unwrap_or(i64::MAX),
            Value::Boolean(value) => i64::from(*value),
            _ => 0,
        }
    }
}
