//! The value types of configuration parameters.

/// The value of a configuration parameter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Value {
    /// `yes` or `no`.
    Boolean(bool),
    /// A signed number.
    Integer(i64),
    /// A size in bytes.
    Memory(u64),
    /// One of a fixed set of words.
    Choice(&'static str),
    /// Any other text, normalized.
    Text(Vec<u8>),
}

impl Value {
    /// Returns the value in the form that CONFIG GET shows.
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

    /// Returns the value as a number: a size saturates at `i64::MAX`, `yes` is 1, and `no`, a
    /// choice or text is 0.
    pub(super) fn number(&self) -> i64 {
        match self {
            Value::Integer(number) => *number,
            Value::Memory(bytes) => i64::try_from(*bytes).unwrap_or(i64::MAX),
            Value::Boolean(value) => i64::from(*value),
            _ => 0,
        }
    }
}
