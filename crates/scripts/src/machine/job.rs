//! Implements the jobs that run inside Lua: compiling a script, loading a library, and running a
//! script or a library function.

use std::ffi::c_int;

use undercroft_commands::protocol::Protocol;
use undercroft_commands::reply::Reply;
use undercroft_commands::scripts::{Script, ScriptArguments};

use super::error_handler::handle_error;
use crate::functions::{self, LibraryGlobals, LoadError};
use crate::libraries::parser;
use crate::libraries::workspace::Workspace;
use crate::sandbox::unguarded::{self, UnguardedGlobals};
use crate::sandbox::{self, GlobalReads};
use crate::state::{
    COUNTED, GLOBALS, HoldsContext, OUT_OF_MEMORY, RegistryKey, RunStatus, State, Status,
};
use crate::values::reply_writer::ReplyWriter;

/// A compiled script or a library function.
#[derive(Clone, Copy)]
pub(super) struct Compiled {
    pub(super) function: RegistryKey,
    /// Whether the script reads `KEYS` and `ARGV`. `None` if the script runs with guarded globals.
    pub(super) reads: Option<GlobalReads>,
}

/// The registry keys of the values that every run requires.
#[derive(Clone, Copy, Default)]
pub(super) struct RunKeys {
    /// The registry key of the function [`run`].
    pub(super) run: RegistryKey,
    /// The registry key of the function [`handle_error`].
    handler: RegistryKey,
    pub(super) unguarded: UnguardedGlobals,
    pub(super) functions: LibraryGlobals,
}

/// A job and its outcome. No field needs a destructor, because a Lua error skips destructors.
pub(super) struct Job<'a> {
    pub(super) workspace: &'a Workspace,
    pub(super) keys: &'a mut RunKeys,
    pub(super) script: &'a Script,
    pub(super) called: Option<&'a ScriptArguments<'a>>,
    /// The compiled script to run, or the result of a compilation job.
    pub(super) compiled: Option<Compiled>,
    pub(super) reply: Option<&'a mut dyn Reply>,
    pub(super) outcome: Outcome,
}

/// The outcome of a job.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Outcome {
    Done,
    /// The script raised an error. The context holds the message.
    Error,
    /// The job failed for a reason outside the script. The context holds the message.
    Failed,
}

/// Sets up a new interpreter.
pub(super) fn prepare(state: &mut State<'_>, keys: &mut RunKeys) {
    sandbox::prepare(state);
    let unguarded = unguarded::prepare(state);
    state.set_top(0);
    let functions = functions::prepare(state);
    let run = state.keep_body(run);
    state.push_function(handle_error);
    *keys = RunKeys {
        run,
        handler: state.keep(),
        unguarded,
        functions,
    };
}

/// Compiles the job's script.
pub(super) fn compile(state: &mut State<'_>, job: &mut Job<'_>) {
    sandbox::use_globals(state, job.workspace);
    state.push_bytes(b"@user_script");
    if parser::load_program(state, job.script.program(), parser::PROGRAM_MAX) != Status::DONE {
        state.keep_error();
        job.outcome = Outcome::Failed;
        return;
    }
    let reads = sandbox::find_reads(state);
    if reads.is_some() {
        unguarded::use_globals(state, &job.keys.unguarded);
    }
    let function = state.keep();
    job.compiled = Some(Compiled { function, reads });
}

/// Runs the program of the job's library, which registers the library's functions.
pub(super) fn load(state: &mut State<'_>, job: &mut Job<'_>) {
    job.outcome = match functions::load(state, job.keys.functions, job.script.program()) {
        Ok(()) => Outcome::Done,
        Err(LoadError::Compiling) => Outcome::Failed,
        Err(LoadError::Running) => Outcome::Error,
    };
}

/// Runs the job's script or library function, and writes its reply.
#[inline]
pub(super) fn run(state: &mut State<'_>, job: &mut Job<'_>) {
    let context = job.workspace.context();
    let (Some(called), Some(compiled)) = (job.called, job.compiled) else {
        context.set_error(b"it is not compiled");
        job.outcome = Outcome::Failed;
        return;
    };
    state.push_kept(job.keys.handler);
    let handler = state.top();
    let arguments = push_called(state, job, compiled, called);
    if state.call_protected(arguments, 1, handler) != Status::DONE {
        let name = called.function.unwrap_or(job.script.sha().as_bytes());
        job.outcome = keep_raised(state, name);
        return;
    }
    if context.status.get() == RunStatus::Running
        && let Some(reply) = &mut job.reply
    {
        let protocol = context.ask_host(|host| host.protocol());
        let mut writer = ReplyWriter {
            reply: &mut **reply,
            as_resp3: protocol == Some(Protocol::Resp3),
        };
        writer.write(state);
    }
}

/// Pushes the function to call and its arguments. Returns the number of arguments.
#[inline]
fn push_called(
    state: &mut State<'_>,
    job: &mut Job<'_>,
    Compiled { function, reads }: Compiled,
    called: &ScriptArguments<'_>,
) -> c_int {
    if let Some(reads) = reads {
        let globals = &mut job.keys.unguarded;
        unguarded::set_texts(state, globals, reads, called.keys, called.arguments);
        state.push_kept(function);
        return 0;
    }
    sandbox::use_globals(state, job.workspace);
    if called.function.is_some() {
        functions::push(state, job.workspace, job.keys.functions, function);
        push_texts(state, called.keys);
        push_texts(state, called.arguments);
        return 2;
    }
    set_texts(state, job.workspace, b"KEYS", called.keys);
    set_texts(state, job.workspace, b"ARGV", called.arguments);
    state.push_kept(function);
    // Set the environment, because an earlier run can have changed it.
    state.push_value(GLOBALS);
    state.set_environment(-2);
    0
}

/// Stores the message of the error that a script raised, which is on top of the stack.
#[cold]
fn keep_raised(state: &mut State<'_>, name: &[u8]) -> Outcome {
    let context = state.context();
    if context.status.get() == RunStatus::OutOfMemory {
        context.set_error(OUT_OF_MEMORY);
        return Outcome::Failed;
    }
    if !state.is_table(-1) {
        const LONGEST: usize = 100;
        let text = match state.is_string(-1) {
            true => state.c_bytes(-1),
            false => b"execution failure",
        };
        context.set_error(&text[..text.len().min(LONGEST)]);
        return Outcome::Failed;
    }
    state.push_field(-1, c"err");
    let text = match state.is_string(-1) {
        true => state.c_bytes(-1),
        false => b"ERR unknown error",
    };
    context.set_error(text);
    state.pop(1);
    state.push_field(-1, COUNTED);
    if state.boolean(-1) {
        context.ask_host(|host| host.set_counted());
    }
    state.pop(1);
    state.push_field(-1, c"source");
    state.push_field(-2, c"line");
    if state.is_string(-1) && state.is_string(-2) {
        let (source, line) = (state.c_bytes(-2), state.c_bytes(-1));
        context.extend_error(&[b" script: ", name, b", on ", source, b":", line, b"."]);
    }
    Outcome::Error
}

/// Sets a global variable to a table of strings.
fn set_texts(state: &mut State<'_>, workspace: &Workspace, name: &[u8], texts: &[&[u8]]) {
    workspace.proxies.push_globals(state);
    state.push_bytes(name);
    push_texts(state, texts);
    state.raw_set(-3);
    state.pop(1);
}

/// Pushes a table of strings.
fn push_texts(state: &mut State<'_>, texts: &[&[u8]]) {
    state.push_table(texts.len().min(1 << 20) as c_int, 0);
    for (index, text) in texts.iter().enumerate() {
        state.push_bytes(text);
        state.set_item(-2, index as c_int + 1);
    }
}
