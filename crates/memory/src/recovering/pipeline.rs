//! Reads and applies at the same time, with a second thread.

use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::thread;

use crate::error::Error;
use crate::mapped::platform;

/// The number of buffers: one that is being filled, one that is being applied, and two that wait.
const BUFFERS: usize = 4;

/// A function that applies a buffer.
type Apply<'a, B> = &'a mut (dyn FnMut(&B) -> Result<(), Error> + Send);

/// A function that applies a buffer in another thread than [`Apply`].
type Help<'a, B> = &'a dyn Fn(&B) -> Result<(), Error>;

/// Calls `fill` in this thread until it returns false, and `apply` with each filled buffer, in order.
/// `apply` runs in a second thread if the process may have one.
///
/// `help` is given if buffers may be applied in any order and at the same time. This thread then
/// calls it with a buffer whenever the second thread has enough of them.
///
/// # Errors
/// Returns the first error of `apply`, or else that of `fill` or `help`.
pub(crate) fn run<B: Default + Send>(
    mut fill: impl FnMut(&mut B) -> Result<bool, Error>,
    mut apply: impl FnMut(&B) -> Result<(), Error> + Send,
    help: Option<Help<'_, B>>,
) -> Result<(), Error> {
    let (full, filled) = sync_channel::<B>(BUFFERS - 2);
    let (empty, emptied) = sync_channel::<B>(BUFFERS);
    for _ in 0..BUFFERS {
        let _ = empty.try_send(B::default());
    }
    // The thread gets `apply` only once it runs, so that this thread keeps it if it does not.
    let (give, given) = sync_channel::<Apply<'_, B>>(1);
    thread::scope(|scope| {
        let second = platform::with_signals_blocked(|| {
            let thread = thread::Builder::new().name("undercroft-recovery".into());
            thread.spawn_scoped(scope, move || match given.recv() {
                Ok(apply) => apply_all(&filled, &empty, apply),
                Err(_) => Ok(()),
            })
        });
        let Ok(second) = second else {
            let mut buffer = B::default();
            while fill(&mut buffer)? {
                apply(&buffer)?;
            }
            return Ok(());
        };
        let _ = give.send(&mut apply);
        let (mut result, mut spare) = (Ok(()), None);
        // The channels end when the second thread fails.
        while let Some(mut buffer) = spare.take().or_else(|| emptied.recv().ok()) {
            let filled = fill(&mut buffer).and_then(|more| match (more, help) {
                (false, _) => Ok(false),
                (true, None) => Ok(full.send(buffer).is_ok()),
                (true, Some(help)) => match full.try_send(buffer) {
                    Err(TrySendError::Full(buffer)) => {
                        help(&buffer)?;
                        spare = Some(buffer);
                        Ok(true)
                    }
                    sent => Ok(sent.is_ok()),
                },
            });
            match filled {
                Ok(true) => {}
                Ok(false) => break,
                Err(error) => {
                    result = Err(error);
                    break;
                }
            }
        }
        drop(full);
        match second.join() {
            Ok(applied) => applied.and(result),
            Err(panic) => std::panic::resume_unwind(panic),
        }
    })
}

fn apply_all<B>(
    filled: &Receiver<B>,
    empty: &SyncSender<B>,
    apply: Apply<'_, B>,
) -> Result<(), Error> {
    while let Ok(buffer) = filled.recv() {
        apply(&buffer)?;
        // The other thread has ended if this fails.
        let _ = empty.send(buffer);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;

    use super::*;

    /// Fills buffers with the numbers below `count`, then fails if `fails` is true.
    fn counting(count: u32, fails: bool) -> impl FnMut(&mut u32) -> Result<bool, Error> {
        let mut next = 0;
        move |buffer| {
            if next == count && fails {
                return Err(Error::JournalFull);
            }
            *buffer = next;
            next += 1;
            Ok(*buffer < count)
        }
    }

    #[test]
    fn buffers_are_applied_in_order() {
        let mut seen = Vec::new();
        let apply = |buffer: &u32| {
            seen.push(*buffer);
            Ok(())
        };
        run(counting(1000, false), apply, None).expect("no failure");
        assert_eq!(seen, (0..1000).collect::<Vec<u32>>());
    }

    #[test]
    fn buffers_are_applied_once_with_help() {
        let (sees, seen) = channel();
        let apply = |buffer: &u32| {
            sees.send(*buffer).expect("a receiver");
            Ok(())
        };
        run(counting(1000, false), apply, Some(&apply)).expect("no failure");
        let mut seen: Vec<u32> = seen.try_iter().collect();
        seen.sort_unstable();
        assert_eq!(seen, (0..1000).collect::<Vec<u32>>());
    }

    #[test]
    fn failures_end_both_sides() {
        for at in [0, 1, 7, 500] {
            let apply = |buffer: &u32| match *buffer == at {
                true => Err(Error::NoJournal),
                false => Ok(()),
            };
            for help in [None, Some(&apply as Help<'_, u32>)] {
                let failed = run(counting(1000, false), apply, help);
                assert!(matches!(failed, Err(Error::NoJournal)), "{at}: {failed:?}");
            }
            let failed = run(counting(at, true), |_| Ok(()), None);
            assert!(
                matches!(failed, Err(Error::JournalFull)),
                "{at}: {failed:?}"
            );
        }
    }
}
