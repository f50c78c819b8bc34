//! What the functions of the libraries keep in an interpreter.

use std::any::Any;

use mlua_sys::lua_State;

use super::cjson::settings::Settings;
use super::proxies::Proxies;
use super::redis::registrations::Registrations;
use crate::state::context::Context;
use crate::values::reply_tape::ReplyTape;

/// Where `math.random` begins.
const RANDOM: u64 = 0x1234_abcd_330e;

/// The context of an interpreter, and what the libraries need. Lua knows the place of both: that of the context, which
/// is the first field.
#[repr(C)]
pub(crate) struct Workspace {
    pub(crate) context: Context,
    /// The arguments of a command, which lie in values on Lua's stack and in `digits`.
    pub(crate) arguments: Vec<&'static [u8]>,
    /// Numbers among them.
    pub(crate) digits: Vec<u8>,
    /// What a command answered.
    pub(crate) reply: ReplyTape,
    /// What a command panicked with.
    pub(crate) panic: Option<Box<dyn Any + Send>>,
    /// The settings of `cjson`.
    pub(crate) json: Settings,
    /// The state of `math.random`.
    pub(crate) random: u64,
    /// Whether the script has changed how garbage is collected.
    pub(crate) is_tuned: bool,
    pub(crate) proxies: Proxies,
    pub(crate) registrations: Registrations,
}

impl Workspace {
    /// That of an interpreter which is not there yet.
    pub(crate) fn new() -> Workspace {
        Workspace {
            context: Context::new(),
            arguments: Vec::new(),
            digits: Vec::new(),
            reply: ReplyTape::default(),
            panic: None,
            json: Settings::default(),
            random: RANDOM,
            is_tuned: true,
            proxies: Proxies::default(),
            registrations: Registrations::default(),
        }
    }

    /// The workspace of an interpreter.
    pub(crate) unsafe fn of(state: *mut lua_State) -> *mut Workspace {
        Context::of(state).cast()
    }
}
