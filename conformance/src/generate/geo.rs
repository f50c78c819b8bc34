//! Generates every geo command of Redis 7.0, with all of its options.

use super::{Family, Generator, command};
use crate::command::Command;

pub(super) const FAMILY: Family = Family {
    name: "geo",
    makers: &[
        (40, geoadd),
        (12, geopos),
        (12, geodist),
        (10, geohash),
        (30, geosearch),
        (14, geosearchstore),
        (16, georadius),
        (16, georadiusbymember),
    ],
};

fn member(g: &mut Generator) -> Vec<u8> {
    vec![g.pick(b"abcdefghijklmnopqrst")]
}

/// Returns degrees, usually around a few locations, so that some positions are close together.
fn degrees(g: &mut Generator, center: f64, limit: f64) -> Vec<u8> {
    let fraction = (g.below(2_000_001) as f64 - 1_000_000.0) / 1_000_000.0;
    match g.below(24) {
        0 => g.odd(),
        1 => g
            .pick(&["180", "-180", "85.05112878", "-85.05112878", "180.1", "86"])
            .into(),
        2..8 => format!("{}", fraction * limit).into(),
        _ => format!("{}", center + fraction).into(),
    }
}

fn position(g: &mut Generator) -> [Vec<u8>; 2] {
    let (longitude, latitude) = g.pick(&[(13.5, 38.0), (-179.5, 10.0), (0.0, 0.0), (30.0, 80.5)]);
    [degrees(g, longitude, 180.0), degrees(g, latitude, 85.0)]
}

fn geoadd(g: &mut Generator, out: &mut Vec<Command>) {
    let mut args = vec![g.key()];
    while g.one_in(4) {
        args.push(g.pick(&["NX", "XX", "CH", "ch", "GT"]).into());
    }
    for _ in 0..g.below(5) {
        args.extend(position(g));
        args.push(member(g));
    }
    out.push(command("GEOADD", args));
}

fn with_members(g: &mut Generator) -> Vec<Vec<u8>> {
    let mut args = vec![g.key()];
    for _ in 0..g.below(4) {
        args.push(member(g));
    }
    args
}

fn geopos(g: &mut Generator, out: &mut Vec<Command>) {
    out.push(command("GEOPOS", with_members(g)));
}

fn geohash(g: &mut Generator, out: &mut Vec<Command>) {
    out.push(command("GEOHASH", with_members(g)));
}

fn unit(g: &mut Generator) -> Vec<u8> {
    g.pick(&["m", "km", "km", "KM", "ft", "mi", "Mi", "yd"])
        .into()
}

fn geodist(g: &mut Generator, out: &mut Vec<Command>) {
    let mut args = vec![g.key(), member(g), member(g)];
    if g.one_in(2) {
        args.push(unit(g));
    }
    if g.one_in(20) {
        args.push(unit(g));
    }
    out.push(command("GEODIST", args));
}

/// Returns a distance between zero and the circumference of the Earth.
fn length(g: &mut Generator) -> Vec<u8> {
    match g.below(14) {
        0 => g.odd(),
        1 => g.pick(&["0", "-1", "1e9", "0.5", "40000"]).into(),
        2..5 => g.below(10_000_000).to_string().into(),
        _ => g.below(400).to_string().into(),
    }
}

fn order(g: &mut Generator, args: &mut Vec<Vec<u8>>) {
    if g.one_in(2) {
        args.push(g.pick(&["ASC", "DESC", "asc"]).into());
    }
    if g.one_in(3) {
        args.push(b"COUNT".to_vec());
        args.push(g.pick(&["1", "2", "3", "100", "0", "-1", "x"]).into());
        if g.one_in(3) {
            args.push(b"ANY".to_vec());
        }
    }
    if g.one_in(40) {
        args.push(b"ANY".to_vec());
    }
}

fn shown(g: &mut Generator, args: &mut Vec<Vec<u8>>) {
    for name in ["WITHDIST", "WITHCOORD", "WITHHASH"] {
        if g.one_in(3) {
            args.push(name.into());
        }
    }
}

fn shape(g: &mut Generator, args: &mut Vec<Vec<u8>>) {
    if g.one_in(2) {
        args.extend([b"FROMMEMBER".to_vec(), member(g)]);
    } else if !g.one_in(20) {
        args.push(b"FROMLONLAT".to_vec());
        args.extend(position(g));
    }
    if g.one_in(2) {
        args.extend([b"BYRADIUS".to_vec(), length(g), unit(g)]);
    } else if !g.one_in(20) {
        args.extend([b"BYBOX".to_vec(), length(g), length(g), unit(g)]);
    }
    if g.one_in(30) {
        args.extend([b"BYRADIUS".to_vec(), length(g), unit(g)]);
    }
}

fn geosearch(g: &mut Generator, out: &mut Vec<Command>) {
    let mut args = vec![g.key()];
    shape(g, &mut args);
    order(g, &mut args);
    shown(g, &mut args);
    if g.one_in(30) {
        args.extend([b"STOREDIST".to_vec(), g.key()]);
    }
    out.push(command("GEOSEARCH", args));
}

fn geosearchstore(g: &mut Generator, out: &mut Vec<Command>) {
    let mut args = vec![g.key(), g.key()];
    shape(g, &mut args);
    order(g, &mut args);
    if g.one_in(3) {
        args.push(b"STOREDIST".to_vec());
    }
    if g.one_in(20) {
        shown(g, &mut args);
    }
    out.push(command("GEOSEARCHSTORE", args));
}

fn radius_options(g: &mut Generator, args: &mut Vec<Vec<u8>>) {
    args.extend([length(g), unit(g)]);
    order(g, args);
    if g.one_in(3) {
        args.extend([g.pick(&["STORE", "STOREDIST", "store"]).into(), g.key()]);
        if g.one_in(8) {
            shown(g, args);
        }
    } else {
        shown(g, args);
    }
}

fn georadius(g: &mut Generator, out: &mut Vec<Command>) {
    let mut args = vec![g.key()];
    args.extend(position(g));
    radius_options(g, &mut args);
    let name = g.pick(&["GEORADIUS", "GEORADIUS", "GEORADIUS_RO"]);
    out.push(command(name, args));
}

fn georadiusbymember(g: &mut Generator, out: &mut Vec<Command>) {
    let mut args = vec![g.key(), member(g)];
    radius_options(g, &mut args);
    let name = g.pick(&[
        "GEORADIUSBYMEMBER",
        "GEORADIUSBYMEMBER",
        "GEORADIUSBYMEMBER_RO",
    ]);
    out.push(command(name, args));
}
