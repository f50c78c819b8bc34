//! Finds a short list of commands that still shows a difference.

use anyhow::Result;

use crate::command::Command;
use crate::compare::Rules;
use crate::differential::{Difference, Session};
use crate::servers::Peer;

/// The maximum number of lists to try. After that, the result is the shortest list found so far.
const TRIES: usize = 1500;

/// Shrinks a failing run, emptying the servers for each attempt.
///
/// It first finds the fewest final batches that still fail (`starts` contains the start of each
/// batch). It then applies delta debugging to the commands, and finally shortens their arguments.
/// If no difference reappears, it returns the last batch and `None`.
///
/// # Errors
/// Returns an error if the judge fails.
pub fn shrink(
    judge: &mut dyn Peer,
    subject: &mut dyn Peer,
    rules: Rules,
    sent: &[Command],
    starts: &[usize],
) -> Result<(Vec<Command>, Option<Difference>)> {
    let mut tester = Tester {
        judge,
        subject,
        rules,
        tries: 0,
        last: None,
    };
    let mut back = 1;
    loop {
        let start = starts[starts.len().saturating_sub(back)];
        if tester.fails(&sent[start..])? {
            let list = tester.fewer_commands(sent[start..].to_vec())?;
            let list = tester.shorter_arguments(list)?;
            return Ok((list, tester.last));
        }
        if back >= starts.len() {
            let last = starts.last().copied().unwrap_or_default();
            return Ok((sent[last..].to_vec(), None));
        }
        back *= 4;
    }
}

struct Tester<'a> {
    judge: &'a mut dyn Peer,
    subject: &'a mut dyn Peer,
    rules: Rules,
    tries: usize,
    last: Option<Difference>,
}

impl Tester<'_> {
    fn fails(&mut self, commands: &[Command]) -> Result<bool> {
        self.tries += 1;
        let mut session = Session::fresh(self.judge, self.subject, self.rules)?;
        let difference = session.play(commands)?;
        let fails = difference.is_some();
        if fails {
            self.last = difference;
        }
        Ok(fails)
    }

    /// Applies delta debugging: drops ever smaller pieces as long as the list still fails.
    fn fewer_commands(&mut self, mut list: Vec<Command>) -> Result<Vec<Command>> {
        let mut pieces = 2;
        while list.len() > 1 && self.tries < TRIES {
            let size = list.len().div_ceil(pieces);
            let mut dropped = false;
            // Start from the end, so that the commands after the difference are dropped first.
            let mut end = list.len();
            while end > 0 && self.tries < TRIES {
                let start = end.saturating_sub(size);
                let mut shorter = list[..start].to_vec();
                shorter.extend_from_slice(&list[end.min(list.len())..]);
                if !shorter.is_empty() && self.fails(&shorter)? {
                    list = shorter;
                    dropped = true;
                }
                end = start;
            }
            if !dropped {
                if size == 1 {
                    break;
                }
                pieces = (pieces * 2).min(list.len());
            } else {
                pieces = pieces.min(list.len()).max(2);
            }
        }
        Ok(list)
    }

    /// Halves long arguments, except numbers and scripts, as long as the list still fails.
    fn shorter_arguments(&mut self, mut list: Vec<Command>) -> Result<Vec<Command>> {
        for place in 0..list.len() {
            for arg in 1..list[place].0.len() {
                // A shortened number is a different number, such as a nearer expiry time. A
                // shortened script is likewise a different script.
                let other = list[place].0[arg].iter().all(u8::is_ascii_digit)
                    || arg == 1 && list[place].word(0) == "EVAL";
                while !other && list[place].0[arg].len() > 8 && self.tries < TRIES {
                    let mut shorter = list.clone();
                    let half = shorter[place].0[arg].len() / 2;
                    shorter[place].0[arg].truncate(half);
                    if !self.fails(&shorter)? {
                        break;
                    }
                    list = shorter;
                }
            }
        }
        // Run the final list once more, so that the reported difference comes from it.
        self.fails(&list)?;
        Ok(list)
    }
}
