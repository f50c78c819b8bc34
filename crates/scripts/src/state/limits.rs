//! Enforces the limits on a script's time and memory.

use std::ffi::c_int;
use std::time::Duration;

use undercroft_commands::scripts::CallError;

use super::calls::{Collection, Coroutine, Status};
use super::context::{Context, Pace, RunStatus};
use super::stack::State;

/// The interval between two checks of the time limit, in instructions. It starts short, because a
/// single instruction can be a library call on a long string. It grows while checks follow each
/// other quickly.
const FIRST: c_int = 32;
const MOST: c_int = 512;
/// The interval grows if less than `QUICK` has passed since the last check, and shrinks if more
/// than `SLOW` has passed.
const QUICK: Duration = Duration::from_micros(100);
const SLOW: Duration = Duration::from_millis(1);

impl Context {
    /// Installs the hook when a script starts, with the initial interval.
    pub(crate) fn start_hook(&self) {
        self.pace.set(Pace {
            looked_at: Duration::ZERO,
            instructions: FIRST,
        });
        self.main().set_hook(hook, FIRST);
    }

    /// Ends the script. From then on, every instruction raises an error, even if the script catches
    /// an earlier error.
    fn end(&self, status: RunStatus, state: &State<'_>) {
        self.status.set(status);
        self.main().set_hook(hook, 1);
        state.set_hook(hook, 1);
    }

    /// Asks the host whether the script may continue.
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

    /// Adjusts the interval until the next check of a script that has run for `elapsed`.
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
        // Each coroutine has a separate instruction count.
        state.set_hook(hook, instructions);
    }
}

/// Checks whether the script must end. Lua calls this hook after a number of instructions.
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

/// Methods that enforce time limits.
impl State<'_> {
    /// Raises an error if the script must end. Long-running functions call this method regularly.
    #[cold]
    #[inline(never)]
    pub(crate) fn check_time(&self) {
        hook(self);
    }

    /// Ends the running script with an error that the script cannot catch.
    pub(crate) fn stop(&self) -> ! {
        self.context().end(RunStatus::Stopped, self);
        self.raise_ending()
    }

    /// Installs the hook in a coroutine that is about to be resumed.
    pub(crate) fn hook_coroutine(&self, coroutine: Coroutine<'_>) {
        let instructions = self.context().pace.get().instructions.max(1);
        coroutine.state().set_hook(hook, instructions);
    }

    /// Raises a caught error again if the error ends the script. Must be called wherever an error
    /// is caught, so that no script can continue after such an error.
    pub(crate) fn check_caught(&self, status: Status) {
        let context = self.context();
        if status == Status::MEMORY && context.may_catch() && context.has_host() {
            context.end(RunStatus::OutOfMemory, self);
        }
        if !context.may_catch() {
            self.raise_ending();
        }
    }

    /// Raises the error that ends the script.
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

/// The number of steps to count for iterating over a table. The iteration can skip any number of
/// empty slots, which are not counted individually.
pub(crate) const TABLE_WALK: usize = 4096;
/// The number of counted steps between two checks of whether the script may continue.
const STEPS: usize = 65_536;
/// The number of bytes that are copied or examined per counted step.
const STEP_BYTES: usize = 16;

/// Methods that count steps, for functions that already have the context.
impl Context {
    /// Counts the steps that a function takes. Raises an error if the script must end.
    #[inline]
    pub(crate) fn spend(&self, state: &State<'_>, steps: usize) {
        let spent = self.spent.get().saturating_add(steps);
        self.spent.set(spent);
        if spent >= STEPS {
            self.spent.set(0);
            state.check_time();
        }
    }

    /// Counts the steps of processing `bytes` bytes. Raises an error if the script must end.
    #[inline]
    pub(crate) fn spend_bytes(&self, state: &State<'_>, bytes: usize) {
        self.spend(state, 1 + bytes / STEP_BYTES);
    }
}

/// Methods that count the steps of functions.
impl State<'_> {
    /// Counts the steps that a function takes. Raises an error if the script must end.
    #[inline]
    pub(crate) fn spend(&self, steps: usize) {
        self.context().spend(self, steps);
    }

    /// Counts the steps of processing `bytes` bytes. Raises an error if the script must end.
    #[inline]
    pub(crate) fn spend_bytes(&self, bytes: usize) {
        self.context().spend_bytes(self, bytes);
    }

    /// Raises an error if nested native functions, which call each other through scripts, exceed
    /// their share of the thread's stack. Lua also limits the nesting depth to 200.
    pub(crate) fn check_stack(&self) {
        let here = 0_u8;
        let context = self.context();
        let (here, began) = ((&raw const here).addr(), context.stack_start.get());
        if !context.stack_bounds.allow(here, began) {
            self.raise_here(b"C stack overflow");
        }
    }
}

/// Methods that enforce the memory limit.
impl State<'_> {
    /// Ends the script because it has reached its memory limit.
    #[cold]
    pub(crate) fn raise_memory(&self) -> ! {
        let context = self.context();
        if context.may_catch() && context.has_host() {
            context.end(RunStatus::OutOfMemory, self);
        }
        self.raise_text(OUT_OF_MEMORY)
    }

    /// Collects garbage if a large block does not fit within the memory limit. Ends the script if
    /// the block still does not fit.
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

    /// Ends the script if a scratch buffer of `length` bytes exceeds the memory limit.
    pub(crate) fn check_scratch(&self, length: usize) {
        let memory = &self.context().memory;
        memory.extra.set(0);
        if !memory.has_room(length) {
            self.raise_memory();
        }
        memory.extra.set(length);
    }

    /// Pushes the contents of the scratch buffer as a string, and clears the buffer.
    pub(crate) fn push_scratch(&self) {
        let context = self.context();
        // SAFETY: callers of `scratch` hold no reference to the buffer when this method is called.
        let text = unsafe { &*context.scratch() };
        self.make_room(text.len());
        self.push_bytes(text);
        context.clear_scratch();
    }

    /// Counts `length` more bytes of the script's reply. Raises an error if the reply exceeds the
    /// memory limit.
    pub(crate) fn count_reply(&self, length: usize) {
        let context = self.context();
        let bytes = context.reply_bytes.get().saturating_add(length);
        context.reply_bytes.set(bytes);
        if bytes > context.memory.limit.get() {
            self.raise_memory();
        }
    }
}
