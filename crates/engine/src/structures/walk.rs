//! A walk over a dictionary, bucket by bucket. The table can be resized between two steps.
//!
//! Like SCAN's cursor, a position counts from the highest bit to the lowest. When a table grows,
//! the buckets that replace a bucket share its low bits, so a resize does not disturb the order.

use undercroft_memory::{Offset, View};

use crate::error::Error;
use crate::structures::dictionary::{BUCKET, Dictionary, Table, for_each_in_chain};

/// The number of bits in a SCAN cursor that contain the bucket number.
pub(crate) const BUCKET_BITS: u32 = 48;

/// How many steps ahead of the walk a bucket is prefetched.
const STEPS_AHEAD: u64 = 4;

/// Visits the entries at a position of the walk. Returns the next position, or 0 at the end.
pub(crate) fn scan_bucket<D: Dictionary>(
    view: &View<'_>,
    root: D,
    position: u64,
    mut visit: impl FnMut(Offset) -> Result<(), Error>,
) -> Result<u64, Error> {
    scan_chain(view, root, position, |at, _| visit(at))
}

/// Like [`scan_bucket`], but also passes `visit` the overflow bucket that contains the entry, or 0
/// for the home bucket.
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
    // During a resize, visit one bucket of the smaller table and all buckets of the larger table
    // that correspond to it.
    let main_bucket = |index: u64| {
        let index = index & (tables.main.buckets() - 1);
        (index >= moved).then(|| tables.main.bucket(index))
    };
    let (small, large) = if tables.main.bits < other.bits {
        (tables.main, other)
    } else {
        (other, tables.main)
    };
    // Limit the walk to tables that lie within the store.
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
        // Torn tables could make this loop visit any number of buckets, so revalidate the view
        // (R3).
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

/// Returns the position that is `steps` steps ahead in a walk over a table, or 0 at the end.
/// Positions count in reversed bit order.
fn advance(position: u64, steps: u64, table: Table) -> u64 {
    let mask = table.buckets() - 1;
    let step = 1_u64.checked_shl(u64::BITS - table.bits as u32);
    let reversed = (position & mask).reverse_bits();
    let reversed = reversed.wrapping_add(steps.wrapping_mul(step.unwrap_or(0)));
    reversed.reverse_bits()
}
