//! Shows the progress of a long command: a progress bar on a terminal, or a line every few seconds
//! otherwise, with the rate and the time left. Short commands show nothing.

use std::fmt::Write;
use std::io::IsTerminal;
use std::time::{Duration, Instant};

use indicatif::{HumanDuration, ProgressBar, ProgressState, ProgressStyle};

use crate::out::tell;
use crate::size::human;

/// The time that a task runs before its progress is shown.
const PATIENCE: Duration = Duration::from_millis(500);
/// The interval between progress lines if the output is not a terminal.
const BETWEEN_LINES: Duration = Duration::from_secs(5);

/// The progress of a task, shown on standard error.
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
    /// Begins a task of `total` bytes. A `total` of 0 means that the size is unknown.
    pub(crate) fn new(doing: &'static str, total: u64) -> Progress {
        Progress {
            doing,
            total,
            template: "{msg} [{bar:40}] {bytes}/{total_bytes}{rate}{left}",
            start: Instant::now(),
            next_line: BETWEEN_LINES,
            terminal: std::io::stderr().is_terminal(),
            bar: None,
        }
    }

    /// Begins a task that reads a number of bytes which is unknown.
    pub(crate) fn of_unknown_length(doing: &'static str) -> Progress {
        let mut progress = Progress::new(doing, 0);
        progress.template = "{msg} {spinner} {bytes}{rate}";
        progress
    }

    /// Begins a task that processes about `total` keys.
    pub(crate) fn of_keys(doing: &'static str, total: u64) -> Progress {
        let mut progress = Progress::new(doing, total);
        progress.template = "{msg} [{bar:40}] {human_pos}/{human_len} keys{left}";
        progress
    }

    /// Reports the amount that has been processed so far.
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
            let doing = self.doing;
            // Only the templates of tasks that count bytes show a rate.
            let rate = match self.template.contains("{rate}") {
                true => format!(", {}/s", human(rate(elapsed, done))),
                false => String::new(),
            };
            match (done * 100).checked_div(self.total) {
                Some(percent) => {
                    let left = time_left(elapsed, done, self.total);
                    let left =
                        left.map_or(String::new(), |left| format!(", {} s left", left.as_secs()));
                    tell(format_args!("{doing}: {percent} %{rate}{left}\n"));
                }
                None => tell(format_args!("{doing}: {} s{rate}\n", elapsed.as_secs())),
            }
        }
    }

    /// Begins a task whose progress is unknown, and shows a spinner.
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
        // Ignore errors in drawing the progress bar.
        let _ = left.map(|left| write!(out, ", {} left", HumanDuration(left)));
    };
    let rate = move |state: &ProgressState, out: &mut dyn Write| {
        let _ = write!(out, ", {}/s", human(rate(start.elapsed(), state.pos())));
    };
    match ProgressStyle::with_template(template) {
        Ok(style) => bar.with_style(
            style
                .with_key("left", left)
                .with_key("rate", rate)
                .progress_chars("=> "),
        ),
        Err(_) => bar,
    }
}

/// Returns the mean number of bytes per second so far.
fn rate(elapsed: Duration, done: u64) -> u64 {
    (done as f64 / elapsed.as_secs_f64().max(0.001)) as u64
}

/// Returns the estimated time left at the mean rate so far, or `None` if nothing has been
/// processed. The library's estimate is unsuitable, because it starts when the bar is first drawn,
/// in the middle of the task, and attributes all earlier work to that moment.
fn time_left(elapsed: Duration, done: u64, total: u64) -> Option<Duration> {
    let rest = total.saturating_sub(done);
    (done > 0).then(|| elapsed.mul_f64(rest as f64 / done as f64))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_left_follows_the_mean_rate() {
        let left = |done, total| time_left(Duration::from_secs(18), done, total);
        assert_eq!(left(18, 100), Some(Duration::from_secs(82)));
        assert_eq!(left(100, 100), Some(Duration::ZERO));
        assert_eq!(left(0, 100), None);
        // The amount done can exceed the total, because keys may have been added since they were
        // counted.
        assert_eq!(left(101, 100), Some(Duration::ZERO));
    }
}
