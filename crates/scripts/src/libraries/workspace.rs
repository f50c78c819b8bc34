//! What the functions of the libraries keep in an interpreter.

use std::any::Any;
use std::cell::{Cell, UnsafeCell};
use std::ops::Range;

use undercroft_commands::reply::Tape;

use super::cjson::settings::Settings;
use super::proxies::Proxies;
use super::redis::registrations::Registrations;
use crate::state::{Context, HoldsContext, State};

/// Where `math.random` begins.
const RANDOM: u64 = 0x1234_abcd_330e;

/// The context of an interpreter, and what the libraries need. As the context is the first field, the address that Lua
/// knows is that of both.
#[repr(C)]
pub(crate) struct Workspace {
    context: Context,
    command: UnsafeCell<Command>,
    /// What a command panicked with.
    pub(crate) panic: Cell<Option<Box<dyn Any + Send>>>,
    /// The settings of `cjson`.
    pub(crate) json: Settings,
    /// The state of `math.random`.
    pub(crate) random: Cell<u64>,
    /// Whether the script has changed how garbage is collected.
    pub(crate) is_tuned: Cell<bool>,
    pub(crate) proxies: Proxies,
    pub(crate) registrations: Registrations,
}

/// A command that a script calls.
#[derive(Default)]
pub(crate) struct Command {
    /// Its arguments, which lie in values on Lua's stack and in `digits`.
    pub(crate) arguments: Vec<&'static [u8]>,
    /// The digits of numbers among them.
    pub(crate) digits: Vec<u8>,
    /// Which arguments these are, and where their digits are.
    pub(crate) numbers: Vec<(usize, Range<usize>)>,
    pub(crate) reply: Tape,
}

// SAFETY: it is `repr(C)`, and the context is the first field.
unsafe impl HoldsContext for Workspace {
    fn context(&self) -> &Context {
        &self.context
    }
}

impl Workspace {
    /// That of an interpreter which is not there yet.
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

    /// The workspace of an interpreter.
    #[inline]
    pub(crate) fn of<'i>(state: &State<'i>) -> &'i Workspace {
        // SAFETY: `Machine::new` alone makes interpreters, with a workspace, which lives as long as they do.
        unsafe { &*state.allocator_data().cast() }
    }

    /// The command that the script calls.
    #[inline]
    pub(crate) fn command(&self) -> *mut Command {
        self.command.get()
    }
}
