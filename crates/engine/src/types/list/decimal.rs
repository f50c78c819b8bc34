//! Many integers as decimal texts: eight digits at a time.

use undercroft_memory::Fault;

use crate::structures::ranges::Ranges;

/// The most bytes that an integer's text has.
const TEXT_MAX: usize = 20;
/// Integers whose texts are gathered before they are copied to where they go.
pub(super) const GATHERED: usize = 32;
/// Four digits hold numbers below this.
const FOUR: u64 = 10_000;
/// Eight digits hold numbers below this.
const EIGHT: u64 = 100_000_000;
/// The text of eight zeros.
const ZEROS: u64 = 0x3030_3030_3030_3030;

/// The digits of a number below [`EIGHT`], one a byte, the first one lowest:
/// fours are split into twos, twos into ones, each for all of them at once.
#[inline(always)]
fn digits(number: u64) -> u64 {
    let fours = (number / FOUR) | ((number % FOUR) << 32);
    // Exact for what is below 10,000, and for what is below 100.
    let hundreds = ((fours * 10_486) >> 20) & 0x7f_0000_007f;
    let twos = hundreds | ((fours - hundreds * 100) << 16);
    let tens = ((twos * 103) >> 10) & 0xf_000f_000f_000f;
    tens | ((twos - tens * 10) << 8)
}

/// The digits of a number below [`FOUR`] in the same way.
#[inline(always)]
fn four_digits(number: u64) -> u64 {
    let hundreds = (number * 10_486) >> 20;
    let twos = hundreds | ((number - hundreds * 100) << 16);
    let tens = ((twos * 103) >> 10) & 0xf_000f;
    tens | ((twos - tens * 10) << 8)
}

/// Where the next text goes.
struct Texts {
    bytes: [u8; GATHERED * TEXT_MAX + 8],
    length: usize,
}

impl Texts {
    /// Eight bytes, of which those behind the first `length` are overwritten by
    /// what comes next.
    #[inline(always)]
    fn put(&mut self, bytes: u64, length: usize) {
        self.bytes[self.length..self.length + 8].copy_from_slice(&bytes.to_le_bytes());
        self.length += length;
    }

    /// A number below [`EIGHT`], without zeros in front.
    #[inline(always)]
    fn put_first(&mut self, number: u64) {
        let (digits, last) = if number < FOUR {
            (four_digits(number), 24)
        } else {
            (digits(number), 56)
        };
        // The last digit is shown in any case.
        let zeros = (digits | 1 << last).trailing_zeros() / 8;
        let length = (last as usize / 8 + 1) - zeros as usize;
        self.put((digits | ZEROS) >> (zeros * 8), length);
    }

    /// A number below [`EIGHT`], all eight digits of it.
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

/// Appends the texts of at most [`GATHERED`] integers to `out`, an item each.
///
/// # Errors
/// Where this process has no memory for them.
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
    fn every_number_of_digits_is_written_as_the_library_does() {
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
