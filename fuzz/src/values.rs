//! Defines Lua values, which the reference parsers produce and which scripts return in pieces.

use std::fmt::Write as _;

/// A Lua value, or a value of a format that is compared with Lua.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Value {
    /// No value, or null in JSON.
    Nil,
    Bool(bool),
    Number(f64),
    Text(Vec<u8>),
    /// Pairs of keys and values in any order.
    Table(Vec<(Value, Value)>),
}

impl Value {
    /// Returns a table with the keys 1, 2 and so on. Omits nil values, which Lua tables cannot
    /// contain.
    pub(crate) fn array(items: Vec<Value>) -> Value {
        let keys = (1..).map(|index| Value::Number(f64::from(index)));
        let pairs = keys.zip(items);
        Value::Table(pairs.filter(|(_, item)| *item != Value::Nil).collect())
    }

    /// Returns the nesting depth of tables.
    pub(crate) fn depth(&self) -> usize {
        let Value::Table(pairs) = self else { return 0 };
        let depths = pairs.iter().flat_map(|(key, item)| [key, item]);
        1 + depths.map(Value::depth).max().unwrap_or(0)
    }

    /// Encodes the value, so that equal values have equal encodings, regardless of the order of
    /// pairs in tables.
    pub(crate) fn canonical(&self) -> Vec<u8> {
        let mut text = String::new();
        match self {
            Value::Nil => text.push('z'),
            Value::Bool(value) => write!(text, "{value}").expect("text"),
            Value::Number(number) if number.is_nan() => text.push_str("nan"),
            // Adding 0.0 encodes positive and negative zero equally, because they are the same
            // number and the same key.
            Value::Number(number) => write!(text, "{:x},", (number + 0.0).to_bits()).expect("text"),
            Value::Text(bytes) => {
                write!(text, "{}:", bytes.len()).expect("text");
                return [text.as_bytes(), bytes].concat();
            }
            Value::Table(pairs) => {
                let joined = |(key, item): &(Value, Value)| [key.canonical(), item.canonical()];
                let mut pairs: Vec<_> = pairs.iter().map(joined).collect();
                pairs.sort();
                return [b"{", &pairs.concat().concat()[..], b"}"].concat();
            }
        }
        text.into_bytes()
    }
}

/// The source of a Lua function `put`, which appends a value to the table `out` in pieces.
/// [`Pieces`] restores the value. The first letter of each piece is its type.
pub(crate) const PUT: &str = "\
local out = {}
local function put(value)
  local kind = type(value)
  if kind == 'table' then
    out[#out + 1] = '{'
    for key, item in pairs(value) do put(key) put(item) end
    out[#out + 1] = '}'
  elseif kind == 'number' then out[#out + 1] = string.format('n%.17g', value)
  elseif kind == 'string' then out[#out + 1] = 's' .. value
  elseif kind == 'boolean' then out[#out + 1] = 'b' .. tostring(value)
  else out[#out + 1] = 'z' end
end
local function put_all(...)
  local all = {...}
  for index = 1, select('#', ...) do put(all[index]) end
  return out
end
";

/// A parser of the pieces that [`PUT`] writes.
pub(crate) struct Pieces<I: Iterator<Item = Vec<u8>>>(pub(crate) I);

impl<I: Iterator<Item = Vec<u8>>> Iterator for Pieces<I> {
    type Item = Value;

    fn next(&mut self) -> Option<Value> {
        let piece = self.0.next()?;
        let (kind, rest) = piece.split_first().expect("a letter");
        let text = || str::from_utf8(rest).expect("ASCII");
        match kind {
            b'z' => Some(Value::Nil),
            b'b' => Some(Value::Bool(text() == "true")),
            b'n' => Some(Value::Number(text().parse().expect("a number"))),
            b's' => Some(Value::Text(rest.to_vec())),
            b'{' => {
                let mut pairs = Vec::new();
                while let Some(key) = self.next() {
                    pairs.push((key, self.next().expect("a value of the key")));
                }
                Some(Value::Table(pairs))
            }
            // The end of a table.
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn canonical_bytes_ignore_the_order_of_a_table() {
        let pair = |key: &str, number| (Value::Text(key.into()), Value::Number(number));
        let table = |pairs| Value::Table(pairs).canonical();
        let ordered = table(vec![pair("a", 1.0), pair("b", -0.0)]);
        assert_eq!(ordered, table(vec![pair("b", 0.0), pair("a", 1.0)]));
        assert_ne!(ordered, table(vec![pair("b", 1.0), pair("a", 0.0)]));
    }
}
