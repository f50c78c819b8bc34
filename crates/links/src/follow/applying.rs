//! Applies the changes that arrive on a connection, and tells the source how far they are applied.

use std::time::{Duration, Instant};

use crate::follow::changes::Changes;
use crate::follow::error::FollowError;
use crate::follow::link::Link;
use crate::follow::state::FollowState;

/// The interval at which the source is told how far its changes are applied.
pub(super) const ACKNOWLEDGING: Duration = Duration::from_secs(1);
/// The interval at which the state of the connection is recorded in the store, so that other
/// processes know that it is current.
pub(super) const RECORDING: Duration = Duration::from_secs(1);
/// The pauses before the first and between later attempts to connect.
pub(super) const PAUSES: (Duration, Duration) =
    (Duration::from_millis(100), Duration::from_secs(2));
/// The pause before a change is tried again for which there was no space.
pub(super) const SPACE_PAUSE: Duration = Duration::from_millis(500);
/// The minimum pause before a data set is requested again for which there was no space, because it
/// costs the source as much as a snapshot.
pub(super) const LOAD_PAUSE: Duration = Duration::from_secs(10);

/// Applies changes until the connection is lost or the work must end. `record` is called every second,
/// and `wait` before another attempt at a change for which there was no space.
pub(super) fn apply(
    link: &mut Link<'_>,
    changes: &mut Changes<'_>,
    state: &FollowState,
    record: &dyn Fn() -> Result<(), FollowError>,
    wait: &dyn Fn(Duration) -> Result<(), FollowError>,
) -> Result<(), FollowError> {
    let (mut acknowledged, mut recorded) = (None, Instant::now());
    let mut lacks_space = false;
    loop {
        let (used, applied) = changes.apply(&link.input);
        link.input.drain(..used);
        let lacked_space = std::mem::replace(
            &mut lacks_space,
            applied.as_ref().is_err_and(FollowError::is_lack_of_space),
        );
        match &applied {
            Err(error) if lacks_space => {
                let text = error.to_string();
                state.update(|progress| progress.error = Some(text));
                wait(SPACE_PAUSE)?;
            }
            _ => applied?,
        }
        if lacked_space && !lacks_space {
            state.update(|progress| progress.error = None);
        }
        // A process may wait for a place after which the source has sent no change.
        changes.record_position()?;
        let is_due = acknowledged.is_none_or(|at: Instant| at.elapsed() >= ACKNOWLEDGING);
        if is_due || changes.wants_position {
            changes.wants_position = false;
            acknowledged = Some(Instant::now());
            let offset = changes.applied().offset;
            let heard = link.heard();
            state.update(|progress| {
                progress.heard = Some(heard);
                progress.offset = offset;
            });
            // The source must hear from this replica even while there is no space.
            acknowledge(link, offset)?;
            if recorded.elapsed() >= RECORDING {
                recorded = Instant::now();
                record()?;
            }
        }
        if !lacks_space {
            link.receive()?;
        }
    }
}

/// Tells the source that all changes before a place are applied.
pub(super) fn acknowledge(link: &mut Link<'_>, offset: u64) -> Result<(), FollowError> {
    link.send(&[b"REPLCONF", b"ACK", offset.to_string().as_bytes()])
}
