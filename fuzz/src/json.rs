//! Fuzzes the scripts' `cjson` library. It must decode JSON to the same values as a second parser,
//! and both must decode the library's output to the same values.

use std::slice::from_ref;
use std::sync::LazyLock;

use serde_json::Value as Json;
use undercroft_commands::reply::Tree;

use crate::lua::{canonical, script, shortened, values};
use crate::values::{PUT, Value};

/// Pieces of JSON, and of extensions to JSON that only `cjson` accepts.
pub(crate) const TOKENS: &[&[u8]] = &[
    b"{",
    b"}",
    b"[",
    b"]",
    b",",
    b":",
    b"\"",
    b"\"a\":",
    b"[[[[[[[[",
    b"{\"k\":",
    b"null",
    b"true",
    b"false",
    b"-0",
    b"1e308",
    b"0.1",
    b"1E-7",
    b"\\u0000",
    b"\\ud83d\\ude00",
    b"\\ud7ff",
    b"\\ue000",
    b"\\n",
    b"\\\"",
    b"nan",
    b"Infinity",
    b"0x10",
    b" ",
];

static DECODED: LazyLock<String> = LazyLock::new(|| {
    format!(
        "{PUT} local ok, value = pcall(cjson.decode, ARGV[1]) \
         if not ok then return {{err = 'refused'}} end return put_all(value)"
    )
});

/// A script that encodes the decoded value. Encoding fails if the text contained a number that JSON
/// forbids.
const ENCODED: &str = "\
local ok, text = pcall(function(text) return cjson.encode(cjson.decode(text)) end, ARGV[1]) \
if not ok then return {err = 'refused'} end cjson.decode(text) return text";

/// Decodes a JSON text, and encodes the result again.
pub(crate) fn decode_and_encode(input: &[u8]) {
    let input = shortened(input);
    let decoded = values(&DECODED, &[input]);
    let encoded = script(ENCODED, &[input]);
    let Ok(json) = serde_json::from_slice::<Json>(input) else {
        return;
    };
    let expected = value(&json);
    let decoded = decoded.expect("it is JSON");
    assert_eq!(
        canonical(&decoded),
        canonical(from_ref(&expected)),
        "{json}"
    );
    let Some(Tree::Bulk(encoded)) = encoded else {
        panic!("{json} cannot be written");
    };
    let again: Json = serde_json::from_slice(&encoded).expect("what was written is JSON");
    assert!(are_near(&expected, &value(&again)), "{json} became {again}");
}

fn value(json: &Json) -> Value {
    match json {
        Json::Null => Value::Nil,
        Json::Bool(value) => Value::Bool(*value),
        Json::Number(number) => Value::Number(number.as_f64().expect("a number")),
        Json::String(text) => Value::Text(text.as_bytes().to_vec()),
        Json::Array(items) => {
            // Retain null items, because scripts see them as the value `cjson.null`.
            let keys = (1..).map(|index| Value::Number(f64::from(index)));
            Value::Table(keys.zip(items.iter().map(value)).collect())
        }
        Json::Object(fields) => {
            let pairs = fields.iter();
            let pairs = pairs.map(|(name, item)| (Value::Text(name.clone().into()), value(item)));
            Value::Table(pairs.collect())
        }
    }
}

/// Returns whether two values are equal, apart from numbers that encoding rounds to 14 digits.
fn are_near(left: &Value, right: &Value) -> bool {
    match (left, right) {
        (Value::Number(left), Value::Number(right)) => {
            (left - right).abs() <= left.abs().max(right.abs()) * 1e-13
        }
        (Value::Table(left), Value::Table(right)) => {
            let ordered = |pairs: &[(Value, Value)]| {
                let mut pairs = pairs.to_vec();
                pairs.sort_by_cached_key(|(key, _)| key.canonical());
                pairs
            };
            let pairs = ordered(left).into_iter().zip(ordered(right));
            let are_near = |((key, item), (other_key, other)): ((Value, Value), _)| {
                key == other_key && are_near(&item, &other)
            };
            left.len() == right.len() && { pairs }.all(are_near)
        }
        _ => left == right,
    }
}
