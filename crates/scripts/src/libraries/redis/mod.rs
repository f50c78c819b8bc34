//! Implements the `redis` library, which runs commands, creates replies, writes to the log and
//! registers functions.
//!
//! - `commands`: implements `redis.call` and `redis.pcall`, which run commands.
//! - `register`: implements `redis.register_function`.
//! - `registrations`: collects the functions that a library's program registers.
//! - `replies`: implements the functions that create error replies, status replies and checksums.
//! - `run`: implements the functions for a script's log, protocol and replication.

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

/// The functions of `redis`, with the limits on each call's time and memory.
pub(crate) const FUNCTIONS: &[Function] = &[
    bounded(
        c"call",
        call,
        "the command, as for any client, and its reply",
        Memory::Counted,
    ),
    bounded(
        c"pcall",
        pcall,
        "the command, as for any client, and its reply",
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

/// Adds the constants of `redis` to the table on top of the stack.
pub(crate) fn add_values(state: &mut State<'_>) {
    for (name, number) in NUMBERS {
        state.push_number(*number);
        state.set_field(-2, name);
    }
    state.push_bytes(VERSION);
    state.set_field(-2, c"REDIS_VERSION");
}

/// The version of Redis that scripts see. The library behaves like this version.
pub(crate) const VERSION: &[u8] = b"7.0.15";

/// The numeric constants of `redis`.
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
    // `REDIS_VERSION_NUM` encodes `VERSION` with one byte per component.
    (c"REDIS_VERSION_NUM", 458_767.0),
];
