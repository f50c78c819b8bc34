//! Implements HyperLogLogs in Redis' string format: 16,384 registers of six bits, in sparse or
//! dense encoding.
//!
//! ```text
//! "HYLL" | encoding | 3 bytes unused | cached count, 8 bytes, last bit set if invalid | registers
//!
//! dense:  registers of six bits, the first in the low bits of the first byte
//! sparse: 00nnnnnn           n+1 registers that are 0
//!         01nnnnnn nnnnnnnn  n+1 registers that are 0, with a 14-bit n
//!         1vvvvvnn           n+1 registers that are v+1
//! ```
//!
//! The estimator is Otmar Ertl's ("New cardinality estimation algorithms for HyperLogLog sketches",
//! 2017), and the hash function is MurmurHash64A. Sparse runs are split and joined as in Redis, so
//! the resulting bytes are identical.

/// The number of hash bits that select a register.
const INDEX_BITS: u32 = 14;
/// The number of registers.
pub(crate) const REGISTERS: usize = 1 << INDEX_BITS;
/// The number of hash bits whose trailing zeros are counted.
const COUNTED_BITS: u32 = 64 - INDEX_BITS;
/// The number of bits per register.
const REGISTER_BITS: usize = 6;
/// The size in bytes of the header that precedes the registers.
pub(crate) const HEADER: usize = 16;
/// The size in bytes of a densely encoded value, including the header.
pub(crate) const DENSE_SIZE: usize = HEADER + REGISTERS * REGISTER_BITS / 8;
/// The offset in the header of the byte that specifies the encoding.
const ENCODING: usize = 4;
/// The offset in the header of the cached count.
const COUNT: usize = 8;
/// The bit that marks the cached count as invalid, in the last byte of the count.
const VOID: u8 = 0x80;
/// The maximum length of a run of zeros that is encoded in one byte.
const ZERO_MAX: usize = 64;
/// The maximum register value that a sparse run can store.
const VALUE_MAX: u8 = 32;
/// The maximum number of registers in a nonzero run.
const VALUE_RUN_MAX: usize = 4;
/// The number of runs to examine when joining neighboring runs of equal value.
const JOINED_RUNS: usize = 5;

/// The encoding of the registers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Encoding {
    /// Each register occupies six bits.
    Dense,
    /// The registers are encoded as runs of equal values.
    Sparse,
}

impl Encoding {
    /// Returns the name that PFDEBUG uses for the encoding.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Encoding::Dense => "dense",
            Encoding::Sparse => "sparse",
        }
    }
}

/// The error for a sparse value whose runs do not cover all registers exactly.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Corrupt;

/// Returns an empty HyperLogLog in sparse encoding.
pub(crate) fn new() -> Vec<u8> {
    let mut value = b"HYLL\x01".to_vec();
    value.resize(HEADER, 0);
    push_zeros(&mut value, REGISTERS);
    value
}

/// Returns the encoding, or `None` if the header does not belong to a HyperLogLog.
pub(crate) fn encoding(value: &[u8]) -> Option<Encoding> {
    encoding_of(value, value.len() as u64)
}

/// Returns the encoding of a value of `length` bytes whose first bytes are `start`, or `None` if
/// the header is invalid. `start` must contain at least [`HEADER`] bytes.
pub(crate) fn encoding_of(start: &[u8], length: u64) -> Option<Encoding> {
    match start.get(..HEADER)? {
        [b'H', b'Y', b'L', b'L', 0, ..] if length == DENSE_SIZE as u64 => Some(Encoding::Dense),
        [b'H', b'Y', b'L', b'L', 1, ..] => Some(Encoding::Sparse),
        _ => None,
    }
}

fn is_sparse(value: &[u8]) -> bool {
    value[ENCODING] != 0
}

/// Returns the cached count, or `None` if it is invalid.
pub(crate) fn cached_count(value: &[u8]) -> Option<u64> {
    let bytes: [u8; 8] = value[COUNT..HEADER].try_into().ok()?;
    (bytes[7] & VOID == 0).then(|| u64::from_le_bytes(bytes))
}

/// Stores a count in the header's cache.
pub(crate) fn cache_count(value: &mut [u8], count: u64) {
    value[COUNT..HEADER].copy_from_slice(&count.to_le_bytes());
}

/// Invalidates the cached count.
pub(crate) fn void_count(value: &mut [u8]) {
    value[HEADER - 1] |= VOID;
}

/// Computes MurmurHash64A by Austin Appleby (public domain), with the seed that Redis' format
/// prescribes.
fn hash(bytes: &[u8]) -> u64 {
    const SEED: u64 = 0xadc8_3b19;
    const FACTOR: u64 = 0xc6a4_a793_5bd1_e995;
    const SHIFT: u32 = 47;
    let mut hash = SEED ^ (bytes.len() as u64).wrapping_mul(FACTOR);
    let (words, rest) = bytes.as_chunks::<8>();
    for word in words {
        let mut word = u64::from_le_bytes(*word).wrapping_mul(FACTOR);
        word = (word ^ word >> SHIFT).wrapping_mul(FACTOR);
        hash = (hash ^ word).wrapping_mul(FACTOR);
    }
    if !rest.is_empty() {
        let bytes = rest.iter().rev();
        let word = bytes.fold(0, |word, &byte| word << 8 | u64::from(byte));
        hash = (hash ^ word).wrapping_mul(FACTOR);
    }
    hash = (hash ^ hash >> SHIFT).wrapping_mul(FACTOR);
    hash ^ hash >> SHIFT
}

/// Returns the index of the register to which an element maps, and the value to which the element
/// raises it.
fn register_of(element: &[u8]) -> (usize, u8) {
    let hash = hash(element);
    // Set a bit above the counted bits, which limits the number of trailing zeros.
    let counted = hash >> INDEX_BITS | 1 << COUNTED_BITS;
    let index = hash as usize & (REGISTERS - 1);
    (index, counted.trailing_zeros() as u8 + 1)
}

/// Adds an element. Returns whether a register changed, which can change the estimate. Converts a
/// sparse value to dense encoding if it would exceed `sparse_max` bytes.
///
/// # Errors
/// Returns [`Corrupt`] and leaves the value unchanged if its runs are invalid.
pub(crate) fn add(value: &mut Vec<u8>, element: &[u8], sparse_max: usize) -> Result<bool, Corrupt> {
    let (index, count) = register_of(element);
    raise(value, index, count, sparse_max)
}

/// Raises a register to at least `count`. Returns whether the register changed.
///
/// # Errors
/// Returns [`Corrupt`] and leaves the value unchanged if its runs are invalid.
pub(crate) fn raise(
    value: &mut Vec<u8>,
    index: usize,
    count: u8,
    sparse_max: usize,
) -> Result<bool, Corrupt> {
    if !is_sparse(value) {
        return Ok(raise_dense(value, index, count));
    }
    if let Some(raised) = raise_sparse(value, index, count, sparse_max)? {
        return Ok(raised);
    }
    make_dense(value)?;
    Ok(raise_dense(value, index, count))
}

/// Returns the index of the byte, and of the bit within it, at which a register starts.
fn place(index: usize) -> (usize, usize) {
    let bit = index * REGISTER_BITS;
    (HEADER + bit / 8, bit % 8)
}

fn dense_register(value: &[u8], index: usize) -> u8 {
    let (byte, bit) = place(index);
    let above = value.get(byte + 1).copied().unwrap_or(0);
    (u16::from_le_bytes([value[byte], above]) >> bit) as u8 & 63
}

fn raise_dense(value: &mut [u8], index: usize, count: u8) -> bool {
    if dense_register(value, index) >= count {
        return false;
    }
    let (byte, bit) = place(index);
    let (mask, field) = (63_u16 << bit, u16::from(count) << bit);
    value[byte] = value[byte] & !(mask as u8) | field as u8;
    if let Some(above) = value.get_mut(byte + 1) {
        *above = *above & !((mask >> 8) as u8) | (field >> 8) as u8;
    }
    true
}

/// A run of equal registers in a sparse value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Run {
    /// The value of each register in the run.
    value: u8,
    /// The number of registers in the run.
    length: usize,
    /// The size of the encoded run in bytes.
    size: usize,
}

fn run_at(value: &[u8], at: usize) -> Run {
    let first = value[at];
    let (content, length, size) = match first >> 6 {
        0 => (0, usize::from(first), 1),
        1 => {
            let second = value.get(at + 1).copied().unwrap_or(0);
            (0, usize::from(first & 63) << 8 | usize::from(second), 2)
        }
        _ => ((first >> 2 & 31) + 1, usize::from(first & 3), 1),
    };
    Run {
        value: content,
        length: length + 1,
        size,
    }
}

fn push_zeros(out: &mut Vec<u8>, length: usize) {
    if length > ZERO_MAX {
        let bits = length - 1;
        out.extend([0x40 | (bits >> 8) as u8, bits as u8]);
    } else if length > 0 {
        out.push(length as u8 - 1);
    }
}

fn value_run(value: u8, length: usize) -> u8 {
    0x80 | (value - 1) << 2 | (length as u8 - 1)
}

/// Raises a register of a sparse value. Returns `None` if only the dense encoding can represent the
/// result.
fn raise_sparse(
    value: &mut Vec<u8>,
    index: usize,
    count: u8,
    sparse_max: usize,
) -> Result<Option<bool>, Corrupt> {
    if count > VALUE_MAX {
        return Ok(None);
    }
    let (mut at, mut before, mut first) = (HEADER, None, 0);
    let run = loop {
        if at >= value.len() {
            return Err(Corrupt);
        }
        let run = run_at(value, at);
        if index < first + run.length {
            break run;
        }
        before = Some(at);
        at += run.size;
        first += run.length;
    };
    if run.value >= count {
        return Ok(Some(false));
    }
    let last = first + run.length - 1;
    let mut runs = Vec::with_capacity(5);
    let keep = |runs: &mut Vec<u8>, length: usize| match run.value {
        0 => push_zeros(runs, length),
        kept if length > 0 => runs.push(value_run(kept, length)),
        _ => {}
    };
    keep(&mut runs, index - first);
    runs.push(value_run(count, 1));
    keep(&mut runs, last - index);
    if runs.len() > run.size && value.len() + runs.len() - run.size > sparse_max {
        return Ok(None);
    }
    let end = (at + run.size).min(value.len());
    value.splice(at..end, runs);
    join_runs(value, before.unwrap_or(HEADER));
    void_count(value);
    Ok(Some(true))
}

/// Joins neighboring runs with equal register values, up to the maximum length of a run.
fn join_runs(value: &mut Vec<u8>, start: usize) {
    let mut at = start;
    for _ in 0..JOINED_RUNS {
        if at >= value.len() {
            return;
        }
        let run = run_at(value, at);
        if run.value > 0 && at + 1 < value.len() {
            let next = run_at(value, at + 1);
            let length = run.length + next.length;
            if next.value == run.value && length <= VALUE_RUN_MAX {
                value[at + 1] = value_run(run.value, length);
                value.remove(at);
                continue;
            }
        }
        at += run.size;
    }
}

/// Calls `visit` for each run of a sparse value, with the index of the run's first register.
///
/// # Errors
/// Returns [`Corrupt`] if the runs do not cover exactly [`REGISTERS`] registers.
fn for_each_run(value: &[u8], mut visit: impl FnMut(usize, Run)) -> Result<(), Corrupt> {
    let (mut at, mut first) = (HEADER, 0);
    while at < value.len() {
        let run = run_at(value, at);
        if first + run.length > REGISTERS {
            return Err(Corrupt);
        }
        visit(first, run);
        first += run.length;
        at += run.size;
    }
    if first == REGISTERS {
        Ok(())
    } else {
        Err(Corrupt)
    }
}

/// Converts a sparse value to dense encoding. Returns whether the value was sparse.
///
/// # Errors
/// Returns [`Corrupt`] and leaves the value unchanged if its runs are invalid.
pub(crate) fn make_dense(value: &mut Vec<u8>) -> Result<bool, Corrupt> {
    if !is_sparse(value) {
        return Ok(false);
    }
    let mut dense = value[..HEADER].to_vec();
    dense[ENCODING] = 0;
    dense.resize(DENSE_SIZE, 0);
    for_each_run(value, |first, run| {
        if run.value > 0 {
            for index in first..first + run.length {
                raise_dense(&mut dense, index, run.value);
            }
        }
    })?;
    *value = dense;
    Ok(true)
}

/// Raises each of `registers` to the corresponding register value in a HyperLogLog, if that value
/// is larger.
///
/// # Errors
/// Returns [`Corrupt`] if the HyperLogLog is invalid. Some registers may already have been raised.
pub(crate) fn merge(registers: &mut [u8; REGISTERS], value: &[u8]) -> Result<(), Corrupt> {
    if is_sparse(value) {
        return for_each_run(value, |first, run| {
            for register in &mut registers[first..first + run.length] {
                *register = run.value.max(*register);
            }
        });
    }
    for (index, register) in registers.iter_mut().enumerate() {
        *register = dense_register(value, index).max(*register);
    }
    Ok(())
}

/// Returns all registers of a HyperLogLog.
///
/// # Errors
/// Returns [`Corrupt`] if the runs of a sparse value are invalid.
pub(crate) fn registers(value: &[u8]) -> Result<Box<[u8; REGISTERS]>, Corrupt> {
    let mut registers = Box::new([0; REGISTERS]);
    merge(&mut registers, value)?;
    Ok(registers)
}

/// Formats the runs of a sparse value for PFDEBUG DECODE.
pub(crate) fn describe(value: &[u8]) -> String {
    let (mut at, mut words) = (HEADER, Vec::new());
    while at < value.len() {
        let Run {
            value: content,
            length,
            size,
        } = run_at(value, at);
        words.push(match (content, size) {
            (0, 1) => format!("z:{length}"),
            (0, _) => format!("Z:{length}"),
            _ => format!("v:{content},{length}"),
        });
        at += size;
    }
    words.join(" ")
}

/// Returns the estimated number of distinct elements in a HyperLogLog.
///
/// # Errors
/// Returns [`Corrupt`] if the runs of a sparse value are invalid.
pub(crate) fn count(value: &[u8]) -> Result<u64, Corrupt> {
    let mut histogram = [0_u32; 64];
    if is_sparse(value) {
        for_each_run(value, |_, run| {
            histogram[usize::from(run.value)] += run.length as u32;
        })?;
    } else {
        for index in 0..REGISTERS {
            histogram[usize::from(dense_register(value, index))] += 1;
        }
    }
    Ok(estimate(&histogram))
}

/// Returns the estimated number of distinct elements for the given registers.
pub(crate) fn count_registers(registers: &[u8; REGISTERS]) -> u64 {
    let mut histogram = [0; 64];
    for register in registers {
        histogram[usize::from(register & 63)] += 1;
    }
    estimate(&histogram)
}

fn estimate(histogram: &[u32; 64]) -> u64 {
    /// The constant 1 / (2 ln 2).
    const ALPHA: f64 = 0.721_347_520_444_481_7;
    let registers = REGISTERS as f64;
    let highest = COUNTED_BITS as usize;
    let saturated = f64::from(histogram[highest + 1]);
    let mut sum = registers * tau((registers - saturated) / registers);
    for &count in histogram[1..=highest].iter().rev() {
        sum = (sum + f64::from(count)) * 0.5;
    }
    sum += registers * sigma(f64::from(histogram[0]) / registers);
    if sum == 0.0 {
        // If all registers are at their maximum, the estimate is infinite. Redis then returns the
        // minimum signed 64-bit integer.
        return 1 << 63;
    }
    (ALPHA * registers * registers / sum).round() as u64
}

/// Computes Ertl's sigma function, which accounts for registers that are 0.
fn sigma(mut x: f64) -> f64 {
    if x == 1.0 {
        return f64::INFINITY;
    }
    let (mut y, mut sum) = (1.0, x);
    loop {
        let before = sum;
        x *= x;
        sum += x * y;
        y += y;
        if before == sum {
            return sum;
        }
    }
}

/// Computes Ertl's tau function, which accounts for registers at their maximum.
fn tau(mut x: f64) -> f64 {
    if x == 0.0 || x == 1.0 {
        return 0.0;
    }
    let (mut y, mut sum) = (1.0, 1.0 - x);
    loop {
        let before = sum;
        x = x.sqrt();
        y *= 0.5;
        sum -= (1.0 - x).powi(2) * y;
        if before == sum {
            return sum / 3.0;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn element(random: &mut fastrand::Rng) -> Vec<u8> {
        (0..random.usize(0..20)).map(|_| random.u8(..)).collect()
    }

    #[test]
    fn sparse_and_dense_hold_the_same_registers() {
        let seed = fastrand::u64(..);
        println!("seed {seed}");
        let mut random = fastrand::Rng::with_seed(seed);
        for _ in 0..20 {
            let (mut sparse, mut dense) = (new(), new());
            assert_eq!(make_dense(&mut dense), Ok(true));
            let mut model = [0; REGISTERS];
            for _ in 0..random.usize(0..1500) {
                let element = element(&mut random);
                let (index, value) = register_of(&element);
                let raised = value > model[index];
                model[index] = value.max(model[index]);
                assert_eq!(add(&mut sparse, &element, 3000), Ok(raised));
                assert_eq!(add(&mut dense, &element, 3000), Ok(raised));
            }
            assert_eq!(registers(&sparse).as_deref(), Ok(&model));
            assert_eq!(registers(&dense).as_deref(), Ok(&model));
            assert_eq!(count(&sparse), Ok(count_registers(&model)));
            assert_eq!(count(&dense), count(&sparse));
            let was_sparse = encoding(&sparse) == Some(Encoding::Sparse);
            assert_eq!(make_dense(&mut sparse), Ok(was_sparse));
            assert_eq!(sparse[HEADER..], dense[HEADER..]);
        }
    }

    #[test]
    fn estimates_are_within_three_percent() {
        let mut value = new();
        for number in 0..100_000_u32 {
            add(&mut value, &number.to_le_bytes(), 3000).expect("sound");
            if matches!(number + 1, 1 | 10 | 1000 | 100_000) {
                let (expected, found) = (f64::from(number + 1), count(&value).expect("sound"));
                let error = (found as f64 - expected).abs() / expected;
                assert!(error < 0.03, "{found} of {expected}");
            }
        }
    }

    #[test]
    fn saturated_registers_give_the_count_of_redis() {
        assert_eq!(count_registers(&[63; REGISTERS]) as i64, i64::MIN);
    }

    #[test]
    fn damaged_runs_are_detected() {
        let seed = fastrand::u64(..);
        println!("seed {seed}");
        let mut random = fastrand::Rng::with_seed(seed);
        for _ in 0..2000 {
            let mut value = new();
            for _ in 0..random.usize(0..30) {
                add(&mut value, &element(&mut random), 3000).expect("sound");
            }
            let place = random.usize(HEADER..value.len());
            value[place] = random.u8(..);
            if random.bool() {
                value.truncate(random.usize(HEADER..=value.len()));
            }
            let before = value.clone();
            let sound = registers(&value).is_ok();
            assert_eq!(count(&value).is_ok(), sound);
            // `add` succeeds if it reaches its register before the damaged run. It must not panic
            // in either case.
            let _ = add(&mut value, &element(&mut random), 3000);
            value.clone_from(&before);
            assert_eq!(make_dense(&mut value).is_ok(), sound);
        }
        assert_eq!(encoding(b"HYLL"), None);
        assert_eq!(encoding(&[b'x'; 30]), None);
    }
}
