//! Formats many integers as decimal text, eight digits at a time.

use undercroft_memory::Fault;

use crate::structures::ranges::Ranges;

/// The maximum length of an `i64` in decimal, in bytes.
const TEXT_MAX: usize = 20;
/// The number of integers that are formatted in a buffer before the buffer is copied to the output.
pub(super) const GATHERED: usize = 32;
/// The exclusive upper bound of numbers with at most four digits.
const FOUR: u64 = 10_000;
/// The exclusive upper bound of numbers with at most eight digits.
const EIGHT: u64 = 100_000_000;
/// The text `00000000` as a word.
const ZEROS: u64 = 0x3030_3030_3030_3030;

/// Returns the digits of a number below [`EIGHT`], one per byte, with the first digit in the lowest
/// byte. The first division splits the number into groups of four digits. Each further step splits
/// every group in half.
#[inline(always)]
fn digits(number: u64) -> u64 {
    let fours = (number / FOUR) | ((number % FOUR) << 32);
    // A multiplication and a shift replace each division. The results are exact when a number below
    // 10,000 is divided by 100, and when a number below 100 is divided by 10.
    let hundreds = ((fours * 10_486) >> 20) & 0x7f_0000_007f;
    let twos = hundreds | ((fours - hundreds * 100) << 16);
    let tens = ((twos * 103) >> 10) & 0xf_000f_000f_000f;
    tens | ((twos - tens * 10) << 8)
}

/// Returns the digits of a number below [`FOUR`], one per byte, with the first digit in the lowest
/// byte.
#[inline(always)]
fn four_digits(number: u64) -> u64 {
    let hundreds = (number * 10_486) >> 20;
    let twos = hundreds | ((number - hundreds * 100) << 16);
    let tens = ((twos * 103) >> 10) & 0xf_000f;
    tens | ((twos - tens * 10) << 8)
}

/// A buffer for the texts of up to [`GATHERED`] integers.
struct Texts {
    bytes: [u8; GATHERED * TEXT_MAX + 8],
    length: usize,
}

impl Texts {
    /// Writes eight bytes, of which only the first `length` bytes count. The next write overwrites
    /// the remaining bytes.
    #[inline(always)]
    fn put(&mut self, bytes: u64, length: usize) {
        self.bytes[self.length..self.length + 8].copy_from_slice(&bytes.to_le_bytes());
        self.length += length;
    }

    /// Writes a number below [`EIGHT`] without leading zeros.
    #[inline(always)]
    fn put_first(&mut self, number: u64) {
        let (digits, last) = if number < FOUR {
            (four_digits(number), 24)
        } else {
            (digits(number), 56)
        };
        // Treat the last digit as nonzero, so that the number 0 keeps one digit.
        let zeros = (digits | 1 << last).trailing_zeros() / 8;
        let length = (last as usize / 8 + 1) - zeros as usize;
        self.put((digits | ZEROS) >> (zeros * 8), length);
    }

    /// Writes a number below [`EIGHT`] as exactly eight digits.
    #[inline(always)]
    fn put_next(&mut self, number: u64) {
        self.put(digits(number) | ZEROS, 8);
    }

    #[inline(always)]
    fn put_integer(&mut self, integer: i64) {
        if integer < 0 {
            self.put(b'-'.into(), 1);
        }
        let number = integer.unsigned_abs();
        if number < EIGHT {
            self.put_first(number);
        } else if number < EIGHT * EIGHT {
            self.put_first(number / EIGHT);
            self.put_next(number % EIGHT);
        } else {
            self.put_first(number / EIGHT / EIGHT);
            self.put_next(number / EIGHT % EIGHT);
            self.put_next(number % EIGHT);
        }
    }
}

/// Appends the decimal texts of at most [`GATHERED`] integers to `out`, one item per integer.
///
/// # Errors
/// Fails if this process cannot allocate memory for the texts.
#[inline]
pub(super) fn append_all(
    integers: impl Iterator<Item = i64>,
    out: &mut Ranges,
) -> Result<(), Fault> {
    out.reserve(GATHERED, GATHERED * TEXT_MAX)?;
    let mut texts = Texts {
        bytes: [0; GATHERED * TEXT_MAX + 8],
        length: 0,
    };
    let base = out.bytes.len();
    out.ends.extend(integers.map(|integer| {
        texts.put_integer(integer);
        base + texts.length
    }));
    out.bytes.extend_from_slice(&texts.bytes[..texts.length]);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(integers: &[i64]) -> Vec<String> {
        let mut out = Ranges::new();
        out.push(b"before");
        for some in integers.chunks(GATHERED) {
            append_all(some.iter().copied(), &mut out).expect("memory");
        }
        let text = |item: &[u8]| String::from_utf8(item.to_vec()).expect("digits");
        out.iter().skip(1).map(text).collect()
    }

    #[test]
    fn integers_of_every_length_are_formatted_like_the_standard_library() {
        let mut integers = vec![0, i64::MIN, i64::MAX];
        let mut power = 1_i64;
        for _ in 0..19 {
            integers.extend([power - 1, power, power + 1, power.wrapping_mul(9) + 7]);
            power = power.wrapping_mul(10);
        }
        integers.extend((0..20_000).map(|number| number * 7_919 % 100_000_000));
        integers.extend((0..64).map(|shift| i64::MAX >> shift));
        integers.extend(integers.clone().iter().map(|number| number.wrapping_neg()));
        let expected: Vec<String> = integers.iter().map(i64::to_string).collect();
        assert_eq!(texts(&integers), expected);
    }
}
