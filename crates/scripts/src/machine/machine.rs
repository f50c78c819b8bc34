//! Implements a thread's interpreter, which compiles and runs scripts.

use std::ffi::c_int;

use undercroft_commands::arguments::CommandError;
use undercroft_commands::context::Calls;
use undercroft_commands::reply::Reply;
use undercroft_commands::scripts::{
    LibraryFunction, Script, ScriptArguments, ScriptError, ScriptLimits, ShaMap,
};

use super::job::{self, Compiled, Job, Outcome, RunKeys};
use crate::functions;
use crate::libraries::redis::registrations::RegisteredFunction;
use crate::libraries::workspace::Workspace;
#[cfg(test)]
use crate::state::RegistryKey;
use crate::state::{
    Collection, Context, Deadline, HoldsContext, Interpreter, OUT_OF_MEMORY, RunStatus, Status,
};

/// The number of compiled scripts and libraries at which an interpreter is dropped.
const COMPILED_MAX: usize = 2048;
/// The collector starts when memory reaches this percentage of the memory that the last collection
/// retained. With a larger value, strings no longer fit in the CPU caches. With a smaller value,
/// collections cost more than they save.
const PAUSE: c_int = 150;
/// The collector's speed, as a percentage of the allocation rate. This is Lua's default.
const STEP: c_int = 200;
/// The memory, in bytes, above which an interpreter collects all garbage after a run. A quarter of
/// the memory limit applies instead if it is smaller.
const KEPT_MAX: usize = 16 << 20;

/// A Lua interpreter with its compiled scripts and libraries.
pub(crate) struct Machine {
    pub(super) interpreter: Interpreter<Workspace>,
    keys: RunKeys,
    /// The compiled scripts, by their SHA-1 digest.
    compiled: ShaMap<Compiled>,
    /// The functions of the loaded libraries, by the SHA-1 digest of the library's program.
    libraries: ShaMap<Vec<RegisteredFunction>>,
    /// The memory, in bytes, that the interpreter retains between runs, including garbage.
    bytes_kept: usize,
    is_broken: bool,
}

impl Machine {
    /// Returns a new interpreter, or `None` if it cannot be allocated.
    pub(crate) fn new() -> Option<Box<Machine>> {
        let interpreter = Interpreter::new(Workspace::new())?;
        let mut keys = RunKeys::default();
        let status = interpreter.run_protected(job::prepare, &mut keys);
        (status == Status::DONE).then(|| {
            Box::new(Machine {
                interpreter,
                keys,
                compiled: ShaMap::default(),
                libraries: ShaMap::default(),
                bytes_kept: KEPT_MAX,
                is_broken: false,
            })
        })
    }

    fn context(&self) -> &Context {
        self.interpreter.workspace().context()
    }

    /// Adds the change in this interpreter's memory use to the total for all threads.
    pub(crate) fn publish_memory(&self) {
        self.context().memory.publish();
    }

    /// Returns the registry keys of the tables that scripts and libraries see as their globals.
    #[cfg(test)]
    pub(super) fn global_tables(&self) -> Vec<RegistryKey> {
        let proxies = &self.interpreter.workspace().proxies;
        let mut keys = vec![proxies.globals(), self.keys.unguarded.key()];
        keys.extend(self.keys.functions.keys());
        keys
    }

    /// Returns whether the thread should keep this interpreter for its next script.
    pub(crate) fn is_worth_keeping(&self) -> bool {
        !self.is_broken && self.compiled.len() + self.libraries.len() < COMPILED_MAX
    }

    /// Sets the limit on the memory that a script can use.
    fn limit(&mut self, limits: ScriptLimits) {
        let memory = &self.context().memory;
        memory.limit.set(limits.memory.max(memory.used.get()));
        self.bytes_kept = (limits.memory / 4).min(KEPT_MAX);
    }

    /// Returns the last error message, preceded by `words`.
    #[cold]
    fn last_error(&self, words: &[u8]) -> CommandError {
        self.context()
            .read_error(|text| CommandError::from_parts(&[words, text]))
    }

    /// Clears the stack, and collects garbage if the interpreter uses much memory. Retains the
    /// error message.
    fn clear(&mut self) {
        let workspace = self.interpreter.workspace();
        // SAFETY: no command is running, so this is the only reference to the workspace's command.
        unsafe { &mut *workspace.command() }.reply.trim();
        workspace.context().clear_scratch();
        self.interpreter.clear_stack();
        if workspace.is_tuned.get() {
            workspace.is_tuned.set(false);
            self.interpreter.collect(Collection::Restart, 0);
            self.interpreter.collect(Collection::SetPause, PAUSE);
            self.interpreter
                .collect(Collection::SetStepMultiplier, STEP);
        }
        if workspace.context().memory.used.get() > self.bytes_kept {
            self.interpreter.collect(Collection::All, 0);
        }
    }
}

/// Methods that compile scripts and load libraries.
impl Machine {
    /// Compiles a script unless it is already compiled. If there is a host, it is regularly asked
    /// whether to continue.
    ///
    /// # Errors
    /// Returns an error if the script does not compile, or if compilation exceeds the time limit
    /// for scripts.
    pub(crate) fn compile(
        &mut self,
        script: &Script,
        limits: ScriptLimits,
        host: Option<&mut Calls<'_, '_>>,
    ) -> Result<(), CommandError> {
        if self.compiled.contains_key(script.sha()) {
            return Ok(());
        }
        self.limit(limits);
        let (interpreter, workspace) = (&self.interpreter, self.interpreter.workspace());
        let context = workspace.context();
        let deadline = limits.time.map(Deadline::after);
        let too_late = &b"it takes longer than a script may run"[..];
        context.deadline.set(deadline.map(|at| (at, too_late)));
        let mut job = Job {
            workspace,
            keys: &mut self.keys,
            script,
            called: None,
            compiled: None,
            reply: None,
            outcome: Outcome::Done,
        };
        let mut compile = || interpreter.run_protected(job::compile, &mut job);
        let status = match host {
            None => compile(),
            Some(host) => context.with_host(host, || {
                context.start_hook();
                compile()
            }),
        };
        let (outcome, compiled) = (job.outcome, job.compiled);
        context.memory.limit.set(usize::MAX);
        context.deadline.set(None);
        self.clear();
        match (status, outcome) {
            (Status::DONE, Outcome::Done) => {
                let compiled = compiled.map(|compiled| (*script.sha(), compiled));
                self.compiled.extend(compiled);
                Ok(())
            }
            (Status::DONE, _) => {
                Err(self.last_error(b"ERR Error compiling script (new function): "))
            }
            _ => Err(CommandError::fixed(
                "ERR Error compiling script (new function): not enough memory",
            )),
        }
    }

    /// Compiles the called script, or loads the called function's library, unless this has already
    /// been done. Regularly asks the host whether to continue.
    #[inline]
    fn compile_to_run(
        &mut self,
        script: &Script,
        called: &ScriptArguments<'_>,
        calls: &mut Calls<'_, '_>,
    ) -> Result<Option<Compiled>, ScriptError> {
        if let Some(function) = self.function(script, called) {
            return Ok(Some(function));
        }
        let limits = calls.limits();
        let compiled = match called.function {
            None => self.compile(script, limits, Some(calls)),
            Some(_) => self.load_library(script, limits).map(drop),
        };
        match self.context().status.replace(RunStatus::Running) {
            RunStatus::Stopped => Err(ScriptError::Stopped),
            RunStatus::Killed => Err(ScriptError::Error(self.last_error(b""))),
            RunStatus::Running | RunStatus::OutOfMemory => {
                compiled.map_err(ScriptError::Error)?;
                Ok(self.function(script, called))
            }
        }
    }

    /// Returns the functions that a library registers. Runs the library's program if this
    /// interpreter has not yet run it.
    ///
    /// # Errors
    /// Returns an error if the library cannot be loaded.
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
        let workspace = self.interpreter.workspace();
        let context = workspace.context();
        let deadline = Deadline::after(functions::LOAD_TIME);
        let too_late = &b"ERR FUNCTION LOAD timeout"[..];
        context.deadline.set(Some((deadline, too_late)));
        context.stack_start.set((&raw const library).addr());
        let mut job = Job {
            workspace,
            keys: &mut self.keys,
            script: library,
            called: None,
            compiled: None,
            reply: None,
            outcome: Outcome::Done,
        };
        context.start_hook();
        let status = self.interpreter.run_protected(job::load, &mut job);
        let outcome = job.outcome;
        context.memory.limit.set(usize::MAX);
        context.deadline.set(None);
        let registered = workspace.registrations.end();
        self.clear();
        let words: &[u8] = match outcome {
            _ if status != Status::DONE => {
                // The interpreter cannot release the functions that the program registered, so mark
                // the interpreter to be dropped.
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
        Err(self.last_error(words))
    }

    /// Returns the called script or function, or `None` if it is not compiled.
    fn function(&self, script: &Script, called: &ScriptArguments<'_>) -> Option<Compiled> {
        let Some(name) = called.function else {
            return self.compiled.get(script.sha()).copied();
        };
        let mut all = self.libraries.get(script.sha())?.iter();
        let found = all.find(|(function, _)| function.name == name)?;
        Some(Compiled {
            function: found.1,
            reads: None,
        })
    }
}

/// Methods that run scripts.
impl Machine {
    /// Runs a script, and writes its reply.
    #[inline]
    pub(crate) fn run(
        &mut self,
        script: &Script,
        called: &ScriptArguments<'_>,
        calls: &mut Calls<'_, '_>,
        reply: &mut dyn Reply,
    ) -> Result<(), ScriptError> {
        self.context().status.set(RunStatus::Running);
        let compiled = self.compile_to_run(script, called, calls)?;
        self.limit(calls.limits());
        let (interpreter, workspace) = (&self.interpreter, self.interpreter.workspace());
        let context = workspace.context();
        context.reply_bytes.set(0);
        context.stack_start.set((&raw const script).addr());
        workspace.json.reset();
        let run = self.keys.run;
        let mut job = Job {
            workspace,
            keys: &mut self.keys,
            script,
            called: Some(called),
            compiled,
            reply: Some(reply),
            outcome: Outcome::Done,
        };
        let status = context.with_host(calls, || {
            context.start_hook();
            // SAFETY: the function with the registry key `run` expects a `Job`, and the stack is
            // empty, so two values fit.
            unsafe { interpreter.call_kept(run, &mut job) }
        });
        let outcome = job.outcome;
        context.memory.limit.set(usize::MAX);
        let run_status = context.status.replace(RunStatus::Running);
        if let Some(panic) = workspace.panic.take() {
            self.is_broken = true;
            std::panic::resume_unwind(panic);
        }
        self.clear();
        match (run_status, status, outcome) {
            (RunStatus::Stopped, ..) => Err(ScriptError::Stopped),
            (_, Status::DONE, Outcome::Done) => Ok(()),
            (_, Status::DONE, Outcome::Error) => Err(ScriptError::Error(self.last_error(b""))),
            (_, Status::DONE, Outcome::Failed) => Err(self.error_in(script, called)),
            // The script was killed while its arguments were pushed or its reply was written.
            (RunStatus::Killed, ..) => Err(ScriptError::Error(self.last_error(b""))),
            _ => {
                self.context().set_error(OUT_OF_MEMORY);
                Err(self.error_in(script, called))
            }
        }
    }

    /// Returns the error of a run that failed for a reason outside the script.
    #[cold]
    fn error_in(&self, script: &Script, called: &ScriptArguments<'_>) -> ScriptError {
        let name = called.function.unwrap_or(script.sha().as_bytes());
        let error = self.context().read_error(|text| {
            CommandError::from_parts(&[b"ERR Error running script ", name, b", ", text])
        });
        ScriptError::Error(error)
    }
}
