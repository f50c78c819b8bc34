//! Decides whether the open records of dead processes count (J2).

use crate::error::Error;
use crate::heap::step;
use crate::mapped::layout::{SLOTS, control, slot};
use crate::mapped::mapping::Mapping;
use crate::processes::lock::Owner;
use crate::redo::record::{Kind, State};
use crate::redo::ring::{self, Header};
use crate::segment::{Segment, membership};

/// Settles an open record if its step can no longer take effect or has taken effect. Returns false
/// if the process that appended it is alive and may still complete the step.
pub(crate) fn settle(segment: &Segment, header: &Header) -> Result<bool, Error> {
    let mapping = &segment.mapping;
    let owner = Owner::from_bits(header.owner);
    match header.kind {
        Kind::HeapStep => {
            // No heap step is running under the heap's lock, and a dead step that took effect is
            // settled when the lock is acquired.
            step::run(segment, |_| {
                void_if_open(mapping, header);
                Ok(())
            })?;
            Ok(true)
        }
        _ if membership::owner_lives(segment, owner) => Ok(false),
        Kind::Transaction => {
            // The process that claims the slot settles the record under this lock, before its first
            // transaction changes the word that decides.
            let _guard = ring::take_lock(segment)?;
            let now = ring::header(mapping, header.position).map(|header| header.state);
            if now == Some(State::Open) {
                settle_transaction(mapping, owner.slot(), header);
            }
            Ok(true)
        }
        // The record was never completed, and the checkpoint that needs it is told by its log.
        _ => {
            void_if_open(mapping, header);
            Ok(true)
        }
    }
}

fn void_if_open(mapping: &Mapping, header: &Header) {
    let state = ring::header(mapping, header.position).map(|header| header.state);
    if state == Some(State::Open) {
        ring::settle(mapping, header.position, State::Void);
    }
}

/// Settles the record of a dead process's transaction: it counts if the transaction was committed
/// (W6).
fn settle_transaction(mapping: &Mapping, slot_index: u64, header: &Header) {
    let known = slot_index < SLOTS && header.record < slot::RECORD_COUNT;
    let committed = known && {
        let record = mapping.layout().record(slot_index, header.record);
        mapping.load(record + slot::COMMITTED) == header.number
    };
    let state = match committed {
        true => State::Counts,
        false => State::Void,
    };
    ring::settle(mapping, header.position, state);
}

/// Settles all open records of a slot's dead owner, before the slot is reused (L4).
pub(crate) fn settle_slot(segment: &Segment, slot_index: u64) -> Result<(), Error> {
    let mapping = &segment.mapping;
    if mapping.load(control::REDO_HEAD) == mapping.load(control::REDO_WRITTEN) {
        return Ok(());
    }
    // Under the ring's lock no record is appended, so the space of these records is not reused.
    let _guard = ring::take_lock(segment)?;
    let head = mapping.load(control::REDO_HEAD);
    let mut position = mapping.load(control::REDO_WRITTEN);
    while position < head {
        let Some(header) = ring::header(mapping, position) else {
            break;
        };
        let is_open = header.state == State::Open;
        if is_open && Owner::from_bits(header.owner).slot() == slot_index {
            match header.kind {
                Kind::Transaction => settle_transaction(mapping, slot_index, &header),
                // The heap's log decides; see `settle`.
                Kind::HeapStep => {}
                _ => ring::settle(mapping, position, State::Void),
            }
        }
        position += header.length;
    }
    Ok(())
}
