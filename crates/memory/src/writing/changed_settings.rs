//! Changes settings that all processes share. With a journal, a change is a heap step, so that it has
//! a place among the records (J1).

use std::sync::atomic::Ordering;

use crate::error::Error;
use crate::heap::step;
use crate::journal::keeping;
use crate::mapped::layout::control;
use crate::redo::failure;
use crate::segment::settings::Setting;
use crate::segment::{Segment, membership};

impl Segment {
    /// Sets the limit on the total size of allocated blocks, in bytes. 0 means no limit. Needs no
    /// transaction, because it stores a single word.
    pub fn set_max_memory(&self, bytes: u64) -> Result<(), Error> {
        set(self, control::MAX_MEMORY, true, &|_| bytes)
    }

    /// Changes a setting for all processes. Needs no transaction, because it stores a single word.
    pub fn set_setting(&self, setting: Setting, value: u64) -> Result<(), Error> {
        set(self, setting as u64, setting.is_state(), &|_| value)
    }

    /// Changes a part of a setting for all processes: `change` returns the new value for the old one,
    /// and may run several times. Needs no transaction, because it stores a single word.
    pub fn change_setting(
        &self,
        setting: Setting,
        change: impl Fn(u64) -> u64,
    ) -> Result<(), Error> {
        set(self, setting as u64, setting.is_state(), &change)
    }
}

fn set(
    segment: &Segment,
    at: u64,
    is_state: bool,
    change: &dyn Fn(u64) -> u64,
) -> Result<(), Error> {
    if !segment.writable() {
        return Err(Error::ReadOnly);
    }
    if is_state && segment.mapping.is_journaled() {
        membership::join(segment)?;
        if let Some(error) = failure::failure(segment) {
            return Err(error);
        }
        let head = segment.mapping.word(control::REDO_HEAD);
        let start = head.load(Ordering::Acquire);
        let word = segment.mapping.word(at);
        step::run(segment, |heap| {
            heap.set(at, change(word.load(Ordering::Relaxed)))
        })?;
        let end = head.load(Ordering::Acquire);
        return keeping::after_commit(segment, (start, end));
    }
    let mut old = segment.mapping.word(at).load(Ordering::Relaxed);
    while let Err(now) = segment.mapping.word(at).compare_exchange_weak(
        old,
        change(old),
        Ordering::Relaxed,
        Ordering::Relaxed,
    ) {
        old = now;
    }
    Ok(())
}
