//! Handles Ctrl-C and other termination requests. Long commands check for requests at safe points,
//! so that they leave no partial results.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::flag;
use undercroft_engine::WaitHook;

use crate::failure::{Failure, INTERRUPTED, at};

/// A flag that is set when a signal asks this process to exit. A second signal terminates the
/// process immediately.
#[derive(Clone, Debug)]
pub(crate) struct Interrupt(Arc<AtomicBool>);

/// The flag of this process, if it handles the signals.
static HANDLED: OnceLock<Interrupt> = OnceLock::new();

impl Interrupt {
    /// Returns the flag, if this process handles the signals. Otherwise they end it.
    pub(crate) fn current() -> Option<&'static Interrupt> {
        HANDLED.get()
    }

    /// Starts handling SIGINT, SIGTERM and SIGHUP.
    pub(crate) fn catch() -> Result<Interrupt, Failure> {
        let caught = Arc::new(AtomicBool::new(false));
        for signal in [SIGINT, SIGTERM, SIGHUP] {
            flag::register_conditional_shutdown(
                signal,
                i32::from(INTERRUPTED),
                Arc::clone(&caught),
            )
            .and_then(|_| flag::register(signal, Arc::clone(&caught)))
            .map_err(at("preparing for signals"))?;
        }
        Ok(HANDLED.get_or_init(|| Interrupt(caught)).clone())
    }

    /// Returns whether a signal has arrived.
    pub(crate) fn is_caught(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

/// Ends waits for locks when a signal arrives.
impl WaitHook for Interrupt {
    fn blocked(&self, block: &mut dyn FnMut()) {
        block();
    }

    fn interrupted(&self) -> bool {
        self.is_caught()
    }
}
