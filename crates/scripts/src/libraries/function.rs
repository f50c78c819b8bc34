//! A function that a script can reach, and the bounds of a call of it.

use std::ffi::CStr;

use crate::state::{Body, Entry, State, entry};

/// A function, and the bounds of one call of it.
pub(crate) struct Function {
    pub(crate) name: &'static CStr,
    pub(crate) entry: Entry,
    pub(crate) bounds: Bounds,
}

/// How long a call may take, and what memory.
#[derive(Clone, Copy)]
pub(crate) struct Bounds {
    /// The quantity that the time grows with.
    pub(crate) cost: &'static str,
    /// How the call can be interrupted.
    pub(crate) interruption: Interruption,
    pub(crate) memory: Memory,
}

/// Whether a call can be interrupted.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Interruption {
    /// It takes no longer than some instructions of Lua.
    EndsAtOnce,
    /// The host is asked at least every 65,536 steps.
    Asked,
    /// The host is not asked: the reason is in the cost.
    Bounded,
}

/// Memory that a call may take.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Memory {
    /// None, or a fixed amount.
    Fixed,
    /// That of its result, which counts for the limit of the interpreter.
    Counted,
}

/// A function of a few instructions.
pub(crate) const fn constant<F: Body>(name: &'static CStr, function: F) -> Function {
    Function {
        name,
        entry: entry(function),
        bounds: Bounds {
            cost: "constant",
            interruption: Interruption::EndsAtOnce,
            memory: Memory::Fixed,
        },
    }
}

/// A function that asks the host while it works.
pub(crate) const fn asked<F: Body>(
    name: &'static CStr,
    function: F,
    cost: &'static str,
    memory: Memory,
) -> Function {
    Function {
        name,
        entry: entry(function),
        bounds: Bounds {
            cost,
            interruption: Interruption::Asked,
            memory,
        },
    }
}

/// A function that does not ask the host, and is bounded otherwise.
pub(crate) const fn bounded<F: Body>(
    name: &'static CStr,
    function: F,
    cost: &'static str,
    memory: Memory,
) -> Function {
    Function {
        name,
        entry: entry(function),
        bounds: Bounds {
            cost,
            interruption: Interruption::Bounded,
            memory,
        },
    }
}

/// Adds functions to the table on top.
pub(crate) fn add(state: &mut State<'_>, functions: &[Function]) {
    for Function { name, entry, .. } in functions {
        state.push_entry(*entry);
        state.set_field(-2, name);
    }
}
