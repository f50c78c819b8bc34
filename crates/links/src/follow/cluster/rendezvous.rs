//! Lanes wait for each other to load their data sets together.
//!
//! A lane that needs a data set enters. Once all lanes that must load together have entered, a *phase*
//! begins: its members load their data sets and report this, and the coordinating thread makes all of
//! them visible. If one member fails, the phase fails, and all of them begin again.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use undercroft_engine::ForkMutex;

use crate::follow::cluster::topology::View;
use crate::follow::transfer::Received;

/// A data set that a lane has loaded.
pub(super) struct Loaded {
    pub(super) received: Received,
    /// The node's view before it made the data set, if it was asked.
    pub(super) view: Option<Arc<View>>,
}

/// The state of a phase.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    Running,
    Visible,
    Failed,
}

#[derive(Default)]
struct State {
    /// The lanes that need a data set.
    needing: BTreeSet<u8>,
    /// The lanes that are ready to load theirs.
    entered: BTreeSet<u8>,
    /// The number of phases that have begun.
    phases: u64,
    /// The members of the current phase.
    members: BTreeSet<u8>,
    /// The lanes that may be loading. No phase begins while there are any, because a lane that has not
    /// noticed the end of a failed phase still adds keys.
    busy: BTreeSet<u8>,
    /// The data sets that the members have loaded.
    loaded: BTreeMap<u8, Loaded>,
    has_failed: bool,
    /// The last phase whose data sets are visible.
    visible: u64,
}

impl State {
    fn is_running(&self) -> bool {
        !self.members.is_empty() && !self.has_failed && self.visible < self.phases
    }
}

/// The place where lanes wait for each other.
#[derive(Default)]
pub(super) struct Rendezvous(ForkMutex<State>);

impl Rendezvous {
    /// Returns whether a lane needs a data set.
    pub(super) fn needs(&self, lane: u8) -> bool {
        self.0.lock().needing.contains(&lane)
    }

    /// Makes a lane load its data set again.
    pub(super) fn require(&self, lane: u8) {
        self.0.lock().needing.insert(lane);
    }

    /// Notes that a lane is ready to load its data set.
    pub(super) fn enter(&self, lane: u8) {
        let mut state = self.0.lock();
        state.needing.insert(lane);
        state.entered.insert(lane);
    }

    /// Notes that a lane is not ready any more. A phase of which it is a member fails.
    pub(super) fn leave(&self, lane: u8) {
        let mut state = self.0.lock();
        state.entered.remove(&lane);
        state.busy.remove(&lane);
        if state.members.contains(&lane) && state.visible < state.phases {
            state.has_failed = true;
        }
    }

    /// Returns the number of the phase if it is running and the lane is a member. The lane must not be
    /// loading.
    pub(super) fn phase_of(&self, lane: u8) -> Option<u64> {
        let mut state = self.0.lock();
        let is_member = state.is_running() && state.members.contains(&lane);
        if !is_member {
            state.busy.remove(&lane);
        }
        is_member.then_some(state.phases)
    }

    /// Returns whether a phase can begin: none is running, lanes have entered, and so have all lanes that
    /// need a data set and for which `is_required` returns true.
    pub(super) fn can_begin(&self, is_required: impl Fn(u8) -> bool) -> bool {
        let state = self.0.lock();
        let mut needing = state.needing.iter();
        let is_missing = needing.any(|lane| is_required(*lane) && !state.entered.contains(lane));
        let is_free = !state.is_running() && state.busy.is_empty();
        is_free && !state.entered.is_empty() && !is_missing
    }

    /// Begins a phase with all lanes that have entered.
    pub(super) fn begin(&self) {
        let mut state = self.0.lock();
        state.members = state.entered.clone();
        state.busy = state.entered.clone();
        state.phases += 1;
        state.loaded.clear();
        state.has_failed = false;
    }

    /// Returns whether lanes have entered and no phase is running, so that one can begin.
    pub(super) fn is_awaited(&self) -> bool {
        let state = self.0.lock();
        !state.is_running() && !state.entered.is_empty()
    }

    /// Reports the data set of a member of a phase.
    pub(super) fn report(&self, phase: u64, lane: u8, loaded: Loaded) {
        let mut state = self.0.lock();
        if state.phases == phase {
            state.loaded.insert(lane, loaded);
        }
    }

    /// Returns the data sets of the current phase once all members have reported theirs.
    pub(super) fn take_loaded(&self) -> Option<BTreeMap<u8, Loaded>> {
        let mut state = self.0.lock();
        let is_complete = state.is_running() && state.loaded.len() == state.members.len();
        is_complete.then(|| std::mem::take(&mut state.loaded))
    }

    /// Ends the current phase.
    pub(super) fn end(&self, is_visible: bool) {
        let mut state = self.0.lock();
        if is_visible {
            state.visible = state.phases;
            state.busy.clear();
            let members = std::mem::take(&mut state.members);
            state.needing.retain(|lane| !members.contains(lane));
            state.entered.retain(|lane| !members.contains(lane));
        } else {
            state.has_failed = true;
        }
    }

    /// Returns the state of a phase.
    pub(super) fn outcome(&self, phase: u64) -> Outcome {
        let state = self.0.lock();
        match () {
            () if state.visible >= phase => Outcome::Visible,
            () if state.phases > phase || state.has_failed => Outcome::Failed,
            () => Outcome::Running,
        }
    }

    /// Forgets a lane that has ended.
    pub(super) fn forget(&self, lane: u8) {
        self.leave(lane);
        self.0.lock().needing.remove(&lane);
    }
}
