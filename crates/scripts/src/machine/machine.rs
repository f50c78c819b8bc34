//! An interpreter, and a run of a script in it.

use std::ffi::{c_int, c_void};
use std::ptr::null_mut;

use mlua_sys::{
    LUA_GCCOLLECT, LUA_GCRESTART, LUA_GCSETPAUSE, LUA_GCSETSTEPMUL, LUA_REGISTRYINDEX, lua_State,
    lua_close, lua_cpcall, lua_gc, lua_newstate, lua_pcall, lua_pushlightuserdata, lua_rawgeti_,
    lua_settop,
};
use undercroft_commands::arguments::CommandError;
use undercroft_commands::reply::Reply;
use undercroft_commands::script::{
    BySha, Called, Calls, LibraryFunction, Script, ScriptLimits, Stop,
};

use super::job::{self, Compiled, Job, Outcome, RunKeys};
use crate::functions;
use crate::libraries::cjson::settings::Settings;
use crate::libraries::redis::registrations::RegisteredFunction;
use crate::libraries::workspace::Workspace;
use crate::state::context::{Context, RunStatus};
use crate::state::{Deadline, limits};

/// An interpreter that has compiled so many scripts is given up.
const COMPILED_MAX: usize = 2048;
/// Garbage is collected once an interpreter has grown to so many hundredths of what was left the last time. With more,
/// strings are made and looked for in memory that the caches have lost; with less, it is looked through more often than
/// that saves.
const PAUSE: c_int = 150;
/// How much is collected at a time, beside what is made, in hundredths: as Lua has it.
const STEP: c_int = 200;
/// An interpreter that has taken more, or a quarter of what it may take, is cleaned at the end of a run.
const KEPT_MAX: usize = 16 << 20;

/// An interpreter, and what the functions of this crate that it calls need.
pub(crate) struct Machine {
    state: *mut lua_State,
    workspace: Box<Workspace>,
    keys: RunKeys,
    /// The compiled scripts.
    compiled: BySha<Compiled>,
    /// And the functions of libraries.
    libraries: BySha<Vec<RegisteredFunction>>,
    /// Bytes that it may keep between runs, garbage and all.
    bytes_kept: usize,
    is_broken: bool,
}

/// Gives, resizes and takes back memory, as Lua asks for it.
unsafe extern "C" fn allocate(
    context: *mut c_void,
    place: *mut c_void,
    old: usize,
    new: usize,
) -> *mut c_void {
    let context = context.cast::<Context>();
    (*context).memory.resize(place.cast(), old, new).cast()
}

impl Machine {
    /// A new interpreter; none where there is no memory for it.
    pub(crate) fn new() -> Option<Box<Machine>> {
        let mut machine = Box::new(Machine {
            state: null_mut(),
            workspace: Box::new(Workspace::new()),
            keys: RunKeys::default(),
            compiled: BySha::default(),
            libraries: BySha::default(),
            bytes_kept: KEPT_MAX,
            is_broken: false,
        });
        let place: *mut Workspace = &raw mut *machine.workspace;
        // SAFETY: the workspace stays where it is, in its box, for as long as its interpreter lives, and its context is
        // its first field; `prepare` runs protected, so that no error leaves it.
        let status = unsafe {
            let state = lua_newstate(allocate, place.cast());
            if state.is_null() {
                return None;
            }
            machine.state = state;
            machine.workspace.context.state = state;
            lua_cpcall(state, job::prepare, (&raw mut machine.keys).cast())
        };
        (status == 0).then_some(machine)
    }

    /// Brings the sum of the memory of all threads up to date.
    pub(crate) fn publish_memory(&mut self) {
        self.workspace.context.memory.publish();
    }

    #[cfg(test)]
    pub(crate) fn state(&self) -> *mut lua_State {
        self.state
    }

    /// Where the registry holds the tables that scripts and libraries see as their globals.
    #[cfg(test)]
    pub(crate) fn global_tables(&self) -> Vec<c_int> {
        let functions = self.keys.functions.places();
        let mut places = vec![self.workspace.proxies.place(), self.keys.unguarded.place()];
        places.extend(functions);
        places
    }

    /// Whether its next script should run in it, too.
    pub(crate) fn is_worth_keeping(&self) -> bool {
        !self.is_broken && self.compiled.len() + self.libraries.len() < COMPILED_MAX
    }

    /// Compiles a script, unless it is compiled already.
    ///
    /// # Errors
    /// What Lua says of it, and where it takes longer than a script may run.
    pub(crate) fn compile(
        &mut self,
        script: &Script,
        limits: ScriptLimits,
    ) -> Result<(), CommandError> {
        if self.compiled.contains_key(script.sha()) {
            return Ok(());
        }
        self.limit(limits);
        self.workspace.context.deadline = limits.time.map(Deadline::after);
        self.workspace.context.deadline_error = b"it takes longer than a script may run";
        let mut job = Job {
            workspace: &raw mut *self.workspace,
            keys: &raw mut self.keys,
            script,
            called: None,
            function: None,
            reply: None,
            outcome: Outcome::Done,
        };
        let place = (&raw mut job).cast();
        let state = self.state;
        // SAFETY: the job outlives the call, which runs protected.
        let status = unsafe { lua_cpcall(state, job::compile, place) };
        let (outcome, compiled) = (job.outcome, job.function);
        self.workspace.context.memory.limit = usize::MAX;
        self.workspace.context.deadline = None;
        self.clear();
        match (status, outcome) {
            (0, Outcome::Done) => {
                self.compiled
                    .extend(compiled.map(|compiled| (*script.sha(), compiled)));
                Ok(())
            }
            (0, _) => Err(CommandError::from_parts(&[
                b"ERR Error compiling script (new function): ",
                &self.workspace.context.text,
            ])),
            _ => Err(CommandError::fixed(
                "ERR Error compiling script (new function): not enough memory",
            )),
        }
    }

    /// Compiles what is to run, unless it is compiled already, and asks whether the script may go on meanwhile.
    fn compile_to_run(
        &mut self,
        script: &Script,
        called: &Called<'_>,
        calls: &mut Calls<'_, '_>,
    ) -> Result<Option<Compiled>, Stop> {
        if let Some(function) = self.function(script, called) {
            return Ok(Some(function));
        }
        let compiled = match called.function {
            None => {
                self.workspace.context.calls = (&raw mut *calls).cast();
                // SAFETY: the interpreter is this thread's, and nothing runs in it.
                unsafe { limits::start_hook(&raw mut self.workspace.context) };
                let compiled = self.compile(script, calls.limits());
                self.workspace.context.calls = null_mut();
                compiled
            }
            Some(_) => self.load_library(script, calls.limits()).map(drop),
        };
        match std::mem::replace(&mut self.workspace.context.status, RunStatus::Running) {
            RunStatus::Stopped => Err(Stop::Stopped),
            RunStatus::Killed => Err(Stop::Error(CommandError::from_parts(&[&self
                .workspace
                .context
                .text]))),
            RunStatus::Running | RunStatus::OutOfMemory => {
                compiled.map_err(Stop::Error)?;
                Ok(self.function(script, called))
            }
        }
    }

    /// The functions that a library registers. Its program is run, unless it has been.
    ///
    /// # Errors
    /// What is wrong with it.
    pub(crate) fn load_library(
        &mut self,
        library: &Script,
        limits: ScriptLimits,
    ) -> Result<Vec<LibraryFunction>, CommandError> {
        let copied = |registered: &[RegisteredFunction]| {
            let all = registered.iter();
            all.map(|(function, _)| function.clone()).collect()
        };
        if let Some(registered) = self.libraries.get(library.sha()) {
            return Ok(copied(registered));
        }
        self.limit(limits);
        self.workspace.context.deadline = Some(Deadline::after(functions::LOAD_TIME));
        self.workspace.context.deadline_error = b"ERR FUNCTION LOAD timeout";
        self.workspace.context.stack_start = (&raw const library).addr();
        let mut job = Job {
            workspace: &raw mut *self.workspace,
            keys: &raw mut self.keys,
            script: library,
            called: None,
            function: None,
            reply: None,
            outcome: Outcome::Done,
        };
        let place = (&raw mut job).cast();
        let state = self.state;
        // SAFETY: the job outlives the call, which runs protected.
        let status = unsafe {
            limits::start_hook(&raw mut (*job.workspace).context);
            lua_cpcall(state, job::load, place)
        };
        let outcome = job.outcome;
        self.workspace.context.memory.limit = usize::MAX;
        self.workspace.context.deadline = None;
        let registered = self.workspace.registrations.end();
        self.clear();
        let what: &[u8] = match outcome {
            _ if status != 0 => {
                // The functions that it registered stay in the registry.
                self.is_broken = true;
                return Err(CommandError::fixed(
                    "ERR Error registering functions: ERR not enough memory",
                ));
            }
            Outcome::Done => {
                let all = copied(&registered);
                self.libraries.insert(*library.sha(), registered);
                return Ok(all);
            }
            Outcome::Failed => b"ERR Error compiling function: ",
            Outcome::Error => b"ERR Error registering functions: ",
        };
        Err(CommandError::from_parts(&[
            what,
            &self.workspace.context.text,
        ]))
    }

    /// Limits the memory that a script may take.
    fn limit(&mut self, limits: ScriptLimits) {
        self.workspace.context.memory.limit = limits.memory.max(self.workspace.context.memory.used);
        self.bytes_kept = (limits.memory / 4).min(KEPT_MAX);
    }

    /// What is to be called, if it is compiled.
    fn function(&self, script: &Script, called: &Called<'_>) -> Option<Compiled> {
        let Some(name) = called.function else {
            return self.compiled.get(script.sha()).copied();
        };
        let mut all = self.libraries.get(script.sha())?.iter();
        let found = all.find(|(function, _)| function.name == name)?;
        Some(Compiled {
            place: found.1,
            reads: None,
        })
    }

    /// Runs a script and writes what it returns.
    pub(crate) fn run(
        &mut self,
        script: &Script,
        called: &Called<'_>,
        calls: &mut Calls<'_, '_>,
        reply: &mut dyn Reply,
    ) -> Result<(), Stop> {
        self.workspace.context.status = RunStatus::Running;
        let function = self.compile_to_run(script, called, calls)?;
        self.limit(calls.limits());
        self.workspace.context.reply_bytes = 0;
        self.workspace.context.stack_start = (&raw const script).addr();
        self.workspace.json = Settings::default();
        self.workspace.context.calls = (&raw mut *calls).cast();
        let mut job = Job {
            workspace: &raw mut *self.workspace,
            keys: &raw mut self.keys,
            script,
            called: Some(*called),
            function,
            reply: Some(reply),
            outcome: Outcome::Done,
        };
        let place = (&raw mut job).cast();
        let state = self.state;
        // SAFETY: the job and what it refers to outlive the call, which runs protected, and before which no memory is
        // asked for; the store for the script is taken away again below.
        let status = unsafe {
            limits::start_hook(&raw mut (*job.workspace).context);
            lua_rawgeti_(state, LUA_REGISTRYINDEX, self.keys.run);
            lua_pushlightuserdata(state, place);
            lua_pcall(state, 1, 0, 0)
        };
        let outcome = job.outcome;
        self.workspace.context.calls = null_mut();
        self.workspace.context.memory.limit = usize::MAX;
        let run_status = std::mem::replace(&mut self.workspace.context.status, RunStatus::Running);
        if let Some(panic) = self.workspace.panic.take() {
            self.is_broken = true;
            std::panic::resume_unwind(panic);
        }
        self.clear();
        if run_status == RunStatus::Stopped {
            return Err(Stop::Stopped);
        }
        if status != 0 {
            // Where its answer was made, or its arguments.
            if run_status == RunStatus::Killed {
                return Err(Stop::Error(CommandError::from_parts(&[&self
                    .workspace
                    .context
                    .text])));
            }
            self.workspace.context.text.clear();
            self.workspace
                .context
                .text
                .extend_from_slice(b"not enough memory");
        }
        match outcome {
            Outcome::Done if status == 0 => Ok(()),
            Outcome::Error => Err(Stop::Error(CommandError::from_parts(&[&self
                .workspace
                .context
                .text]))),
            _ => Err(Stop::Error(CommandError::from_parts(&[
                b"ERR Error running script ",
                called.function.unwrap_or(script.sha().as_bytes()),
                b", ",
                &self.workspace.context.text,
            ]))),
        }
    }

    /// Takes everything off the stack, and collects garbage where there is much. The text stays, its spare room does not.
    fn clear(&mut self) {
        const TEXT_KEPT: usize = 64 << 10;
        self.workspace.reply.trim();
        self.workspace.context.text.shrink_to(TEXT_KEPT);
        self.workspace.context.memory.extra = 0;
        // SAFETY: none of these calls can fail: finalizers are Lua's own only, as `newproxy` makes none that a script
        // could give a function to (see `sandbox`).
        unsafe {
            lua_settop(self.state, 0);
            if self.workspace.is_tuned {
                self.workspace.is_tuned = false;
                lua_gc(self.state, LUA_GCRESTART, 0);
                lua_gc(self.state, LUA_GCSETPAUSE, PAUSE);
                lua_gc(self.state, LUA_GCSETSTEPMUL, STEP);
            }
            if self.workspace.context.memory.used > self.bytes_kept {
                lua_gc(self.state, LUA_GCCOLLECT, 0);
            }
        }
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        if !self.state.is_null() {
            self.workspace.context.memory.limit = usize::MAX;
            // SAFETY: nobody uses the interpreter any more.
            unsafe { lua_close(self.state) };
        }
    }
}
