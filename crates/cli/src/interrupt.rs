//! Ctrl-C and other requests to end, which long commands answer at a moment of their own choice, so that they leave
//! nothing half done.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::flag;
use undercroft_engine::WaitHook;

use crate::failure::{Failure, INTERRUPTED, at};

/// Whether a signal has asked this process to end. A second signal ends it at once.
#[derive(Clone, Debug)]
pub(crate) struct Interrupt(Arc<AtomicBool>);

impl Interrupt {
    /// Catches SIGINT, SIGTERM and SIGHUP from now on.
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
        Ok(Interrupt(caught))
    }

    /// Whether a signal has come.
    pub(crate) fn is_caught(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

/// Ends waits for locks.
impl WaitHook for Interrupt {
    fn blocked(&self, block: &mut dyn FnMut()) {
        block();
    }

    fn interrupted(&self) -> bool {
        self.is_caught()
    }
}
