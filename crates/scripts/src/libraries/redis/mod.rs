//! The library `redis`: commands, and what belongs to them.
//!
//! - `commands`: commands that a script calls.
//! - `register`: `redis.register_function`.
//! - `registrations`: what the program of a library has registered.
//! - `replies`: replies that a script makes.
//! - `run`: the run of a script: its log, its protocol, its effects.

mod commands;
pub(crate) mod register;
pub(crate) mod registrations;
mod replies;
mod run;

use std::ffi::CStr;

use crate::libraries::function::{Function, Memory, asked, bounded, constant};
use crate::state::State;
use commands::{acl_check_cmd, call, pcall};
use replies::{error_reply, sha1hex, status_reply};
use run::{breakpoint, debug, log, replicate_commands, set_repl, setresp};

/// The functions.
pub(crate) const FUNCTIONS: &[Function] = &[
    bounded(
        c"call",
        call,
        "one command, as of any client; its reply is asked",
        Memory::Counted,
    ),
    bounded(
        c"pcall",
        pcall,
        "one command, as of any client; its reply is asked",
        Memory::Counted,
    ),
    asked(c"sha1hex", sha1hex, "bytes", Memory::Fixed),
    asked(c"error_reply", error_reply, "bytes", Memory::Counted),
    constant(c"status_reply", status_reply),
    asked(c"log", log, "bytes", Memory::Counted),
    constant(c"setresp", setresp),
    constant(c"set_repl", set_repl),
    constant(c"replicate_commands", replicate_commands),
    constant(c"breakpoint", breakpoint),
    constant(c"debug", debug),
    constant(c"acl_check_cmd", acl_check_cmd),
];

/// Adds the values that are not functions to the table on top.
pub(crate) fn add_values(state: &mut State<'_>) {
    for (name, number) in NUMBERS {
        state.push_number(*number);
        state.set_field(-2, name);
    }
    state.push_bytes(VERSION);
    state.set_field(-2, c"REDIS_VERSION");
}

/// The version of Redis whose behaviour this is.
pub(crate) const VERSION: &[u8] = b"7.0.15";

/// The constants that are numbers.
pub(crate) const NUMBERS: &[(&CStr, f64)] = &[
    (c"LOG_DEBUG", 0.0),
    (c"LOG_VERBOSE", 1.0),
    (c"LOG_NOTICE", 2.0),
    (c"LOG_WARNING", 3.0),
    (c"REPL_NONE", 0.0),
    (c"REPL_AOF", 1.0),
    (c"REPL_SLAVE", 2.0),
    (c"REPL_REPLICA", 2.0),
    (c"REPL_ALL", 3.0),
    // The version above, a byte for each part.
    (c"REDIS_VERSION_NUM", 458_767.0),
];
