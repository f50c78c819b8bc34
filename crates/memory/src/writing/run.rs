//! Runs a transaction's body once.

use crate::error::Error;
use crate::mapped::layout::{PAGE, shard};
use crate::probes::work;
use crate::segment::Segment;
use crate::segment::marks::Marks;
use crate::segment::shard_set::ShardSet;
use crate::transactions::Transaction;
use crate::transactions::rare_state::{Missing, RareState, Shortage};
use crate::writing::commit::commit;

/// The outcome of one run of a body.
pub(crate) enum Outcome<R> {
    /// The run was committed.
    Committed {
        value: R,
        rare: Option<Box<RareState>>,
        /// The journal positions at which the transaction's record starts and ends. An end of 0
        /// means that it has none.
        record: (u64, u64),
    },
    /// The run ran out of memory and was rolled back. Contains the amounts that it had used.
    Short(Used),
}

/// The memory that a run had used when it ran out of memory. Sizes are in bytes.
pub(crate) struct Used {
    pub(crate) shortage: Shortage,
    pub(crate) shards: ShardSet,
    /// The length of each shard's log.
    pub(crate) logs: Vec<u64>,
    pub(crate) granted: u64,
    pub(crate) missing: Missing,
    pub(crate) can_wait: bool,
}

/// Runs a body once as a transaction, or [in parts](crate::removing). The function also ends the
/// transaction, which is too large to be moved.
#[inline(always)]
pub(crate) fn once<R, E: From<Error>>(
    segment: &Segment,
    shards: ShardSet,
    marks: Marks,
    in_parts: bool,
    body: &mut impl FnMut(&mut Transaction<'_>) -> Result<R, E>,
) -> Result<Outcome<R>, E> {
    work::run();
    let locked = Transaction::lock(segment, shards, marks)?;
    let mut transaction = Transaction::new(segment, shards, locked);
    transaction.in_parts = in_parts;
    let result = body(&mut transaction);
    let shortage = match (result, transaction.shortage) {
        (Ok(value), None) => match commit(&mut transaction)? {
            None => {
                return Ok(Outcome::Committed {
                    value,
                    rare: transaction.rare.take(),
                    record: transaction.place_of_record(),
                });
            }
            Some(shortage) => shortage,
        },
        (Err(error), None) => return Err(error),
        (_, Some(shortage)) => shortage,
    };
    if transaction.parted {
        return Err(Error::OutOfMemory.into());
    }
    Ok(Outcome::Short(used(&transaction, shortage)))
}

/// Runs a body and rolls it back, to test that a run passes no state to the next one.
#[cold]
pub(crate) fn in_vain<R, E: From<Error>>(
    segment: &Segment,
    shards: ShardSet,
    marks: Marks,
    body: &mut impl FnMut(&mut Transaction<'_>) -> Result<R, E>,
) -> Result<(), E> {
    work::run();
    let locked = Transaction::lock(segment, shards, marks)?;
    let _ = body(&mut Transaction::new(segment, shards, locked));
    Ok(())
}

/// Returns the memory used by a run that ran out of memory. Call it before the run is rolled back.
#[cold]
pub(crate) fn used(transaction: &Transaction<'_>, shortage: Shortage) -> Used {
    let rare = transaction.rare.as_ref();
    let (granted_pages, missing) =
        rare.map_or_else(Default::default, |rare| (rare.granted_pages, rare.missing));
    let mapping = &transaction.segment.mapping;
    let tail = |index| {
        let tail = mapping.load(mapping.layout().shard(index) + shard::LOG_TAIL);
        tail.min(transaction.segment.mapping.shard_log(index).limit)
    };
    Used {
        shortage,
        shards: transaction.shards(),
        logs: transaction.shards().iter().map(tail).collect(),
        granted: granted_pages * PAGE,
        missing,
        can_wait: rare.is_some_and(|rare| rare.can_wait),
    }
}
