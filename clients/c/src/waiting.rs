//! Interrupts waits and scripts when the program's callback requests it.

use std::cell::Cell;
use std::ffi::{c_int, c_void};

use undercroft_engine::{ForkMutex, WaitHook};

use crate::border::call;
use crate::status::Status;

/// The C type `uc_interrupt`: a callback that ends a wait by returning nonzero.
type Check = unsafe extern "C" fn(*mut c_void) -> c_int;

/// The program's callback and the data that it receives.
#[derive(Clone, Copy)]
struct Interrupt {
    check: Check,
    data: *mut c_void,
}

// SAFETY: the program guarantees that any thread may call the function with this data.
unsafe impl Send for Interrupt {}

static INTERRUPT: ForkMutex<Option<Interrupt>> = ForkMutex::new(None, || None);

thread_local! {
    /// Whether the callback has asked to end this thread's script. The answer is stored for the
    /// wait that follows, because the callback might give a different answer next time.
    static SIGNALLED: Cell<bool> = const { Cell::new(false) };
}

fn with_interrupt<R>(body: impl FnOnce(&mut Option<Interrupt>) -> R) -> R {
    body(&mut INTERRUPT.lock())
}

/// A wait hook that asks the program's callback whether to end the wait.
pub(crate) struct Program;

impl WaitHook for Program {
    fn blocked(&self, block: &mut dyn FnMut()) {
        block();
    }

    fn interrupted(&self) -> bool {
        SIGNALLED.take() || asks_for_an_end()
    }

    fn is_signalled(&self) -> bool {
        let ends = asks_for_an_end();
        SIGNALLED.set(ends);
        ends
    }
}

/// Returns whether the program's callback asks to end the wait.
fn asks_for_an_end() -> bool {
    let interrupt = with_interrupt(|interrupt| *interrupt);
    // SAFETY: the program guarantees that any thread may call the function with this data.
    interrupt.is_some_and(|interrupt| unsafe { (interrupt.check)(interrupt.data) } != 0)
}

/// Sets the callback that can end waits. Null removes it.
///
/// # Safety
/// Calling `check` with `data` must be sound from any thread.
#[unsafe(no_mangle)]
unsafe extern "C" fn uc_set_interrupt(check: Option<Check>, data: *mut c_void) -> c_int {
    call(|| {
        with_interrupt(|interrupt| *interrupt = check.map(|check| Interrupt { check, data }));
        Ok(Status::Ok)
    })
}
