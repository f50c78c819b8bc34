//! The state that library functions keep in an interpreter.

use std::any::Any;
use std::cell::{Cell, UnsafeCell};
use std::ops::Range;

use undercroft_commands::reply::Tape;

use super::cjson::settings::Settings;
use super::proxies::Proxies;
use super::redis::registrations::Registrations;
use crate::state::{Context, HoldsContext, State};

/// The initial state of `math.random`.
const RANDOM: u64 = 0x1234_abcd_330e;

/// The context of an interpreter, with the state of the libraries. The context is the first field,
/// so the address that Lua knows is the address of both.
#[repr(C)]
pub(crate) struct Workspace {
    context: Context,
    command: UnsafeCell<Command>,
    /// The payload of a panic in a command.
    pub(crate) panic: Cell<Option<Box<dyn Any + Send>>>,
    /// The settings of `cjson`.
    pub(crate) json: Settings,
    /// The state of `math.random`.
    pub(crate) random: Cell<u64>,
    /// Whether the script has changed the collector's settings.
    pub(crate) is_tuned: Cell<bool>,
    pub(crate) proxies: Proxies,
    pub(crate) registrations: Registrations,
}

/// A command that a script calls.
#[derive(Default)]
pub(crate) struct Command {
    /// The arguments, which point to Lua's strings and to `digits`.
    pub(crate) arguments: Vec<&'static [u8]>,
    /// The digits of the numeric arguments.
    pub(crate) digits: Vec<u8>,
    /// The index of each numeric argument, and its range in `digits`.
    pub(crate) numbers: Vec<(usize, Range<usize>)>,
    pub(crate) reply: Tape,
}

// SAFETY: `Workspace` is `repr(C)`, and the context is its first field.
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
        // SAFETY: only `Machine::new` creates interpreters, each with a workspace that outlives it.
        unsafe { &*state.allocator_data().cast() }
    }

    /// Returns the command that the script calls.
    #[inline]
    pub(crate) fn command(&self) -> *mut Command {
        self.command.get()
    }
}
