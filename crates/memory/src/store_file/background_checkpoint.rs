//! Writes a checkpoint on a thread of its own (J6).

use std::path::PathBuf;
use std::sync::mpsc::sync_channel;

use crate::checkpoints::checkpoint;
use crate::error::Error;
use crate::mapped::platform;
use crate::segment::Segment;

impl Segment {
    /// Begins a checkpoint on a thread of its own, which has its own handle of the store. Returns
    /// once the checkpoint has begun, so that no other one can begin. The thread calls `ended` with
    /// the result.
    ///
    /// # Errors
    /// Fails if the store has no journal, if a process is writing a checkpoint already, or if no
    /// thread can be started. `ended` is not called then.
    pub fn begin_checkpoint(
        &self,
        ended: impl FnOnce(Result<(), Error>) + Send + 'static,
    ) -> Result<(), Error> {
        let path: PathBuf = self.path().into();
        let (sender, receiver) = sync_channel(1);
        let fail = |source| Error::Io {
            doing: "starting a thread for a checkpoint of",
            path: self.path().into(),
            source,
        };
        let write = move || {
            let mut has_begun = false;
            let result = Segment::open(&path, true).and_then(|segment| {
                checkpoint::write_after(&segment, || {
                    has_begun = true;
                    let _ = sender.send(Ok(()));
                })
            });
            match result {
                Err(error) if !has_begun => {
                    let _ = sender.send(Err(error));
                }
                result => ended(result),
            }
        };
        let spawn = || {
            let thread = std::thread::Builder::new().name("undercroft-checkpoint".into());
            thread.spawn(write)
        };
        platform::with_signals_blocked(spawn).map_err(fail)?;
        let ended_early = || fail(std::io::Error::other("the thread panicked"));
        receiver.recv().map_err(|_| ended_early())?
    }
}
