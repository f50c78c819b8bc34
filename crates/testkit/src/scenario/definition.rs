//! Defines a scenario: a change to a store, how the store is prepared, and how the tests kill a
//! process during the change.

use undercroft_engine::Store;

/// A change to a store, during which the crash tests kill a process.
#[derive(Clone, Copy)]
pub struct Scenario {
    /// The unique name of the scenario, which describes the change.
    pub name: &'static str,
    /// Prepares the store before the change.
    pub prepare: fn(&Store),
    /// Makes the change to the store.
    pub act: fn(&Store),
    /// Which test runs step through the change, one machine instruction at a time.
    pub steps: Steps,
    /// The value of [`Expected::gradual`](crate::state::Expected::gradual).
    pub gradual: bool,
    /// The value of [`Expected::handed`](crate::state::Expected::handed).
    pub handed: bool,
    /// The first part of the change, if it is committed before the rest. A death can then leave
    /// only this part.
    pub first: Option<fn(&Store)>,
}

/// Which test runs step through a scenario instruction by instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Steps {
    /// Every test run.
    Always,
    /// Only the full test run.
    Full,
    /// No test run, because the change takes too many instructions. The tests instead kill the
    /// process at every step of the undo log.
    Never,
}

/// Returns a scenario whose change every test run steps through.
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

/// Returns a scenario whose change only the full test run steps through.
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

/// Returns a scenario whose change no test run steps through. The tests kill the process at every
/// step of the undo log.
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

/// Returns a scenario whose change frees memory in several transactions.
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
