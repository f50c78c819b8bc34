//! Fuzzes the scripts' `cmsgpack` library. It must unpack the same values as a simple parser, and
//! both must unpack the library's output to the same values.

use std::sync::LazyLock;

use undercroft_commands::reply::Tree;

use crate::lua::{canonical, script, shortened, values};
use crate::values::{PUT, Value};

/// Pieces of inputs: the type bytes of every kind of value, and wrong lengths.
pub(crate) const TOKENS: &[&[u8]] = &[
    b"\x00",
    b"\x7f",
    b"\x80",
    b"\x81\xa1k",
    b"\x90",
    b"\x91",
    b"\x92\xc0",
    b"\x91\x91\x91\x91",
    b"\xa0",
    b"\xa3abc",
    b"\xc0",
    b"\xc1",
    b"\xc2",
    b"\xc3",
    b"\xca\x7f\xc0\x00\x00",
    b"\xcb\x3f\xf8\x00\x00\x00\x00\x00\x00",
    b"\xcc\xff",
    b"\xcd\x01\x00",
    b"\xce\x00\x01\x00\x00",
    b"\xcf\xff\xff\xff\xff\xff\xff\xff\xff",
    b"\xd0\x80",
    b"\xd1\x80\x00",
    b"\xd2\x80\x00\x00\x00",
    b"\xd3\x80\x00\x00\x00\x00\x00\x00\x00",
    b"\xd9\x01",
    b"\xda\xff\xff",
    b"\xdb\xff\xff\xff\xff",
    b"\xdc\x00\x10",
    b"\xdd\xff\xff\xff\xff",
    b"\xde\x00\x10",
    b"\xdf\xff\xff\xff\xff",
    b"\xff",
];

/// The maximum nesting depth of unpacked arrays and maps.
const LEVELS_MAX: usize = 1000;
/// The maximum nesting depth of packed tables.
const PACKED_LEVELS: usize = 16;

static UNPACKED: LazyLock<String> = LazyLock::new(|| {
    format!(
        "{PUT} local function all(ok, ...) if ok then return put_all(...) end return {{err = 'refused'}} end \
         return all(pcall(cmsgpack.unpack, ARGV[1]))"
    )
});

/// A script that unpacks the values of the input one by one.
static ONE_BY_ONE: LazyLock<String> = LazyLock::new(|| {
    format!(
        "{PUT} local at = 0 while at >= 0 and at < #ARGV[1] do \
         local ok, next, value = pcall(cmsgpack.unpack_one, ARGV[1], at) \
         if not ok then return {{err = 'refused'}} end at = next put(value) end return out"
    )
});

const PACKED: &str = "return cmsgpack.pack(cmsgpack.unpack(ARGV[1]))";

/// Unpacks the values of the input, and packs them again.
pub(crate) fn unpack_and_pack(input: &[u8]) {
    let input = shortened(input);
    let expected = Reader { rest: input }.all();
    let unpacked = values(&UNPACKED, &[input]);
    let [read, expected_read] = [&unpacked, &expected].map(|all| all.as_deref().map(canonical));
    assert_eq!(read, expected_read);
    let one_by_one = values(&ONE_BY_ONE, &[input]);
    assert_eq!(one_by_one.as_deref().map(canonical), read, "one by one");
    let Some(expected) = expected else { return };
    let depth = expected.iter().map(Value::depth).max();
    // Skip values that are nested too deeply to pack, and inputs without values.
    if depth.is_none_or(|depth| depth > PACKED_LEVELS) {
        return;
    }
    let Some(Tree::Bulk(packed)) = script(PACKED, &[input]) else {
        panic!("values that are not written");
    };
    let again = Reader { rest: &packed }
        .all()
        .expect("what was written can be read");
    assert_eq!(canonical(&again), canonical(&expected), "written again");
}

struct Reader<'a> {
    rest: &'a [u8],
}

impl Reader<'_> {
    /// Parses all values, or returns `None` if the input is malformed.
    fn all(mut self) -> Option<Vec<Value>> {
        let mut all = Vec::new();
        while !self.rest.is_empty() {
            all.push(self.value(0)?);
        }
        Some(all)
    }

    fn take(&mut self, length: usize) -> Option<&[u8]> {
        let (taken, rest) = self.rest.split_at_checked(length)?;
        self.rest = rest;
        Some(taken)
    }

    /// Parses an unsigned big-endian number of `bytes` bytes.
    fn unsigned(&mut self, bytes: usize) -> Option<u64> {
        let taken = self.take(bytes)?;
        Some(
            taken
                .iter()
                .fold(0, |number, byte| number << 8 | u64::from(*byte)),
        )
    }

    /// Parses a signed big-endian number of `bytes` bytes.
    fn signed(&mut self, bytes: usize) -> Option<i64> {
        let unused = 64 - 8 * bytes as u32;
        Some((self.unsigned(bytes)? << unused).cast_signed() >> unused)
    }

    fn value(&mut self, level: usize) -> Option<Value> {
        if level > LEVELS_MAX {
            return None;
        }
        let mark = self.take(1)?[0];
        let number = match mark {
            0x00..=0x7f => f64::from(mark),
            0xe0..=0xff => f64::from(mark.cast_signed()),
            0xca => f64::from(f32::from_bits(self.unsigned(4)? as u32)),
            0xcb => f64::from_bits(self.unsigned(8)?),
            0xcc => self.unsigned(1)? as f64,
            0xcd => self.unsigned(2)? as f64,
            0xce => self.unsigned(4)? as f64,
            // As in Redis, unsigned integers of 2^63 and above become negative.
            0xcf => self.unsigned(8)?.cast_signed() as f64,
            0xd0 => self.signed(1)? as f64,
            0xd1 => self.signed(2)? as f64,
            0xd2 => self.signed(4)? as f64,
            0xd3 => self.signed(8)? as f64,
            0xc0 => return Some(Value::Nil),
            0xc2 => return Some(Value::Bool(false)),
            0xc3 => return Some(Value::Bool(true)),
            0xa0..=0xbf => return self.text(usize::from(mark - 0xa0)),
            0xd9 => {
                return self
                    .unsigned(1)
                    .and_then(|length| self.text(length as usize));
            }
            0xda => {
                return self
                    .unsigned(2)
                    .and_then(|length| self.text(length as usize));
            }
            0xdb => {
                return self
                    .unsigned(4)
                    .and_then(|length| self.text(length as usize));
            }
            0x90..=0x9f => return self.array(u64::from(mark - 0x90), level),
            0xdc => {
                return self
                    .unsigned(2)
                    .and_then(|length| self.array(length, level));
            }
            0xdd => {
                return self
                    .unsigned(4)
                    .and_then(|length| self.array(length, level));
            }
            0x80..=0x8f => return self.map(u64::from(mark - 0x80), level),
            0xde => return self.unsigned(2).and_then(|length| self.map(length, level)),
            0xdf => return self.unsigned(4).and_then(|length| self.map(length, level)),
            0xc1 | 0xc4..=0xc9 | 0xd4..=0xd8 => return None,
        };
        Some(Value::Number(number))
    }

    fn text(&mut self, length: usize) -> Option<Value> {
        self.take(length).map(|text| Value::Text(text.to_vec()))
    }

    fn array(&mut self, length: u64, level: usize) -> Option<Value> {
        let items = (0..length).map(|_| self.value(level + 1));
        items.collect::<Option<_>>().map(Value::array)
    }

    fn map(&mut self, length: u64, level: usize) -> Option<Value> {
        let mut pairs: Vec<(Value, Value)> = Vec::new();
        for _ in 0..length {
            let (key, item) = (self.value(level + 1)?, self.value(level + 1)?);
            match &key {
                Value::Nil => return None,
                Value::Number(number) if number.is_nan() => return None,
                // Two tables are distinct keys even if their contents are equal.
                Value::Table(_) => {}
                _ => pairs.retain(|(other, _)| *other != key),
            }
            if item != Value::Nil {
                pairs.push((key, item));
            }
        }
        Some(Value::Table(pairs))
    }
}
