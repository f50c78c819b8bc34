//! The thread that follows a source: another server, whose keys the served store then has
//! (REPLICAOF).

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};

/// The thread that follows a source, if there is one.
#[derive(Default)]
pub(crate) struct Following(Mutex<Option<Running>>);

struct Running {
    host: String,
    port: u16,
    must_stop: Arc<AtomicBool>,
    thread: JoinHandle<()>,
}

impl Following {
    fn running(&self) -> MutexGuard<'_, Option<Running>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Starts a thread that runs `work`, which must return soon after the given flag is set. First
    /// ends the current thread. Returns false if that thread already follows the same source.
    pub(crate) fn begin(
        &self,
        (host, port): (&str, u16),
        work: impl FnOnce(&AtomicBool) + Send + 'static,
    ) -> io::Result<bool> {
        let mut running = self.running();
        if let Some(running) = &*running
            && running.host == host
            && running.port == port
            && !running.thread.is_finished()
        {
            return Ok(false);
        }
        end(running.take());
        let must_stop = Arc::new(AtomicBool::new(false));
        let flag = must_stop.clone();
        let thread = thread::Builder::new().name("follow".into());
        *running = Some(Running {
            host: host.to_owned(),
            port,
            must_stop,
            thread: thread.spawn(move || work(&flag))?,
        });
        Ok(true)
    }

    /// Ends the thread. Afterwards, it changes nothing any more.
    pub(crate) fn end(&self) {
        end(self.running().take());
    }
}

fn end(running: Option<Running>) {
    if let Some(running) = running {
        running.must_stop.store(true, Ordering::Release);
        // A panic has already been printed.
        let _ = running.thread.join();
    }
}
