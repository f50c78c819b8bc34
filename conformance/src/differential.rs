//! The differential tester, which sends one stream of commands to two servers.

use std::fmt;
use std::io;

use anyhow::{Context, Result};

use crate::audit;
use crate::client::{Address, Client};
use crate::command::Command;
use crate::compare::{Rules, Verdict, compare};
use crate::generate::{Family, Generator};
use crate::resp::Reply;
use crate::servers::Peer;
use crate::shrink;

/// The parameters of a run.
#[derive(Debug, Clone)]
pub struct Plan {
    /// The number of commands to send.
    pub commands: usize,
    /// The seed of the generator.
    pub seed: u64,
    /// The number of commands in a batch. The data is compared after each batch.
    pub batch: usize,
    /// The command families from which commands are drawn.
    pub families: Vec<Family>,
    /// The rules that specify which properties must be equal.
    pub rules: Rules,
}

/// A difference between the two servers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Difference {
    /// The two replies to one command differ.
    Reply {
        /// The command that was sent.
        command: Command,
        /// The judge's reply.
        judge: Reply,
        /// The subject's reply.
        subject: Reply,
        /// An explanation, if the replies alone do not show the difference.
        why: String,
    },
    /// The data sets differ after a batch.
    Data(audit::Finding),
    /// The subject closed the connection, died, or sent malformed RESP.
    Lost(String),
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Difference::Reply {
                command,
                judge,
                subject,
                why,
            } => {
                let line = command.to_string();
                let shown: String = line.chars().take(400).collect();
                write!(f, "{shown}\n  judge:   {judge}\n  subject: {subject}")?;
                if !why.is_empty() {
                    write!(f, "\n  {why}")?;
                }
                Ok(())
            }
            Difference::Data(finding) => f.write_str(finding),
            Difference::Lost(how) => write!(f, "the subject's connection: {how}"),
        }
    }
}

/// A failed run, reduced to a few commands.
#[derive(Debug, Clone)]
pub struct Failure {
    /// The seed of the run.
    pub seed: u64,
    /// The number of commands sent before the difference appeared.
    pub after: usize,
    /// The first difference that was found.
    pub first: Difference,
    /// The shortest list of commands found that shows a difference on empty servers.
    pub minimal: Vec<Command>,
    /// The difference that the minimal list shows, or `None` if it did not reappear.
    pub shown: Option<Difference>,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "seed {} differs within {} commands:",
            self.seed, self.after
        )?;
        writeln!(f, "{}\n", self.first)?;
        match &self.shown {
            Some(shown) => {
                writeln!(
                    f,
                    "{} commands reproduce it on empty servers:\n",
                    self.minimal.len()
                )?;
                for command in &self.minimal {
                    writeln!(f, "    {command}")?;
                }
                writeln!(f, "\nthe last one, {shown}\n")?;
            }
            None => {
                writeln!(f, "no suffix of the run reproduces it on empty servers\n")?;
            }
        }
        write!(
            f,
            "replay: UNDERCROFT_SEED={} with the same number of commands",
            self.seed
        )
    }
}

/// Sends the plan's commands to both servers and compares them, finishing any sequence to which the
/// last command belongs. `progress` receives the number of commands compared so far.
///
/// Returns `None` if all replies and data were equal.
///
/// # Errors
/// Returns an error if the judge fails: its connection breaks or it does not start.
pub fn run(
    judge: &mut dyn Peer,
    subject: &mut dyn Peer,
    plan: &Plan,
    mut progress: impl FnMut(usize),
) -> Result<Option<Failure>> {
    let mut generator = Generator::new(plan.seed, &plan.families);
    let mut session = Session::fresh(judge, subject, plan.rules)?;
    let mut sent: Vec<Command> = Vec::new();
    let mut starts = Vec::new();
    while sent.len() < plan.commands {
        starts.push(sent.len());
        let size = plan.batch.min(plan.commands - sent.len());
        let first = sent.len();
        // Do not compare the data between commands that belong together, because Redis' SORT
        // depends on the last value read.
        while sent.len() < first + size || generator.is_amid() {
            sent.push(generator.command());
        }
        let difference = session
            .play(&sent[first..])
            .with_context(|| format!("seed {}, after {first} commands", plan.seed))?;
        if let Some(mut difference) = difference {
            if let (Difference::Lost(how), Some(words)) = (&mut difference, subject.last_words()) {
                how.push_str(&format!("; its last output:\n{words}"));
            }
            let after = sent.len();
            drop(session);
            let (minimal, shown) = shrink::shrink(judge, subject, plan.rules, &sent, &starts)?;
            let failure = Failure {
                seed: plan.seed,
                after,
                first: difference,
                minimal,
                shown,
            };
            return Ok(Some(failure));
        }
        progress(sent.len());
    }
    Ok(None)
}

/// The first word of a pseudo-command whose remaining words are sent over a second connection: `2:
/// SET key value`.
pub const SECOND: &str = "2:";

/// Connections to two servers that are empty at the start. For each server, one connection sends
/// the commands, another acts as a second client, and a third reads the data.
#[derive(Debug)]
pub struct Session {
    judge: Client,
    subject: Client,
    judge_second: Client,
    subject_second: Client,
    /// The commands queued since MULTI.
    queued: Option<Vec<Command>>,
    judge_auditor: Client,
    subject_auditor: Client,
    rules: Rules,
}

impl Session {
    /// Connects to both servers and empties them.
    ///
    /// # Errors
    /// Returns an error if a server cannot be reached or emptied.
    pub fn fresh(judge: &mut dyn Peer, subject: &mut dyn Peer, rules: Rules) -> Result<Self> {
        let judge = judge.address().context("starting the judge")?;
        let subject = subject.address().context("starting the subject")?;
        Ok(Session {
            judge: Client::connect(&judge)?,
            judge_second: Client::connect(&judge)?,
            judge_auditor: emptied(&judge)?,
            queued: None,
            subject: Client::connect(&subject)?,
            subject_second: Client::connect(&subject)?,
            subject_auditor: emptied(&subject)?,
            rules,
        })
    }

    /// Sends the commands to both servers, and compares each reply and finally the data.
    ///
    /// # Errors
    /// Returns an error if the judge's connection breaks. A broken connection to the subject counts
    /// as a difference.
    pub fn play(&mut self, commands: &[Command]) -> Result<Option<Difference>> {
        let mut rest = commands;
        while !rest.is_empty() {
            // Do not pipeline iterations, which send several commands, or commands for the second
            // connection.
            let alone = |command: &Command| is_scan(command) || is_second(command);
            let run = rest.iter().position(alone).unwrap_or(rest.len());
            let (now, later) = rest.split_at(run);
            let difference = self.compare_pipeline(now)?;
            if difference.is_some() {
                return Ok(difference);
            }
            rest = later;
            if let Some((second, later)) = rest.split_first()
                && is_second(second)
            {
                let difference = self.compare_second(second)?;
                if difference.is_some() {
                    return Ok(difference);
                }
                rest = later;
            } else if let Some((scan, later)) = rest.split_first() {
                let a = full_scan(&mut self.judge, scan).context("the judge failed")?;
                let b = match full_scan(&mut self.subject, scan) {
                    Ok(reply) => reply,
                    Err(error) => {
                        return Ok(Some(Difference::Lost(format!("{error}, after {scan}"))));
                    }
                };
                if let Some(difference) = self.judge_in_turn(scan, a, b)? {
                    return Ok(Some(difference));
                }
                rest = later;
            }
        }
        match audit::audit(
            &mut self.judge_auditor,
            &mut self.subject_auditor,
            self.rules,
        ) {
            Ok(finding) => Ok(finding.map(Difference::Data)),
            Err(("subject", error)) => Ok(Some(Difference::Lost(format!("{error}, in the audit")))),
            Err((who, error)) => {
                Err(error).with_context(|| format!("the {who} failed in the audit"))
            }
        }
    }

    fn compare_pipeline(&mut self, commands: &[Command]) -> Result<Option<Difference>> {
        let judged = self.judge.pipeline(commands).context("the judge failed")?;
        let subject = match self.subject.pipeline(commands) {
            Ok(replies) => replies,
            Err(error) => return Ok(Some(Difference::Lost(error.to_string()))),
        };
        for (command, (a, b)) in commands.iter().zip(judged.into_iter().zip(subject)) {
            if let Some(difference) = self.judge_in_turn(command, a, b)? {
                return Ok(Some(difference));
            }
        }
        Ok(None)
    }

    /// Sends one command over the second connections and compares the replies.
    fn compare_second(&mut self, command: &Command) -> Result<Option<Difference>> {
        let words = Command(command.0[1..].to_vec());
        let judged = self.judge_second.pipeline(std::slice::from_ref(&words));
        let mut judged = judged.context("the judge failed")?;
        let subject = self.subject_second.pipeline(std::slice::from_ref(&words));
        let mut subject = match subject {
            Ok(replies) => replies,
            Err(error) => return Ok(Some(Difference::Lost(error.to_string()))),
        };
        self.judge_one(&words, judged.remove(0), subject.remove(0))
    }

    /// Compares the replies to the next command on the first connection. A reply to EXEC is
    /// compared according to the queued commands.
    fn judge_in_turn(
        &mut self,
        command: &Command,
        a: Reply,
        b: Reply,
    ) -> Result<Option<Difference>> {
        match (command.word(0).as_str(), &a) {
            ("MULTI", Reply::Simple(_)) => self.queued = Some(Vec::new()),
            ("EXEC" | "DISCARD" | "RESET" | "QUIT", _) => {
                let queued = self.queued.take().unwrap_or_default();
                if let (Reply::Array(a), Reply::Array(b)) = (&a, &b)
                    && a.len() == b.len()
                    && a.len() == queued.len()
                {
                    for (command, (a, b)) in queued.iter().zip(a.iter().zip(b)) {
                        // Skip a scan, because only a complete iteration has a defined result.
                        if is_scan(command) {
                            continue;
                        }
                        let difference = self.judge_one(command, a.clone(), b.clone())?;
                        if difference.is_some() {
                            return Ok(difference);
                        }
                    }
                    return Ok(None);
                }
            }
            (_, Reply::Simple(word)) if word == b"QUEUED" => {
                if let Some(queued) = &mut self.queued {
                    queued.push(command.clone());
                }
            }
            _ => {}
        }
        self.judge_one(command, a, b)
    }

    fn judge_one(&mut self, command: &Command, a: Reply, b: Reply) -> Result<Option<Difference>> {
        let why = match compare(command, &a, &b, self.rules) {
            Verdict::Same => return Ok(None),
            Verdict::Different(why) => why,
            Verdict::Payloads(x, y) => {
                let ((read, one), (also, other)) = (self.restored(&x)?, self.restored(&y)?);
                if read == also && compare(&read, &one, &other, self.rules) == Verdict::Same {
                    return Ok(None);
                }
                "the judge restores the payloads to different values".to_owned()
            }
        };
        let command = command.clone();
        Ok(Some(Difference::Reply {
            command,
            judge: a,
            subject: b,
            why,
        }))
    }

    /// Returns the value that the judge restores from a payload, and the command that reads it.
    /// Uses a database that the generators never use.
    fn restored(&mut self, payload: &[u8]) -> Result<(Command, Reply)> {
        let restore = ["RESTORE", "p", "0"].map(|word| word.as_bytes().to_vec());
        let replies = self.judge_auditor.pipeline(&[
            Command::of(["SELECT", "15"]),
            Command([&restore[..], &[payload.to_vec()]].concat()),
            Command::of(["TYPE", "p"]),
        ])?;
        let kind = String::from_utf8_lossy(replies[2].bytes().unwrap_or_default()).into_owned();
        let read = audit::reader(&kind, b"p");
        let value = self
            .judge_auditor
            .pipeline(&[read.clone(), Command::of(["DEL", "p"])])?
            .swap_remove(0);
        // If RESTORE fails, its error replaces the value, and does not equal any value.
        let restored = if replies[1].is_error() {
            replies[1].clone()
        } else {
            value
        };
        Ok((read, restored))
    }
}

fn emptied(address: &Address) -> Result<Client> {
    let mut client = Client::connect(address)?;
    let reply = client
        .call(["FLUSHALL"])
        .with_context(|| format!("emptying {address}"))?;
    anyhow::ensure!(
        reply == Reply::Simple(b"OK".to_vec()),
        "emptying {address}: expected OK, got {reply}"
    );
    Ok(client)
}

fn is_second(command: &Command) -> bool {
    command.0.len() > 1 && command.0[0] == SECOND.as_bytes()
}

fn is_scan(command: &Command) -> bool {
    cursor_place(command).is_some_and(|place| command.word(place) == "0")
}

/// Returns the index of the cursor in the arguments of SCAN and its variants.
fn cursor_place(command: &Command) -> Option<usize> {
    match command.word(0).as_str() {
        "SCAN" => Some(1),
        "HSCAN" | "SSCAN" | "ZSCAN" => Some(2),
        _ => None,
    }
}

/// Iterates until the cursor is 0 again, and returns all items, sorted and without duplicates. An
/// error is returned unchanged.
fn full_scan(client: &mut Client, command: &Command) -> io::Result<Reply> {
    let place = cursor_place(command).unwrap_or(1);
    // HSCAN and ZSCAN return two items for each element: a field and its value, or a member and its
    // score.
    let width = match command.word(0).as_str() {
        "HSCAN" | "ZSCAN" => 2,
        _ => 1,
    };
    let mut next = command.clone();
    let mut keys: Vec<Vec<Reply>> = Vec::new();
    // Limit the number of steps, because a cursor that never returns to 0 is a fault.
    for _ in 0..1_000_000 {
        client.send(&next)?;
        let reply = client.receive()?;
        let Some([Reply::Bulk(cursor), Reply::Array(found)]) = reply.items() else {
            return Ok(reply);
        };
        keys.extend(found.chunks(width).map(<[Reply]>::to_vec));
        if cursor == b"0" {
            keys.sort();
            keys.dedup();
            return Ok(Reply::Array(keys.concat()));
        }
        next.0[place] = cursor.clone();
    }
    Err(io::Error::other(
        "SCAN did not finish within a million steps",
    ))
}
