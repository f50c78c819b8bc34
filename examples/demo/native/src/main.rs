//! The demo's Rust process maps the store that Python workers write to, and reads their results
//! while they write.
//!
//! Each worker writes the results of a block of names with one MSET, marked with the number of its
//! turn. All results of a block must therefore have the same turn number at any time. Two different
//! numbers reveal a torn write.

use std::error::Error;
use std::os::unix::process::parent_id;
use std::path::Path;

use undercroft_engine::{Ranges, Store};

fn main() -> Result<(), Box<dyn Error>> {
    let path = std::env::args()
        .nth(1)
        .ok_or("expected the path of a store")?;
    let store = Store::open(Path::new(&path), true)?;
    let blocks = read_blocks(&store)?;
    let longest = longest_name(&store, &blocks)?;

    let parent = parent_id();
    let mut random = u64::from(std::process::id()) | 1;
    let (mut views, mut values, mut torn) = (0_u64, 0_u64, 0_u64);
    let mut stop = Vec::new();
    while !store.get(0, b"stop", &mut stop)? && parent_id() == parent {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        let block = &blocks[(random % blocks.len() as u64) as usize];
        let keys: Vec<&[u8]> = block.results.iter().map(Vec::as_slice).collect();
        let found = store.get_many(0, &keys)?;
        let mut turns = found.iter().map(|result| result.as_deref().map(turn_of));
        let first = turns.next();
        torn += u64::from(turns.any(|turn| Some(turn) != first));
        views += 1;
        values += keys.len() as u64;
        store.increment(0, b"views", 1)?;
    }
    println!(
        "{{\"views\": {views}, \"values\": {values}, \"torn\": {torn}, \"longest\": \"{longest}\"}}"
    );
    Ok(())
}

/// The keys of one block's names and results.
struct Block {
    names: Vec<Vec<u8>>,
    results: Vec<Vec<u8>>,
}

fn read_blocks(store: &Store) -> Result<Vec<Block>, Box<dyn Error>> {
    let mut blocks = Vec::new();
    let mut points = Ranges::new();
    while store.list_range(
        0,
        format!("block:{}", blocks.len()).as_bytes(),
        0,
        -1,
        &mut points,
    )? {
        let keys = |prefix: &[u8]| {
            points
                .iter()
                .map(|point| [prefix, point].concat())
                .collect()
        };
        blocks.push(Block {
            names: keys(b"name:"),
            results: keys(b"words:"),
        });
        points.clear();
    }
    if blocks.is_empty() {
        return Err("expected the lists block:0, block:1 ... in the store, got none".into());
    }
    Ok(blocks)
}

fn longest_name(store: &Store, blocks: &[Block]) -> Result<String, Box<dyn Error>> {
    let mut longest = Vec::new();
    for block in blocks {
        let keys: Vec<&[u8]> = block.names.iter().map(Vec::as_slice).collect();
        for name in store.get_many(0, &keys)?.into_iter().flatten() {
            if name.len() > longest.len() {
                longest = name;
            }
        }
    }
    Ok(String::from_utf8(longest)?)
}

/// Returns the turn number of a result, which precedes the space.
fn turn_of(result: &[u8]) -> &[u8] {
    result.split(|&byte| byte == b' ').next().unwrap_or(result)
}
