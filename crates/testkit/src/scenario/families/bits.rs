//! Defines scenarios that change bits of strings.

use undercroft_engine::Store;
use undercroft_engine::strings::BitOperation;

use crate::scenario::changes::{set_text, value, write};
use crate::scenario::definition::{Scenario, full, log_steps, quick};
use crate::scenario::names::key;
use crate::scenario::stores::{appended, some_keys, with};

/// The scenarios that change bits of strings.
pub(super) const SCENARIOS: &[Scenario] = &[
    quick("SETBIT", appended, |s| set_field(s, &key(0, 90), 80, 1, 1)),
    full("SETBIT insert", some_keys, |s| {
        set_field(s, &key(0, 90), 80, 1, 1)
    }),
    full(
        "SETBIT of an integer",
        |s| set_text(s, &key(1, 90), b"42"),
        |s| set_field(s, &key(1, 90), 3, 1, 0),
    ),
    full("SETBIT beyond the end, in place", appended, |s| {
        set_field(s, &key(0, 90), 600, 1, 1)
    }),
    full("SETBIT growing to a block", some_keys, |s| {
        set_field(s, &key(0, 0), 40_000, 1, 1)
    }),
    full(
        "SETBIT in a block",
        |s| with(s, 5000),
        |s| set_field(s, &key(0, 90), 33_336, 1, 1),
    ),
    log_steps(
        "SETBIT growing a large block",
        |s| with(s, 100_000),
        |s| set_field(s, &key(0, 90), 900_000, 1, 1),
    ),
    quick("BITFIELD SET over two words", appended, |s| {
        set_field(s, &key(0, 90), 40, 50, 0x3_1415_9265_3589)
    }),
    full("BITOP into a new key", some_keys, |s| {
        combine(s, &key(1, 90), &[key(0, 0), key(1, 1)])
    }),
    full("BITOP into one of its sources", some_keys, |s| {
        combine(s, &key(0, 0), &[key(0, 0), key(1, 1)])
    }),
    full(
        "BITOP of 5,000",
        |s| with(s, 5000),
        |s| combine(s, &key(1, 1), &[key(0, 90), key(1, 1)]),
    ),
    quick("BITOP of nothing", some_keys, |s| {
        combine(s, &key(0, 0), &[key(0, 70), key(1, 70)])
    }),
    full("PFADD of a longer run", appended, |s| {
        set_raw(s, &key(0, 90), 76)
    }),
    full("PFMERGE that joins runs", appended, |s| {
        set_raw(s, &key(0, 90), 70)
    }),
    full("PFADD that becomes dense", appended, |s| {
        set_raw(s, &key(0, 90), 12_304)
    }),
];

fn set_field(store: &Store, name: &[u8], offset: u64, bits: u32, value: u64) {
    write(store, &[name], |writer| {
        let length = (offset + u64::from(bits)).div_ceil(8);
        let (string, _) = writer.bit_string(0, &store.key(name), length)?;
        writer.set_bits(&string, offset, bits, value)
    });
}

fn combine(store: &Store, target: &[u8], sources: &[Vec<u8>]) {
    let names: Vec<&[u8]> = sources.iter().map(Vec::as_slice).chain([target]).collect();
    let sources: Vec<_> = sources.iter().map(|name| store.key(name)).collect();
    write(store, &names, |writer| {
        writer.combine_bits(0, BitOperation::Xor, &store.key(target), &sources)
    });
}

fn set_raw(store: &Store, name: &[u8], length: usize) {
    write(store, &[name], |writer| {
        writer.set_raw(0, &store.key(name), &value(length))
    });
}
