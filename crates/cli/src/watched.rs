//! Shows the progress of a recovery, and ends it when a signal arrives. If the subcommand handles no
//! signals, they end the process, which leaves nothing but the journal.

use std::cell::RefCell;

use undercroft_engine::{Error, RecoveryProgress, RecoveryStage, RecoveryWatch, WaitHook};

use crate::failure::Failure;
use crate::interrupt::Interrupt;
use crate::progress::Progress;

/// The progress of the current stage, and whether its size was known when it began.
type Shown = Option<(&'static str, bool, Progress)>;

/// Runs work that reads a journal, and shows its progress under a name such as `recovering`. If a
/// signal ends it, `left` describes the resulting state.
pub(crate) fn run<R>(
    name: &'static str,
    left: &str,
    work: impl FnOnce(&RecoveryWatch<'_>) -> Result<R, Error>,
) -> Result<R, Failure> {
    let interrupt = Interrupt::current();
    let shown: RefCell<Shown> = RefCell::new(None);
    let report = |progress: RecoveryProgress| show(&mut shown.borrow_mut(), name, progress);
    let result = work(&RecoveryWatch {
        hook: interrupt.map(|interrupt| interrupt as &dyn WaitHook),
        report: Some(&report),
    });
    drop(shown.take());
    let is_interrupted = interrupt.is_some_and(Interrupt::is_caught);
    match result {
        Err(_) if is_interrupted => Err(Failure::interrupted(left)),
        result => Ok(result?),
    }
}

fn show(shown: &mut Shown, name: &'static str, progress: RecoveryProgress) {
    let doing = match progress.stage {
        RecoveryStage::Waiting => "waiting for the recovery by another process",
        RecoveryStage::Checkpoint | RecoveryStage::Journal => name,
    };
    let is_known = progress.total > 0;
    let is_same = |shown: &(&str, bool, Progress)| shown.0 == doing && shown.1 == is_known;
    if !shown.as_ref().is_some_and(is_same) {
        let begun = match is_known {
            true => Progress::new(doing, progress.total),
            false => Progress::spin(doing),
        };
        *shown = Some((doing, is_known, begun));
    }
    if let Some((_, _, shown)) = shown {
        shown.at(progress.done);
    }
}
