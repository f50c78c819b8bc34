//! Generates every bitmap command, with all of its options.

use super::{Family, Generator, command};
use crate::command::Command;

pub(super) const FAMILY: Family = Family {
    name: "bitmaps",
    makers: &[
        (10, value),
        (24, setbit),
        (12, getbit),
        (16, bitcount),
        (16, bitpos),
        (14, bitop),
        (30, bitfield),
        (8, bitfield_ro),
    ],
};

/// Generates a value with long runs of equal bits, so that searches traverse many bytes.
fn value(g: &mut Generator, out: &mut Vec<Command>) {
    let length = g.pick(&[0, 1, 7, 8, 9, 30, 64, 100, 1000, 4096, 5000]);
    let mut value = vec![g.pick(&[0, 0xff]); length];
    if length > 0 && g.one_in(2) {
        let place = g.below(length);
        value[place] = g.pick(&[0x01, 0x80, 0x7f, 0xfe, 0x3c]);
    }
    out.push(command("SET", [g.key(), value]));
}

/// Returns a bit offset that is usually small and never requires much memory.
fn offset(g: &mut Generator) -> Vec<u8> {
    match g.below(24) {
        0 => g.odd(),
        1 => g.below(560_000).to_string().into(),
        2 => g.below(40_000).to_string().into(),
        _ => g.below(700).to_string().into(),
    }
}

fn setbit(g: &mut Generator, out: &mut Vec<Command>) {
    let bit = if g.one_in(20) {
        g.pick(&["2", "-1", "x", "", "01", "1.0"])
    } else {
        g.pick(&["0", "1"])
    };
    out.push(command("SETBIT", [g.key(), offset(g), bit.into()]));
}

fn getbit(g: &mut Generator, out: &mut Vec<Command>) {
    out.push(command("GETBIT", [g.key(), offset(g)]));
}

/// Returns the start or end of a range, in bytes or bits.
fn place(g: &mut Generator) -> Vec<u8> {
    match g.below(12) {
        0 => g.odd(),
        1 => (g.below(80_000) as i64 - 40_000).to_string().into(),
        _ => (g.below(200) as i64 - 100).to_string().into(),
    }
}

fn unit(g: &mut Generator) -> Vec<u8> {
    g.pick(&["BYTE", "BIT", "BIT", "bit", "byte", "BITS", ""])
        .into()
}

fn bitcount(g: &mut Generator, out: &mut Vec<Command>) {
    let mut args = vec![g.key()];
    match g.below(8) {
        0 => {}
        1 => args.push(place(g)),
        2..=4 => args.extend([place(g), place(g)]),
        _ => args.extend([place(g), place(g), unit(g)]),
    }
    if g.one_in(30) {
        args.push(place(g));
    }
    out.push(command("BITCOUNT", args));
}

fn bitpos(g: &mut Generator, out: &mut Vec<Command>) {
    let bit = if g.one_in(20) {
        g.pick(&["2", "-1", "x", "", "01"])
    } else {
        g.pick(&["0", "1"])
    };
    let mut args = vec![g.key(), bit.into()];
    match g.below(8) {
        0 => {}
        1 | 2 => args.push(place(g)),
        3 | 4 => args.extend([place(g), place(g)]),
        _ => args.extend([place(g), place(g), unit(g)]),
    }
    if g.one_in(30) {
        args.push(place(g));
    }
    out.push(command("BITPOS", args));
}

fn bitop(g: &mut Generator, out: &mut Vec<Command>) {
    let operation = g.pick(&["AND", "OR", "XOR", "NOT", "and", "Not", "NAND"]);
    let mut args = vec![operation.into(), g.key()];
    if operation.eq_ignore_ascii_case("not") && !g.one_in(8) {
        args.push(g.key());
    } else {
        args.extend(g.keys());
    }
    out.push(command("BITOP", args));
}

fn field_type(g: &mut Generator) -> Vec<u8> {
    if g.one_in(25) {
        return g
            .pick(&["u64", "i65", "i0", "x8", "8", "", "U8", "u08", "i-3"])
            .into();
    }
    let signed = g.one_in(2);
    let bits = if g.one_in(3) {
        g.pick(&[1, 2, 7, 8, 16, 31, 32, 33, 63])
    } else {
        g.below(63) + 1
    };
    match (signed, g.one_in(8)) {
        (true, true) => "i64".into(),
        (true, false) => format!("i{bits}").into(),
        (false, _) => format!("u{bits}").into(),
    }
}

fn field_offset(g: &mut Generator) -> Vec<u8> {
    if g.one_in(3) {
        let mut text = b"#".to_vec();
        text.extend(if g.one_in(15) {
            g.odd()
        } else {
            g.below(12).to_string().into()
        });
        return text;
    }
    offset(g)
}

fn subcommand(g: &mut Generator, args: &mut Vec<Vec<u8>>, reads_only: bool) {
    let name = if reads_only {
        g.pick(&["GET", "get"])
    } else {
        g.pick(&[
            "GET", "SET", "SET", "INCRBY", "INCRBY", "incrby", "OVERFLOW",
        ])
    };
    args.push(name.into());
    if name == "OVERFLOW" {
        let kind = g.pick(&["WRAP", "SAT", "SAT", "FAIL", "FAIL", "sat"]);
        args.push(if g.one_in(20) { "CUT" } else { kind }.into());
        return;
    }
    args.extend([field_type(g), field_offset(g)]);
    if !name.eq_ignore_ascii_case("get") {
        args.push(if g.one_in(25) { g.odd() } else { g.integer() });
    }
}

fn bitfield(g: &mut Generator, out: &mut Vec<Command>) {
    let mut args = vec![g.key()];
    let reads_only = g.one_in(6);
    for _ in 0..g.below(5) {
        subcommand(g, &mut args, reads_only);
    }
    if g.one_in(40) {
        args.push(g.pick(&["GET", "SET", "OVERFLOW", "PUT"]).into());
    }
    out.push(command("BITFIELD", args));
}

fn bitfield_ro(g: &mut Generator, out: &mut Vec<Command>) {
    let mut args = vec![g.key()];
    for _ in 0..g.below(4) {
        subcommand(g, &mut args, true);
    }
    if g.one_in(15) {
        subcommand(g, &mut args, false);
    }
    out.push(command("BITFIELD_RO", args));
}
