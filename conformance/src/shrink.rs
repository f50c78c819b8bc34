//! Finds a short list of commands that still shows a difference.

use anyhow::Result;

use crate::command::Command;
use crate::compare::Rules;
use crate::differential::{Difference, Session};
use crate::servers::Peer;

/// Lists tried before the best one so far is taken.
const TRIES: usize = 1500;

/// Shrinks a failing run on servers that are emptied for each attempt.
///
/// First the shortest run of last batches that fails (`starts` holds where each
/// batch began), then delta debugging over the commands, then over the lengths
/// of their arguments. Without a difference on replay, the last batch and
/// `None` are returned.
///
/// # Errors
/// When the judge fails.
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

    /// Delta debugging: drops ever smaller pieces as long as it still fails.
    fn fewer_commands(&mut self, mut list: Vec<Command>) -> Result<Vec<Command>> {
        let mut pieces = 2;
        while list.len() > 1 && self.tries < TRIES {
            let size = list.len().div_ceil(pieces);
            let mut dropped = false;
            // From the end: what comes after the difference goes first.
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

    /// Halves long arguments, numbers and scripts excepted, as long as it still fails.
    fn shorter_arguments(&mut self, mut list: Vec<Command>) -> Result<Vec<Command>> {
        for place in 0..list.len() {
            for arg in 1..list[place].0.len() {
                // A shorter number is another number: a time would come near. So it is with scripts.
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
        // The difference reported is the one of the list returned.
        self.fails(&list)?;
        Ok(list)
    }
}
