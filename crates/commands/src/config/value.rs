//! The types of values that parameters have.

/// A parameter's value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Value {
    /// `yes` or `no`.
    Boolean(bool),
    /// A number.
    Integer(i64),
    /// Bytes.
    Memory(u64),
    /// One of a few words.
    Choice(&'static str),
    /// Anything else, in its normal form.
    Text(Vec<u8>),
}

impl Value {
    /// As CONFIG GET shows it.
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

    /// A number, a size, which is cut to the range, or 1 for `yes`; 0 for anything else.
    pub(super) fn number(&self) -> i64 {
        match self {
            Value::Integer(number) => *number,
            Value::Memory(bytes) => i64::try_from(*bytes).unwrap_or(i64::MAX),
            Value::Boolean(value) => i64::from(*value),
            _ => 0,
        }
    }
}
