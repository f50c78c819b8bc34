//! A walk over a dictionary, bucket by bucket, between whose steps the table may be resized.
//!
//! A position counts up from the highest bit down, as SCAN's cursor does: the buckets that a bucket splits into have the
//! same low bits.

use undercroft_memory::{Offset, View};

use crate::error::Error;
use crate::structures::dictionary::{BUCKET, Dictionary, Table, for_each_in_chain};

/// Bits of the cursor of SCAN that hold the bucket.
pub(crate) const BUCKET_BITS: u32 = 48;

/// A bucket is asked for so many steps ahead of its visit.
const STEPS_AHEAD: u64 = 4;

/// Visits the entries that a position stands for; returns the next position.
pub(crate) fn scan_bucket<D: Dictionary>(
    view: &View<'_>,
    root: D,
    position: u64,
    mut visit: impl FnMut(Offset) -> Result<(), Error>,
) -> Result<u64, Error> {
    scan_chain(view, root, position, |at, _| visit(at))
}

/// [`scan_bucket`] that also tells in which bucket of a chain an entry lies: 0 for a home bucket.
pub(crate) fn scan_chain<D: Dictionary>(
    view: &View<'_>,
    root: D,
    position: u64,
    mut visit: impl FnMut(Offset, Offset) -> Result<(), Error>,
) -> Result<u64, Error> {
    let Some(tables) = root.tables(view)? else {
        return Ok(0);
    };
    let Some((other, moved)) = tables.other else {
        let later = advance(position, STEPS_AHEAD, tables.main);
        view.prefetch(tables.main.bucket(later));
        for_each_in_chain(view, tables.main.bucket(position), &mut visit)?;
        return Ok(advance(position, 1, tables.main));
    };
    // Both tables: a bucket of the smaller one, and all those of the larger
    // that it splits into.
    let main_bucket = |index: u64| {
        let index = index & (tables.main.buckets() - 1);
        (index >= moved).then(|| tables.main.bucket(index))
    };
    let (small, large) = if tables.main.bits < other.bits {
        (tables.main, other)
    } else {
        (other, tables.main)
    };
    // No more buckets are gone over than there is memory for.
    view.check(large.at, large.buckets() * BUCKET)?;
    let mut position = position;
    if tables.main.bits < other.bits {
        if let Some(bucket) = main_bucket(position) {
            for_each_in_chain(view, bucket, &mut visit)?;
        }
    } else {
        for_each_in_chain(view, other.bucket(position), &mut visit)?;
    }
    loop {
        // R3: torn tables may let this go over any number of buckets.
        view.recheck()?;
        let bucket = if large.at == other.at {
            Some(other.bucket(position))
        } else {
            main_bucket(position)
        };
        if let Some(bucket) = bucket {
            for_each_in_chain(view, bucket, &mut visit)?;
        }
        position = advance(position, 1, large);
        if position & (large.buckets() - 1) & !(small.buckets() - 1) == 0 {
            return Ok(position);
        }
    }
}

/// The position so many steps on in a walk over a table, 0 behind its end: counts up in reversed bits.
fn advance(position: u64, steps: u64, table: Table) -> u64 {
    let mask = table.buckets() - 1;
    let step = 1_u64.checked_shl(u64::BITS - table.bits as u32);
    let reversed = (position & mask).reverse_bits();
    let reversed = reversed.wrapping_add(steps.wrapping_mul(step.unwrap_or(0)));
    reversed.reverse_bits()
}
