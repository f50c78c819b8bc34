//! LZF, the compression in Redis' DUMP payloads.
//!
//! A stream is a sequence of instructions. A byte `n` below 32 is followed by `n + 1` literal
//! bytes. Any other byte starts a copy of bytes that were already written. Its three high bits are
//! the length of the copy minus two, and if they are all set, the next byte is added to the length.
//! Its five low bits and the following byte are the distance of the copy minus one.

use std::cell::Cell;

use undercroft_memory::ThreadCached;

/// The maximum number of literal bytes in one instruction.
const LONGEST_LITERAL: usize = 32;
/// The maximum distance in bytes from the source of a copy to its target.
const FURTHEST: usize = 1 << 13;
/// The maximum length of a copy in bytes.
const LONGEST_COPY: usize = (1 << 8) + (1 << 3);
/// The maximum number of output bytes for each byte of a stream, reached by the longest copy, which
/// is encoded in three bytes.
const HIGHEST_RATIO: usize = LONGEST_COPY / 3;
const TABLE_BITS: u32 = 16;

/// Compresses `data` to at most `limit` bytes. Returns `None` if the result does not fit.
///
/// The compressor finds the same matches as liblzf as configured in Redis, so the output is
/// identical to Redis' output. O(n) time. Each thread that compresses keeps a table of 256 KiB.
pub(super) fn compress(data: &[u8], limit: usize) -> Option<Vec<u8>> {
    thread_local! {
        static POSITIONS: Cell<Positions> = Cell::default();
    }
    let mut positions = POSITIONS.take_cached();
    let compressed = positions
        .begin(data.len())
        .and_then(|()| compress_with(&mut positions, data, limit));
    POSITIONS.put_back(positions);
    compressed
}

/// The last position of each hash. Clearing the table for each of many short strings would be slow.
/// Positions therefore keep increasing from string to string, and positions before the current
/// string are ignored.
#[derive(Default)]
struct Positions {
    table: Vec<u32>,
    /// The offset that is added to positions in the current string. The first position is stored as
    /// `base + 1`, because 0 means that there is no position.
    base: u32,
    /// The value of `base` for the next string.
    next: u32,
}

impl Positions {
    /// Starts a new string of `length` bytes. Like liblzf, returns `None` if the string's positions
    /// do not fit in 32 bits.
    fn begin(&mut self, length: usize) -> Option<()> {
        let length = u32::try_from(length).ok()?.checked_add(1)?;
        self.base = self.next;
        match self.base.checked_add(length) {
            Some(next) if !self.table.is_empty() => self.next = next,
            _ => {
                self.table.clear();
                self.table.resize(1 << TABLE_BITS, 0);
                (self.base, self.next) = (0, length);
            }
        }
        Some(())
    }

    /// Returns the last position of a hash plus one, or 0 if the hash has no position in this
    /// string.
    fn get(&self, hash: usize) -> usize {
        self.table[hash].saturating_sub(self.base) as usize
    }

    fn set(&mut self, hash: usize, position: usize) {
        self.table[hash] = self.base + position as u32 + 1;
    }
}

fn compress_with(positions: &mut Positions, data: &[u8], limit: usize) -> Option<Vec<u8>> {
    let mut out = Vec::with_capacity(limit.min(data.len()));
    let mut literal = 0;
    let mut at = 0;
    let end = data.len();
    while at + 2 < end {
        let hash = slot(&data[at..]);
        let previous = positions.get(hash);
        positions.set(hash, at);
        // As in liblzf, position 0 is never used as the source of a copy.
        let source = previous.wrapping_sub(1);
        if previous < 2 || at - source > FURTHEST || data[source..source + 3] != data[at..at + 3] {
            // liblzf reserves the length byte of a run when the run starts, so it gives up one byte
            // before the limit.
            if out.len() + (at - literal) + 1 >= limit {
                return None;
            }
            at += 1;
            if at - literal == LONGEST_LITERAL {
                flush(&mut out, &data[literal..at]);
                literal = at;
            }
            continue;
        }
        let most = (end - at - 2).min(LONGEST_COPY);
        let length = copy_length(&data[source..], &data[at..], most);
        let open = usize::from(at > literal);
        if out.len() + (at - literal) + open + 4 >= limit {
            return None;
        }
        flush(&mut out, &data[literal..at]);
        let distance = at - source - 1;
        let coded = length - 2;
        let high = (distance >> 8) as u8;
        if coded < 7 {
            out.push(high | (coded as u8) << 5);
        } else {
            out.extend([high | 7 << 5, (coded - 7) as u8]);
        }
        out.push(distance as u8);
        at += length;
        literal = at;
        if at + 2 >= end {
            break;
        }
        // Record the last two positions inside this match, so that later matches can use them.
        for position in [at - 2, at - 1] {
            positions.set(slot(&data[position..]), position);
        }
    }
    if out.len() + (at - literal) + 4 > limit {
        return None;
    }
    for run in data[literal..].chunks(LONGEST_LITERAL) {
        flush(&mut out, run);
    }
    Some(out)
}

/// Returns liblzf's hash of the next three bytes, computed as in liblzf's faster variant.
fn slot(data: &[u8]) -> usize {
    let word = u32::from(data[0]) << 16 | u32::from(data[1]) << 8 | u32::from(data[2]);
    let mixed = (word >> (24 - TABLE_BITS)).wrapping_sub(word.wrapping_mul(5));
    (mixed & ((1 << TABLE_BITS) - 1)) as usize
}

/// Returns the number of equal bytes at the start of `source` and `target`, of which the first
/// three are known to be equal.
///
/// If enough bytes are left, liblzf compares sixteen bytes without checking the limit, so it can
/// exceed a limit of 17 or 18. It never reads past the end of the data, because `most` is two less
/// than the number of remaining bytes.
fn copy_length(source: &[u8], target: &[u8], most: usize) -> usize {
    let most = most.max(if most > 16 { 19 } else { 3 });
    let same = source
        .iter()
        .zip(target)
        .take(most)
        .skip(3)
        .take_while(|(a, b)| a == b)
        .count();
    3 + same
}

/// Writes a run of at most [`LONGEST_LITERAL`] literal bytes.
fn flush(out: &mut Vec<u8>, run: &[u8]) {
    if let Some(last) = run.len().checked_sub(1) {
        out.push(last as u8);
        out.extend(run);
    }
}

/// Decompresses the output of [`compress`] and appends it to `out`. Returns `None` if the stream is
/// malformed or does not decompress to exactly `length` bytes; `out` then ends with anything.
///
/// Safe on untrusted input: a `length` that the stream cannot produce is rejected before memory is
/// allocated.
pub(super) fn decompress(stream: &[u8], length: usize, out: &mut Vec<u8>) -> Option<()> {
    if length.div_ceil(HIGHEST_RATIO) > stream.len() {
        return None;
    }
    let first = out.len();
    let end = first.checked_add(length)?;
    out.reserve(length);
    let mut rest = stream;
    while let [control, after @ ..] = rest {
        let control = usize::from(*control);
        if control < LONGEST_LITERAL {
            let (run, after) = after.split_at_checked(control + 1)?;
            if out.len() + run.len() > end {
                return None;
            }
            out.extend_from_slice(run);
            rest = after;
            continue;
        }
        let (mut count, after) = match (control >> 5, after) {
            (7, [more, after @ ..]) => (9 + usize::from(*more), after),
            (7, []) => return None,
            (count, after) => (count + 2, after),
        };
        let (low, after) = after.split_first()?;
        let distance = ((control & 31) << 8 | usize::from(*low)) + 1;
        let start = out.len().checked_sub(distance).filter(|at| *at >= first)?;
        if out.len() + count > end {
            return None;
        }
        // A copy can overlap its own output, which then repeats: each round doubles what there is.
        while count > 0 {
            let copied = count.min(out.len() - start);
            out.extend_from_within(start..start + copied);
            count -= copied;
        }
        rest = after;
    }
    (out.len() == end).then_some(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Decompresses after other bytes, which a copy must not reach.
    fn decompress(stream: &[u8], length: usize) -> Option<Vec<u8>> {
        let mut out = b"earlier".to_vec();
        super::decompress(stream, length, &mut out)?;
        assert!(out.starts_with(b"earlier"));
        Some(out.split_off(7))
    }

    #[test]
    fn compressed_data_round_trips() {
        let seed = fastrand::u64(..);
        println!("seed {seed}");
        let mut random = fastrand::Rng::with_seed(seed);
        let mut smaller = 0;
        for _ in 0..2_000 {
            let letters = random.u8(1..=20);
            let data: Vec<u8> = (0..random.usize(..3_000))
                .map(|_| random.u8(..letters))
                .collect();
            if let Some(stream) = compress(&data, data.len()) {
                assert_eq!(decompress(&stream, data.len()), Some(data));
                smaller += 1;
            }
        }
        assert!(smaller > 1_000, "{smaller}");
    }

    #[test]
    fn repeated_bytes_compress_in_linear_time() {
        // Quadratic time would take hours for this input.
        let zeros = vec![0; 64 << 20];
        let stream = compress(&zeros, zeros.len()).expect("it is shorter");
        assert!(stream.len() < zeros.len() / LONGEST_COPY * 4);
        assert_eq!(decompress(&stream, zeros.len()), Some(zeros));
    }

    #[test]
    fn earlier_strings_do_not_affect_the_compressed_output() {
        let mut random = fastrand::Rng::with_seed(3);
        let mut used = Positions::default();
        for round in 0..200 {
            // Force the 32-bit positions to overflow every 50 rounds.
            if round % 50 == 49 {
                used.next = u32::MAX - 700;
            }
            let data: Vec<u8> = (0..random.usize(30..1500))
                .map(|_| random.u8(..6))
                .collect();
            let mut fresh = Positions::default();
            let [one, other] = [&mut used, &mut fresh].map(|positions| {
                positions.begin(data.len()).expect("a short string");
                compress_with(positions, &data, data.len())
            });
            assert_eq!(one, other, "round {round}");
        }
    }

    #[test]
    fn malformed_streams_are_refused() {
        assert_eq!(
            decompress(&[0xff, 0xff, 0xff], usize::MAX),
            None,
            "length beyond any stream of three bytes"
        );
        assert_eq!(decompress(&[1, b'a'], 2), None, "literal cut short");
        assert_eq!(
            decompress(&[0, b'a', 0x20, 1], 4),
            None,
            "reaches before the start"
        );
        assert_eq!(decompress(&[0, b'a', 0xe0], 12), None, "copy cut short");
        assert_eq!(decompress(&[0, b'a', 0x20, 0], 3), None, "longer than said");
        assert_eq!(
            decompress(&[0, b'a', 0x20, 0], 4).as_deref(),
            Some(&b"aaaa"[..])
        );
        let mut random = fastrand::Rng::with_seed(1);
        for _ in 0..20_000 {
            let stream: Vec<u8> = (0..random.usize(..30)).map(|_| random.u8(..)).collect();
            let length = random.usize(..600);
            assert!(decompress(&stream, length).is_none_or(|out| out.len() == length));
        }
    }
}
