//! Fuzzes the scripts' `struct` library. It must unpack the same values as a simple parser, and
//! pack them into the original bytes.

use std::sync::LazyLock;

use undercroft_commands::reply::Tree;

use crate::lua::{canonical, script, shortened, values};
use crate::values::{PUT, Value};

/// Pieces of inputs: format letters, wrong sizes, and the zero byte that separates the format from
/// the data.
pub(crate) const TOKENS: &[&[u8]] = &[
    b"\0",
    b"<",
    b">",
    b"!",
    b"!4",
    b"!3",
    b"b",
    b"B",
    b"h",
    b"H",
    b"i",
    b"I",
    b"i3",
    b"I7",
    b"i32",
    b"i33",
    b"i0",
    b"l",
    b"L",
    b"T",
    b"f",
    b"d",
    b"x",
    b"c0",
    b"Bc0",
    b"c5",
    b"c2147483647",
    b"c99999999999",
    b"s",
    b" ",
    b"\xff\xff\xff\xff",
    b"\x00\x00\x80\x7f",
    b"abc\0",
];

/// The size, in bytes, of the widest integer.
const INTEGER_MAX: u64 = 32;
/// The largest number that a format can contain.
const NUMBER_MAX: u64 = i32::MAX as u64;
/// The bound up to which a Lua number represents all integers exactly.
const EXACT_MAX: u64 = 1 << 53;

static UNPACKED: LazyLock<String> = LazyLock::new(|| {
    format!(
        "{PUT} local function all(ok, ...) if ok then return put_all(...) end return {{err = 'refused'}} end \
         return all(pcall(struct.unpack, ARGV[1], ARGV[2]))"
    )
});

const PACKED: &str = "\
local found = {struct.unpack(ARGV[1], ARGV[2])} found[#found] = nil \
return struct.pack(ARGV[1], unpack(found))";

/// Unpacks the data according to the format, and packs the values again.
pub(crate) fn unpack_and_pack(input: &[u8]) {
    let input = shortened(input);
    let end = input.iter().position(|byte| *byte == 0);
    let (format, data) = input.split_at(end.unwrap_or(input.len()));
    let data = data.get(1..).unwrap_or_default();
    let unpacked = values(&UNPACKED, &[format, data]);
    let mut reader = Reader::new(format, data);
    let is_read = reader.read().is_some();
    if reader.is_lost {
        return;
    }
    let expected = is_read.then_some(&reader.found[..]);
    let [read, expected] = [unpacked.as_deref(), expected].map(|all| all.map(canonical));
    assert_eq!(read, expected);
    if let (true, Some(written)) = (is_read, reader.written) {
        let packed = script(PACKED, &[format, data]);
        assert_eq!(packed, Some(Tree::Bulk(written)), "written again");
    }
}

struct Reader<'a> {
    format: &'a [u8],
    data: &'a [u8],
    at: usize,
    alignment: u64,
    is_big: bool,
    found: Vec<Value>,
    /// The bytes that packing must yield, or `None` if they differ from the input.
    written: Option<Vec<u8>>,
    /// Whether the format uses a string as a length, which Lua accepts but this parser does not.
    is_lost: bool,
}

impl<'a> Reader<'a> {
    fn new(format: &'a [u8], data: &'a [u8]) -> Self {
        Reader {
            format,
            data,
            at: 0,
            alignment: 1,
            is_big: false,
            found: Vec::new(),
            written: Some(Vec::new()),
            is_lost: false,
        }
    }

    /// Parses all values and the end position, or returns `None` if the input is malformed.
    fn read(&mut self) -> Option<()> {
        while let Some((letter, format)) = self.format.split_first() {
            self.format = format;
            let width = match letter {
                b'b' | b'B' | b'x' => 1,
                b'h' | b'H' => 2,
                b'f' => 4,
                b'l' | b'L' | b'T' | b'd' => 8,
                b'i' | b'I' => self.number(4)?,
                b'c' => self.number(1)?,
                _ => 0,
            };
            if matches!(letter, b'i' | b'I') && width > INTEGER_MAX {
                return None;
            }
            if *letter != b'c' {
                self.skip(width);
            }
            // The position must be valid even if the letter describes no value.
            self.here(width)?;
            self.one(*letter, width)?;
        }
        self.found.push(Value::Number(self.at as f64 + 1.0));
        Some(())
    }

    /// Parses the value that one format letter describes.
    fn one(&mut self, letter: u8, width: u64) -> Option<()> {
        match letter {
            b'b' | b'h' | b'l' | b'i' => self.integer(width, true)?,
            b'B' | b'H' | b'L' | b'T' | b'I' => self.integer(width, false)?,
            b'x' => {
                self.take(1)?;
                self.write(&[0]);
            }
            b'f' | b'd' => self.float(width)?,
            b'c' if width == 0 => self.counted()?,
            b'c' => self.text(width)?,
            b's' => {
                let length = self.data[self.at..].iter().position(|byte| *byte == 0)?;
                self.text(length as u64)?;
                self.take(1)?;
                self.write(&[0]);
            }
            b' ' => {}
            b'<' => self.is_big = false,
            b'>' => self.is_big = true,
            b'!' => {
                self.alignment = self.number(8)?;
                if !self.alignment.is_power_of_two() {
                    return None;
                }
            }
            _ => return None,
        }
        Some(())
    }

    /// Parses a number in the format, or returns `default` if there is none.
    fn number(&mut self, default: u64) -> Option<u64> {
        let digits = self.format.iter().take_while(|byte| byte.is_ascii_digit());
        let (digits, format) = self.format.split_at(digits.count());
        self.format = format;
        if digits.is_empty() {
            return Some(default);
        }
        let add = |number: u64, digit: &u8| {
            let number = number * 10 + u64::from(digit - b'0');
            (number <= NUMBER_MAX).then_some(number)
        };
        digits.iter().try_fold(0, add)
    }

    /// Skips the padding bytes before an aligned value.
    fn skip(&mut self, width: u64) {
        let width = width.min(self.alignment);
        if width > 0 {
            let beyond = self.at as u64 & (width - 1);
            let gap = (width - beyond) & (width - 1);
            self.at += gap as usize;
            self.write(&[0; 64][..gap as usize]);
        }
    }

    fn here(&self, width: u64) -> Option<&'a [u8]> {
        self.data.get(self.at..)?.get(..width.try_into().ok()?)
    }

    fn take(&mut self, width: u64) -> Option<&'a [u8]> {
        let taken = self.here(width)?;
        self.at += taken.len();
        Some(taken)
    }

    fn write(&mut self, bytes: &[u8]) {
        if let Some(written) = &mut self.written {
            written.extend_from_slice(bytes);
        }
    }

    /// Parses a value of `width` bytes, and returns its low eight bytes in little-endian order.
    fn low_bytes(&mut self, width: u64) -> Option<[u8; 8]> {
        let mut bytes = self.take(width)?.to_vec();
        if self.is_big {
            bytes.reverse();
        }
        let mut low = [0; 8];
        let count = bytes.len().min(8);
        low[..count].copy_from_slice(&bytes[..count]);
        let mut again = vec![0; bytes.len()];
        again[..count].copy_from_slice(&low[..count]);
        if self.is_big {
            again.reverse();
        }
        self.write(&again);
        Some(low)
    }

    fn integer(&mut self, width: u64, is_signed: bool) -> Option<()> {
        let bits = u64::from_le_bytes(self.low_bytes(width)?);
        let (number, size) = if is_signed {
            let unused = if (1..8).contains(&width) {
                64 - 8 * width
            } else {
                0
            };
            let number = (bits << unused).cast_signed() >> unused;
            (number as f64, number.unsigned_abs())
        } else {
            (bits as f64, bits)
        };
        if size > EXACT_MAX {
            self.written = None;
        }
        self.found.push(Value::Number(number));
        Some(())
    }

    fn float(&mut self, width: u64) -> Option<()> {
        let low = self.low_bytes(width)?;
        let number = match width {
            4 => f64::from(f32::from_bits(u64::from_le_bytes(low) as u32)),
            _ => f64::from_le_bytes(low),
        };
        if number.is_nan() {
            self.written = None;
        }
        self.found.push(Value::Number(number));
        Some(())
    }

    fn text(&mut self, width: u64) -> Option<()> {
        let text = self.take(width)?;
        self.write(text);
        self.found.push(Value::Text(text.to_vec()));
        Some(())
    }

    /// Parses a string whose length is the previously parsed value. The string replaces the length
    /// in the list of values.
    fn counted(&mut self) -> Option<()> {
        // Packing does not write the length, so the bytes differ from the input.
        self.written = None;
        let length = match self.found.pop()? {
            Value::Number(number) if number.is_finite() => number,
            _ => {
                self.is_lost = true;
                return None;
            }
        };
        if length < 0.0 && length.trunc() != 0.0 {
            return None;
        }
        self.text(length as u64)
    }
}
