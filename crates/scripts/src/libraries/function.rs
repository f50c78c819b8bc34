//! Describes functions that scripts can reach, and the limits on a call's time and memory.

use std::ffi::CStr;

use crate::state::{Body, Entry, State, entry};

/// A function that scripts can reach, with the limits on a call's time and memory.
pub(crate) struct Function {
    pub(crate) name: &'static CStr,
    pub(crate) entry: Entry,
    pub(crate) bounds: Bounds,
}

/// The time and the memory that a call can take.
#[derive(Clone, Copy)]
pub(crate) struct Bounds {
    /// The quantity that determines how long a call takes.
    pub(crate) cost: &'static str,
    /// How a script's time limit interrupts a call.
    pub(crate) interruption: Interruption,
    pub(crate) memory: Memory,
}

/// How a script's time limit interrupts a call.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Interruption {
    /// The call takes no longer than a few Lua instructions.
    EndsAtOnce,
    /// The call asks the host whether to continue, at least once every 65,536 steps.
    Asked,
    /// The call does not ask the host, because the quantity in `cost` limits its duration.
    Bounded,
}

/// The memory that a call can allocate.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Memory {
    /// The call allocates nothing or a fixed amount.
    Fixed,
    /// The call allocates its result, which counts toward the interpreter's memory limit.
    Counted,
}

/// Describes a function that takes no longer than a few Lua instructions.
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

/// Describes a function that regularly asks the host whether to continue.
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

/// Describes a function that does not ask the host, because the quantity `cost` limits its
/// duration.
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

/// Adds functions to the table on top of the stack.
pub(crate) fn add(state: &mut State<'_>, functions: &[Function]) {
    for Function { name, entry, .. } in functions {
        state.push_entry(*entry);
        state.set_field(-2, name);
    }
}
