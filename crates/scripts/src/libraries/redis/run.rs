//! Implements the functions for a script's log, protocol and replication.

use std::ffi::c_int;

use undercroft_commands::protocol::Protocol;

use crate::state::State;
use crate::values::numbers::truncated;

/// Implements `redis.log`.
pub(super) fn log(state: &mut State<'_>) -> c_int {
    let count = state.top();
    if count < 2 {
        state.raise(b"ERR redis.log() requires two arguments or more.");
    }
    if !state.is_number(1) {
        state.raise(b"ERR First argument must be a number (log level).");
    }
    let level = truncated(state.number(1));
    if !(0..=3).contains(&level) {
        state.raise(b"ERR Invalid debug level.");
    }
    let context = state.context();
    context.clear_scratch();
    // SAFETY: `line` is the only reference to the scratch buffer, because no function called below
    // uses the buffer.
    let line = unsafe { &mut *context.scratch() };
    for index in 2..=count {
        if state.is_string(index) {
            let part = state.bytes(index);
            state.check_scratch(line.len() + part.len() + 1);
            state.spend_bytes(part.len());
            if index != 2 {
                line.push(b' ');
            }
            line.extend_from_slice(part);
        }
    }
    context.ask_host(|host| host.log(level as u8, line));
    0
}

/// Implements `redis.setresp`.
pub(super) fn setresp(state: &mut State<'_>) -> c_int {
    if !state.context().has_host() {
        state.raise(b"ERR redis.setresp can only be called inside a script invocation");
    }
    if state.top() != 1 {
        state.raise(b"ERR redis.setresp() requires one argument.");
    }
    let protocol = match truncated(state.number(1)) {
        2 => Protocol::Resp2,
        3 => Protocol::Resp3,
        _ => state.raise(b"ERR RESP version must be 2 or 3."),
    };
    state.context().ask_host(|host| host.set_protocol(protocol));
    0
}

/// Implements `redis.set_repl`. It has no effect, because scripts write directly to the store that
/// all processes share.
pub(super) fn set_repl(state: &mut State<'_>) -> c_int {
    if !state.context().has_host() {
        state.raise(b"ERR redis.set_repl can only be called inside a script invocation");
    }
    if state.top() != 1 {
        state.raise(b"ERR redis.set_repl() requires two arguments.");
    }
    if truncated(state.number(1)) & !3 != 0 {
        state.raise(
            b"ERR Invalid replication flags. Use REPL_AOF, REPL_REPLICA, REPL_ALL or REPL_NONE.",
        );
    }
    0
}

/// Implements `redis.replicate_commands`.
pub(super) fn replicate_commands(state: &mut State<'_>) -> c_int {
    state.push_boolean(true);
    1
}

/// Implements `redis.breakpoint`. It returns false, because there is no debugger.
pub(super) fn breakpoint(state: &mut State<'_>) -> c_int {
    state.push_boolean(false);
    1
}

/// Implements `redis.debug`, which does nothing.
pub(super) fn debug(_: &mut State<'_>) -> c_int {
    0
}
