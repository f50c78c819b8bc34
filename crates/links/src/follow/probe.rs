//! Asks a source every second for its position, on a connection of its own, so that the lag of the
//! store is known even while changes are on their way.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use undercroft_engine::LinkStatus;

use crate::follow::client::SourceClient;
use crate::follow::source_url::SourceUrl;
use crate::follow::state::FollowState;

/// The interval between two questions.
const INTERVAL: Duration = Duration::from_secs(1);
/// The pause after a failure, such as that of a user who may not run INFO.
const AFTER_FAILURE: Duration = Duration::from_secs(10);

/// Asks until `must_end` is set and the thread is unparked. Errors are ignored: without an answer, the
/// lag counts only the bytes that have arrived.
pub(super) fn run(url: &SourceUrl, state: &FollowState, must_end: &AtomicBool) {
    let ends = || must_end.load(Ordering::Acquire);
    let mut client = None;
    while !ends() {
        let mut pause = INTERVAL;
        if state.progress().status == LinkStatus::Up {
            let asked = Instant::now();
            let position = match client.take() {
                Some(client) => Ok(client),
                None => SourceClient::connect(url, &ends),
            }
            .and_then(|mut connected| {
                let position = connected.position()?;
                client = Some(connected);
                Ok(position)
            });
            match position {
                Ok(position) => state.note_source(asked, position.offset),
                Err(_) => pause = AFTER_FAILURE,
            }
        } else {
            // The next source may be another one.
            client = None;
        }
        thread::park_timeout(pause);
    }
}
