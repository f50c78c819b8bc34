//! Passes MONITOR lines from the threads that run commands to the threads that serve the monitoring
//! connections.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The maximum number of pending bytes for a thread. If more bytes are pending, the thread's
/// monitoring connections are closed, so that commands never wait for them.
const MOST: usize = 64 << 20;

/// The connections that use MONITOR, and the lines pending for them.
#[derive(Debug)]
pub(crate) struct Monitors {
    count: AtomicUsize,
    /// One lane for each thread. A single lock ensures that all monitors receive the lines in the
    /// same order.
    lanes: Mutex<Vec<Lane>>,
}

/// The pending lines for the monitoring connections of one thread.
#[derive(Debug, Default)]
struct Lane {
    /// The connections, each with the offset in `lines` of the first line that it has not received.
    listeners: Vec<(u64, usize)>,
    lines: Vec<u8>,
    /// Whether lines were dropped because too many bytes were pending.
    overrun: bool,
}

/// The lines that a thread passes to its connections.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Lines {
    /// The connections, each with the offset in `lines` of the first line that it must receive.
    pub(crate) listeners: Vec<(u64, usize)>,
    pub(crate) lines: Vec<u8>,
    /// Whether lines were dropped, which means that the connections must be closed.
    pub(crate) overrun: bool,
}

impl Monitors {
    pub(crate) fn new(threads: usize) -> Monitors {
        Monitors {
            count: AtomicUsize::new(0),
            lanes: Mutex::new((0..threads).map(|_| Lane::default()).collect()),
        }
    }

    fn lanes(&self) -> MutexGuard<'_, Vec<Lane>> {
        self.lanes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns whether any connection uses MONITOR, with a single atomic load.
    #[inline(always)]
    pub(crate) fn any(&self) -> bool {
        self.count.load(Ordering::Relaxed) > 0
    }

    /// Registers a connection that starts to use MONITOR.
    pub(crate) fn begin(&self, (thread, token): (usize, u64)) {
        let lane = &mut self.lanes()[thread];
        lane.listeners.push((token, lane.lines.len()));
        self.count.fetch_add(1, Ordering::Relaxed);
    }

    /// Removes a connection that no longer uses MONITOR.
    pub(crate) fn end(&self, (thread, token): (usize, u64)) {
        let lane = &mut self.lanes()[thread];
        lane.listeners.retain(|(other, _)| *other != token);
        if lane.listeners.is_empty() {
            *lane = Lane::default();
        }
        self.count.fetch_sub(1, Ordering::Relaxed);
    }

    /// Adds a line for all monitors. Calls `wake` for each thread that had no pending lines.
    pub(crate) fn show(&self, line: &[u8], mut wake: impl FnMut(usize)) {
        for (thread, lane) in self.lanes().iter_mut().enumerate() {
            if lane.listeners.is_empty() || lane.overrun {
                continue;
            }
            if lane.lines.is_empty() {
                wake(thread);
            }
            if lane.lines.len() + line.len() <= MOST {
                lane.lines.extend_from_slice(line);
            } else {
                lane.overrun = true;
            }
        }
    }

    /// Appends the pending lines of one connection to `out`, after a reply and before the lines of
    /// the connection's next commands.
    pub(crate) fn take_for(&self, (thread, token): (usize, u64), out: &mut Vec<u8>) {
        let lane = &mut self.lanes()[thread];
        let listener = lane.listeners.iter_mut().find(|(other, _)| *other == token);
        if let Some((_, start)) = listener {
            out.extend_from_slice(&lane.lines[*start..]);
            *start = lane.lines.len();
        }
    }

    /// Removes and returns the pending lines for the connections of a thread.
    pub(crate) fn take(&self, thread: usize) -> Option<Lines> {
        let lane = &mut self.lanes()[thread];
        if lane.lines.is_empty() && !lane.overrun {
            return None;
        }
        let taken = Lines {
            listeners: lane.listeners.clone(),
            lines: std::mem::take(&mut lane.lines),
            overrun: std::mem::take(&mut lane.overrun),
        };
        lane.listeners.iter_mut().for_each(|(_, start)| *start = 0);
        Some(taken)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn monitors_receive_the_lines_since_their_registration() {
        let monitors = Monitors::new(2);
        let mut woken = Vec::new();
        monitors.show(b"nobody\r\n", |thread| woken.push(thread));
        assert!(!monitors.any() && monitors.take(1).is_none());
        monitors.begin((1, 7));
        monitors.show(b"one\r\n", |thread| woken.push(thread));
        monitors.begin((1, 8));
        monitors.show(b"two\r\n", |thread| woken.push(thread));
        assert_eq!(woken, [1]);
        assert!(monitors.any() && monitors.take(0).is_none());
        let lines = monitors.take(1).expect("two lines");
        assert_eq!(lines.lines, b"one\r\ntwo\r\n");
        assert_eq!(lines.listeners, [(7, 0), (8, 5)]);
        monitors.end((1, 7));
        monitors.show(b"two and a half\r\n", |thread| woken.push(thread));
        let mut own = Vec::new();
        monitors.take_for((1, 8), &mut own);
        assert_eq!(own, b"two and a half\r\n");
        let lines = monitors.take(1).expect("a line");
        assert_eq!(lines.listeners, [(8, own.len())]);
        monitors.show(b"three\r\n", |thread| woken.push(thread));
        let lines = monitors.take(1).expect("a line");
        assert_eq!((lines.listeners, woken), (vec![(8, 0)], vec![1, 1, 1]));
        monitors.end((1, 8));
        assert!(!monitors.any() && monitors.take(1).is_none());
    }

    #[test]
    fn overrun_monitors_learn_that_lines_are_missing() {
        let monitors = Monitors::new(1);
        monitors.begin((0, 1));
        let line = vec![b'x'; MOST / 2];
        for _ in 0..3 {
            monitors.show(&line, |_| {});
        }
        let lines = monitors.take(0).expect("two lines");
        assert_eq!((lines.lines.len(), lines.overrun), (MOST, true));
        assert!(monitors.take(0).is_none());
    }
}
