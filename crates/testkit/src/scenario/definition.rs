//! A scenario: a change to a store, the store before the change, and how the tests kill a process
//! during it.

use undercroft_engine::Store;

/// One change to a store.
#[derive(Clone, Copy)]
pub struct Scenario {
    /// A unique description of the change.
    pub name: &'static str,
    /// Prepares the store before the change.
    pub prepare: fn(&Store),
    /// Makes the change.
    pub act: fn(&Store),
    /// Which runs step through the change instruction by instruction.
    pub steps: Steps,
    /// See [`Expected::gradual`](crate::state::Expected::gradual).
    pub gradual: bool,
    /// See [`Expected::handed`](crate::state::Expected::handed).
    pub handed: bool,
    /// A first part of the change, which is committed before the rest, so a death may leave only
    /// this part.
    pub first: Option<fn(&Store)>,
}

/// Which runs step through a scenario instruction by instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Steps {
    /// Every run.
    Always,
    /// Only the full run.
    Full,
    /// No run, because the change is too long. Deaths at every undo log step cover it.
    Never,
}

/// Returns a change that every run steps through.
pub(super) const fn quick(name: &'static str, prepare: fn(&Store), act: fn(&Store)) -> Scenario {
    Scenario {
        name,
        prepare,
        act,
        steps: Steps::Always,
        gradual: false,
        handed: false,
        first: None,
    }
}

/// Returns a change that only the full run steps through.
pub(super) const fn full(name: &'static str, prepare: fn(&Store), act: fn(&Store)) -> Scenario {
    Scenario {
        name,
        prepare,
        act,
        steps: Steps::Full,
        gradual: false,
        handed: false,
        first: None,
    }
}

/// Returns a change that no run steps through. Deaths at every undo log step cover it.
pub(super) const fn log_steps(
    name: &'static str,
    prepare: fn(&Store),
    act: fn(&Store),
) -> Scenario {
    Scenario {
        name,
        prepare,
        act,
        steps: Steps::Never,
        gradual: false,
        handed: false,
        first: None,
    }
}

/// Returns a change that frees memory in several transactions.
pub(super) const fn gradual(name: &'static str, prepare: fn(&Store), act: fn(&Store)) -> Scenario {
    Scenario {
        name,
        prepare,
        act,
        steps: Steps::Full,
        gradual: true,
        handed: false,
        first: None,
    }
}
