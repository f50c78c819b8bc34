//! How far a long command is: a bar on a terminal, a line every few seconds elsewhere, nothing for short ones.

use std::fmt::Write;
use std::io::IsTerminal;
use std::time::{Duration, Instant};

use indicatif::{HumanDuration, ProgressBar, ProgressState, ProgressStyle};

use crate::out::tell;

/// Nothing is shown before.
const PATIENCE: Duration = Duration::from_millis(500);
/// Between two lines where there is no terminal.
const BETWEEN_LINES: Duration = Duration::from_secs(5);

/// The progress of one task, on standard error.
pub(crate) struct Progress {
    doing: &'static str,
    total: u64,
    template: &'static str,
    start: Instant,
    next_line: Duration,
    terminal: bool,
    bar: Option<ProgressBar>,
}

impl Progress {
    /// A task of so many bytes; 0 where nobody knows.
    pub(crate) fn new(doing: &'static str, total: u64) -> Progress {
        Progress {
            doing,
            total,
            template: "{msg} [{bar:40}] {bytes}/{total_bytes}{left}",
            start: Instant::now(),
            next_line: BETWEEN_LINES,
            terminal: std::io::stderr().is_terminal(),
            bar: None,
        }
    }

    /// A task of so many keys, or about so many.
    pub(crate) fn of_keys(doing: &'static str, total: u64) -> Progress {
        let mut progress = Progress::new(doing, total);
        progress.template = "{msg} [{bar:40}] {human_pos}/{human_len} keys{left}";
        progress
    }

    /// So much is done.
    pub(crate) fn at(&mut self, done: u64) {
        let elapsed = self.start.elapsed();
        if elapsed < PATIENCE {
            return;
        }
        if self.terminal {
            let bar = self
                .bar
                .get_or_insert_with(|| bar(self.doing, self.total, self.template, self.start));
            bar.set_position(done);
        } else if elapsed >= self.next_line {
            self.next_line = elapsed + BETWEEN_LINES;
            match (done * 100).checked_div(self.total) {
                Some(percent) => tell(format_args!("{}: {percent} %\n", self.doing)),
                None => tell(format_args!("{}: {} s\n", self.doing, elapsed.as_secs())),
            }
        }
    }

    /// The task does not tell how far it is; shows that it goes on.
    pub(crate) fn spin(doing: &'static str) -> Progress {
        let mut progress = Progress::new(doing, 0);
        if progress.terminal {
            let spinner = ProgressBar::new_spinner().with_message(doing);
            spinner.enable_steady_tick(Duration::from_millis(100));
            progress.bar = Some(spinner);
        }
        progress
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}

fn bar(doing: &'static str, total: u64, template: &str, start: Instant) -> ProgressBar {
    let bar = ProgressBar::new(total).with_message(doing);
    let left = move |state: &ProgressState, out: &mut dyn Write| {
        let left = time_left(start.elapsed(), state.pos(), total);
        // A bar that cannot be drawn is not drawn.
        let _ = left.map(|left| write!(out, ", {} left", HumanDuration(left)));
    };
    match ProgressStyle::with_template(template) {
        Ok(style) => bar.with_style(style.with_key("left", left).progress_chars("=> ")),
        Err(_) => bar,
    }
}

/// The time that the rest of a task takes at its mean rate so far; None before anything is done. The library's own
/// estimate begins with the bar, which is first drawn in the midst of a task, and takes all that was done before for the
/// work of a moment.
fn time_left(elapsed: Duration, done: u64, total: u64) -> Option<Duration> {
    let rest = total.saturating_sub(done);
    (done > 0).then(|| elapsed.mul_f64(rest as f64 / done as f64))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_left_follows_the_mean_rate() {
        let left = |done, total| time_left(Duration::from_secs(18), done, total);
        assert_eq!(left(18, 100), Some(Duration::from_secs(82)));
        assert_eq!(left(100, 100), Some(Duration::ZERO));
        assert_eq!(left(0, 100), None);
        // More keys than were counted at the start.
        assert_eq!(left(101, 100), Some(Duration::ZERO));
    }
}
