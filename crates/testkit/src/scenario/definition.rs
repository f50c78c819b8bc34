//! A scenario: a change to a store, the store before it, and how a death in its midst is tried.

use undercroft_engine::Store;

/// One change to a store.
#[derive(Clone, Copy)]
pub struct Scenario {
    /// What is changed; unique.
    pub name: &'static str,
    /// Makes the store in which the change happens.
    pub prepare: fn(&Store),
    /// Makes the change.
    pub act: fn(&Store),
    /// When it is stepped through instruction by instruction.
    pub steps: Steps,
    /// See [`Expected::gradual`](crate::state::Expected::gradual).
    pub gradual: bool,
    /// See [`Expected::handed`](crate::state::Expected::handed).
    pub handed: bool,
    /// What of the change is made and committed before the rest: a death may leave just that.
    pub first: Option<fn(&Store)>,
}

/// Which run steps through a scenario instruction by instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Steps {
    /// Every run.
    Always,
    /// The full run.
    Full,
    /// None: it is too long. Death at every undo-log step covers it.
    Never,
}

/// A change that every run steps through.
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

/// A change that the full run steps through.
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

/// A change that no run steps through: death at every step of the undo log covers it.
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

/// A change that gives memory back in several transactions.
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
