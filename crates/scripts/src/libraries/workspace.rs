//! Stores the state of an interpreter's libraries.

use std::any::Any;
use std::cell::{Cell, UnsafeCell};
use std::ops::Range;

use undercroft_commands::reply::Tape;

use super::cjson::settings::Settings;
use super::proxies::Proxies;
use super::redis::registrations::Registrations;
use crate::state::{Context, HoldsContext, State};

/// The initial state of the `math.random` generator.
const RANDOM: u64 = 0x1234_abcd_330e;

/// An interpreter's context and the state of its libraries. The context is the first field, so that
/// the pointer stored in Lua is valid for both types.
#[repr(C)]
pub(crate) struct Workspace {
    context: Context,
    command: UnsafeCell<Command>,
    /// The payload of a command's panic, which resumes outside Lua.
    pub(crate) panic: Cell<Option<Box<dyn Any + Send>>>,
    /// The settings of `cjson` that scripts can change.
    pub(crate) json: Settings,
    /// The state of the `math.random` generator.
    pub(crate) random: Cell<u64>,
    /// Whether the script has changed the garbage collector's settings.
    pub(crate) is_tuned: Cell<bool>,
    pub(crate) proxies: Proxies,
    pub(crate) registrations: Registrations,
}

/// The buffers of a command that a script calls.
#[derive(Default)]
pub(crate) struct Command {
    /// The arguments, which point into Lua strings and into `digits`.
    pub(crate) arguments: Vec<&'static [u8]>,
    /// The decimal digits of the numeric arguments.
    pub(crate) digits: Vec<u8>,
    /// The index of each numeric argument and the range of its digits in `digits`.
    pub(crate) numbers: Vec<(usize, Range<usize>)>,
    pub(crate) reply: Tape,
}

// SAFETY: `Workspace` is `repr(C)`, and the context is its first field, so a pointer to one is
// valid for the other.
unsafe impl HoldsContext for Workspace {
    fn context(&self) -> &Context {
        &self.context
    }
}

impl Workspace {
    /// Returns a workspace for a new interpreter.
    pub(crate) fn new() -> Workspace {
        Workspace {
            context: Context::new(),
            command: UnsafeCell::default(),
            panic: Cell::default(),
            json: Settings::default(),
            random: Cell::new(RANDOM),
            is_tuned: Cell::new(true),
            proxies: Proxies::default(),
            registrations: Registrations::default(),
        }
    }

    /// Returns the workspace of the interpreter that `state` belongs to.
    #[inline]
    pub(crate) fn of<'i>(state: &State<'i>) -> &'i Workspace {
        // SAFETY: only `Machine::new` creates interpreters, and each interpreter's data points to a
        // workspace that outlives it.
        unsafe { &*state.allocator_data().cast() }
    }

    /// Returns the buffers of the command that the script calls.
    #[inline]
    pub(crate) fn command(&self) -> *mut Command {
        self.command.get()
    }
}
