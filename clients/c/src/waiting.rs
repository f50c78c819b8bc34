//! How a thread waits, and what interrupts it.

use std::cell::Cell;
use std::ffi::{c_int, c_void};

use undercroft_engine::{ForkMutex, WaitHook};

use crate::border::call;
use crate::status::Status;

/// `uc_interrupt`.
type Check = unsafe extern "C" fn(*mut c_void) -> c_int;

/// What the program wants to be asked.
#[derive(Clone, Copy)]
struct Interrupt {
    check: Check,
    data: *mut c_void,
}

// SAFETY: the program says that any thread may call it.
unsafe impl Send for Interrupt {}

static INTERRUPT: ForkMutex<Option<Interrupt>> = ForkMutex::new(None, || None);

thread_local! {
    /// The program has said so in the midst of a script of this thread, and may not say it twice.
    static SIGNALLED: Cell<bool> = const { Cell::new(false) };
}

fn with_interrupt<R>(body: impl FnOnce(&mut Option<Interrupt>) -> R) -> R {
    body(&mut INTERRUPT.lock())
}

/// Asks the program whether a wait is to end.
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

/// What the program says to that.
fn asks_for_an_end() -> bool {
    let interrupt = with_interrupt(|interrupt| *interrupt);
    // SAFETY: the program says that it may be called with this, in whichever thread.
    interrupt.is_some_and(|interrupt| unsafe { (interrupt.check)(interrupt.data) } != 0)
}

/// # Safety
/// `check` may be called with `data`, in whichever thread.
#[unsafe(no_mangle)]
unsafe extern "C" fn uc_set_interrupt(check: Option<Check>, data: *mut c_void) -> c_int {
    call(|| {
        with_interrupt(|interrupt| *interrupt = check.map(|check| Interrupt { check, data }));
        Ok(Status::Ok)
    })
}
