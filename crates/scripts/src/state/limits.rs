//! Limits on the time and memory of a script.

use std::ffi::c_int;
use std::time::Duration;

use undercroft_commands::scripts::CallError;

use super::calls::{Collection, Coroutine, Status};
use super::context::{Context, Pace, RunStatus};
use super::stack::State;

/// Instructions between two looks at whether a script may go on: at first, as each may be a library's work on a long text,
/// and at most, as long as they are quick.
const FIRST: c_int = 32;
const MOST: c_int = 512;
/// Between two looks in less than this there may be more of them, in more than this there are fewer.
const QUICK: Duration = Duration::from_micros(100);
const SLOW: Duration = Duration::from_millis(1);

impl Context {
    /// Has the hook called every so many instructions of what begins.
    pub(crate) fn start_hook(&self) {
        self.pace.set(Pace {
            looked_at: Duration::ZERO,
            instructions: FIRST,
        });
        self.main().set_hook(hook, FIRST);
    }

    /// From now on the next instruction fails, wherever an error was caught.
    fn end(&self, status: RunStatus, state: &State<'_>) {
        self.status.set(status);
        self.main().set_hook(hook, 1);
        state.set_hook(hook, 1);
    }

    /// Asks the host whether the script may go on.
    fn may_go_on(&self, state: &State<'_>) -> bool {
        match self.ask_host(|host| host.tick()) {
            None => true,
            Some(Ok(elapsed)) => {
                self.adjust_pace(state, elapsed);
                true
            }
            Some(Err(CallError::Error(error))) => {
                self.set_error(error.text().as_bytes());
                self.end(RunStatus::Killed, state);
                false
            }
            Some(Err(CallError::Stopped)) => {
                self.end(RunStatus::Stopped, state);
                false
            }
        }
    }

    /// Sets when a script is looked at again that has run for so long.
    fn adjust_pace(&self, state: &State<'_>, elapsed: Duration) {
        let Pace {
            looked_at,
            instructions,
        } = self.pace.get();
        let instructions = match elapsed.saturating_sub(looked_at) {
            taken if taken < QUICK => (instructions * 2).min(MOST),
            taken if taken > SLOW => (instructions / 16).max(1),
            _ => instructions,
        };
        self.pace.set(Pace {
            looked_at: elapsed,
            instructions,
        });
        // A coroutine has a count of its own.
        state.set_hook(hook, instructions);
    }
}

/// Called every so many instructions.
fn hook(state: &State<'_>) {
    let context = state.context();
    if !context.has_host() {
        if let Some((deadline, error)) = context.deadline.get()
            && deadline.has_passed()
        {
            state.raise(error);
        }
        return state.set_hook(hook, MOST);
    }
    if !context.may_catch() || !context.may_go_on(state) {
        state.raise_ending();
    }
}

/// Time.
impl State<'_> {
    /// Raises an error where the script has to end: for functions that may take long by themselves. They call it rarely.
    #[cold]
    #[inline(never)]
    pub(crate) fn check_time(&self) {
        hook(self);
    }

    /// Ends the script that runs, whatever it does about it.
    pub(crate) fn stop(&self) -> ! {
        self.context().end(RunStatus::Stopped, self);
        self.raise_ending()
    }

    /// Has a coroutine that is about to be resumed interrupted like its script.
    pub(crate) fn hook_coroutine(&self, coroutine: Coroutine<'_>) {
        let instructions = self.context().pace.get().instructions.max(1);
        coroutine.state().set_hook(hook, instructions);
    }

    /// To be called wherever an error was caught: one that ends the script is raised again, so that no script sees it.
    pub(crate) fn check_caught(&self, status: Status) {
        let context = self.context();
        if status == Status::MEMORY && context.may_catch() && context.has_host() {
            context.end(RunStatus::OutOfMemory, self);
        }
        if !context.may_catch() {
            self.raise_ending();
        }
    }

    /// Raises the error of a script that has to end.
    fn raise_ending(&self) -> ! {
        let context = self.context();
        match context.status.get() {
            RunStatus::Killed => context.push_error(self),
            RunStatus::OutOfMemory => self.push_bytes(OUT_OF_MEMORY),
            RunStatus::Running | RunStatus::Stopped => {
                self.push_error(b"ERR the script was stopped");
            }
        }
        self.raise_top()
    }
}

pub(crate) const OUT_OF_MEMORY: &[u8] = b"not enough memory";

/// Steps that a walk through a table counts as: it may have any number of empty places, which are passed over uncounted.
pub(crate) const TABLE_WALK: usize = 4096;
/// Steps between two questions.
const STEPS: usize = 65_536;
/// Bytes that are copied or looked at in a step.
const STEP_BYTES: usize = 16;

/// Steps, for functions that have the context at hand.
impl Context {
    /// Counts steps of a function. Raises an error where the script has to end.
    #[inline]
    pub(crate) fn spend(&self, state: &State<'_>, steps: usize) {
        let spent = self.spent.get().saturating_add(steps);
        self.spent.set(spent);
        if spent >= STEPS {
            self.spent.set(0);
            state.check_time();
        }
    }

    /// The same for bytes.
    #[inline]
    pub(crate) fn spend_bytes(&self, state: &State<'_>, bytes: usize) {
        self.spend(state, 1 + bytes / STEP_BYTES);
    }
}

/// Steps.
impl State<'_> {
    /// Counts steps of a function, whatever it does. Raises an error where the script has to end.
    #[inline]
    pub(crate) fn spend(&self, steps: usize) {
        self.context().spend(self, steps);
    }

    /// The same for bytes.
    #[inline]
    pub(crate) fn spend_bytes(&self, bytes: usize) {
        self.context().spend_bytes(self, bytes);
    }

    /// Raises an error where functions of C that call one another, by way of scripts, take too much of the thread's
    /// stack. Lua counts them, too, up to 200.
    pub(crate) fn check_stack(&self) {
        let here = 0_u8;
        let context = self.context();
        let (here, began) = ((&raw const here).addr(), context.stack_start.get());
        if !context.stack_bounds.allow(here, began) {
            self.raise_here(b"C stack overflow");
        }
    }
}

/// Memory.
impl State<'_> {
    /// Ends the script, which has taken all memory that it may.
    #[cold]
    pub(crate) fn raise_memory(&self) -> ! {
        let context = self.context();
        if context.may_catch() && context.has_host() {
            context.end(RunStatus::OutOfMemory, self);
        }
        self.raise_text(OUT_OF_MEMORY)
    }

    /// Makes room for a block of memory of Lua's that may be long, by collecting garbage. Ends the script where there is
    /// none.
    pub(crate) fn make_room(&self, bytes: usize) {
        const SHORT: usize = 64 * 1024;
        if bytes < SHORT {
            return;
        }
        let memory = &self.context().memory;
        if !memory.has_room(bytes) {
            self.collect(Collection::All, 0);
            if !memory.has_room(bytes) {
                self.raise_memory();
            }
        }
    }

    /// Ends the script where a scratch text of so many bytes would exceed the limit on memory.
    pub(crate) fn check_scratch(&self, length: usize) {
        let memory = &self.context().memory;
        memory.extra.set(0);
        if !memory.has_room(length) {
            self.raise_memory();
        }
        memory.extra.set(length);
    }

    /// Pushes the scratch text, and empties it.
    pub(crate) fn push_scratch(&self) {
        let context = self.context();
        // SAFETY: there is no other reference, as `scratch` says.
        let text = unsafe { &*context.scratch() };
        self.make_room(text.len());
        self.push_bytes(text);
        context.clear_scratch();
    }

    /// Raises an error where the reply of a script gets longer than the limit on memory.
    pub(crate) fn count_reply(&self, length: usize) {
        let context = self.context();
        let bytes = context.reply_bytes.get().saturating_add(length);
        context.reply_bytes.set(bytes);
        if bytes > context.memory.limit.get() {
            self.raise_memory();
        }
    }
}
