//! Reads and runs written cases, which are commands and their expected replies in text files.
//!
//! ```text
//! == SET with NX leaves an existing key alone
//! SET k first
//!   +OK
//! SET k second NX
//!   $-1
//! 2: GET k
//!   $"first"
//! ```
//!
//! An unindented line is a command, parsed as redis-cli does. The indented lines after it are its
//! expected reply (see [`notation`]). `2:` before a command sends it over a second connection. A
//! `<` instead of a command sends nothing and only receives a reply.
//!
//! Three words can replace a reply. `closed` expects the connection to end, and `silent` expects
//! that no reply is sent. `waits` expects the command to block its connection; CLIENT LIST must
//! show that before the case continues.
//!
//! A `#` begins a comment. Every case starts on an empty server with new connections.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};

use crate::client::{Address, Client};
use crate::command::Command;
use crate::limits::{CaseParts, Limits};
use crate::notation;
use crate::resp::Reply;

/// The time limit for a command to block its connection.
const BLOCKED_WITHIN: Duration = Duration::from_secs(20);

/// A line that replaces a command: it sends nothing and receives a reply.
const RECEIVE: &str = "<";

/// The time limit for a server to notice closed connections.
const PATIENCE: Duration = Duration::from_secs(30);

/// A file of cases. Its comments are kept, so that the file can be rewritten.
#[derive(Debug)]
pub struct CaseFile {
    path: PathBuf,
    items: Vec<Item>,
}

#[derive(Debug)]
enum Item {
    /// A comment or an empty line.
    Text(String),
    Title(String),
    Step(Step),
}

/// One command and its expected reply.
#[derive(Debug)]
struct Step {
    line: usize,
    command: String,
    expected: Vec<String>,
}

/// The results of a run.
#[derive(Debug, Default)]
pub struct Report {
    /// The number of cases that ran.
    pub cases: usize,
    /// The cases that a client cannot run, with the reasons.
    pub skipped: Vec<String>,
    /// One message for each failed case, with its location, the expected reply, and the actual
    /// reply.
    pub failures: Vec<String>,
}

/// Returns the directory of this crate's case files.
pub fn directory() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("cases")
}

/// Returns the directory of the case files for features that Redis does not have.
pub fn own_directory() -> PathBuf {
    directory().join("own")
}

/// Reads all `*.case` files in a directory, sorted by name.
///
/// # Errors
/// Returns an error if a file is malformed, or if the directory contains no case file.
pub fn read_all(directory: &Path) -> Result<Vec<CaseFile>> {
    let listing =
        std::fs::read_dir(directory).with_context(|| format!("reading {}", directory.display()))?;
    let mut paths = listing
        .map(|e| Ok(e?.path()))
        .collect::<io::Result<Vec<_>>>()?;
    paths.retain(|path| path.extension().is_some_and(|e| e == "case"));
    paths.sort();
    ensure!(
        !paths.is_empty(),
        "expected *.case files in {}, found none",
        directory.display()
    );
    paths.iter().map(|path| CaseFile::read(path)).collect()
}

impl CaseFile {
    /// Reads one file.
    ///
    /// # Errors
    /// Returns an error that names the file and line if the file is malformed.
    pub fn read(path: &Path) -> Result<Self> {
        let text =
            std::fs::read_to_string(path).with_context(|| format!("reading {}", path.display()))?;
        let items = parse(&text).with_context(|| path.display().to_string())?;
        Ok(CaseFile {
            path: path.to_owned(),
            items,
        })
    }

    /// Returns the file's name without its extension.
    pub fn name(&self) -> &str {
        let stem = self.path.file_stem().and_then(|stem| stem.to_str());
        stem.unwrap_or_default()
    }

    /// Runs every case against a server, which is emptied before each case.
    ///
    /// # Errors
    /// Returns an error if the server cannot be reached or emptied.
    pub fn run(&self, address: &Address, report: &mut Report) -> Result<()> {
        self.run_within(address, None, report)
    }

    /// Runs the cases that a client can run against a bridge, which passes commands to that client.
    ///
    /// # Errors
    /// Returns an error if the bridge cannot be reached or the store emptied.
    pub fn run_through(
        &self,
        address: &Address,
        limits: &Limits,
        report: &mut Report,
    ) -> Result<()> {
        self.run_within(address, Some(limits), report)
    }

    fn run_within(
        &self,
        address: &Address,
        limits: Option<&Limits>,
        report: &mut Report,
    ) -> Result<()> {
        for (title, steps) in self.cases()? {
            if let Some(reason) = limits.and_then(|limits| self.skipped(limits, title, &steps)) {
                let name = self.name();
                report.skipped.push(format!("{name}: {title} ({reason})"));
                continue;
            }
            report.cases += 1;
            let mut players = Players::fresh(address, limits)?;
            for step in steps {
                if let Err(error) = players.check(step) {
                    let place = format!("{}:{}", self.path.display(), step.line);
                    report
                        .failures
                        .push(format!("{place}: {title}\n  {}\n{error:#}", step.command));
                    // The results of the remaining steps are meaningless.
                    break;
                }
            }
        }
        Ok(())
    }

    /// Returns the titles and the steps of the cases.
    fn cases(&self) -> Result<Vec<(&str, Vec<&Step>)>> {
        let mut cases: Vec<(&str, Vec<&Step>)> = Vec::new();
        for item in &self.items {
            match item {
                Item::Text(_) => {}
                Item::Title(title) => cases.push((title, Vec::new())),
                Item::Step(step) => {
                    let case = cases.last_mut().context("a step before the first title")?;
                    case.1.push(step);
                }
            }
        }
        Ok(cases)
    }

    fn skipped<'l>(&self, limits: &'l Limits, title: &str, steps: &[&Step]) -> Option<&'l str> {
        let steps: Vec<(&str, &[String])> = steps
            .iter()
            .map(|step| (connection(&step.command).1, &step.expected[..]))
            .collect();
        limits.reason(CaseParts {
            file: self.name(),
            title,
            steps: &steps,
        })
    }

    /// Writes the server's replies into the file if the expected replies are missing or differ. Use
    /// this only with a real Redis, and review the diff afterwards.
    ///
    /// # Errors
    /// Returns an error if the server cannot be reached or the file cannot be written.
    pub fn bless(&mut self, address: &Address) -> Result<()> {
        let mut players = None;
        for item in &mut self.items {
            match item {
                Item::Text(_) => {}
                Item::Title(_) => {
                    drop(players.take());
                    players = Some(Players::fresh(address, None)?);
                }
                Item::Step(step) => {
                    let players = players.as_mut().context("a step before the first title")?;
                    let answer = players.play(step)?;
                    if step.verify(&answer, false).is_err() {
                        step.expected = match answer {
                            Answer::Reply(reply) => reply.lines(),
                            Answer::Closed => vec!["closed".to_owned()],
                            Answer::Silent => vec!["silent".to_owned()],
                            Answer::Waits => vec!["waits".to_owned()],
                        };
                    }
                }
            }
        }
        std::fs::write(&self.path, self.text())?;
        Ok(())
    }

    fn text(&self) -> String {
        let mut out = String::new();
        for item in &self.items {
            match item {
                Item::Text(text) => out.push_str(text),
                Item::Title(title) => {
                    out.push_str("== ");
                    out.push_str(title);
                }
                Item::Step(step) => {
                    out.push_str(&step.command);
                    for line in &step.expected {
                        out.push_str("\n  ");
                        out.push_str(line);
                    }
                }
            }
            out.push('\n');
        }
        out
    }
}

fn parse(text: &str) -> Result<Vec<Item>> {
    let mut items: Vec<Item> = Vec::new();
    let mut titled = false;
    for (index, line) in text.lines().enumerate() {
        let number = index + 1;
        if line.trim().is_empty() || line.starts_with('#') {
            items.push(Item::Text(line.to_owned()));
        } else if let Some(title) = line.strip_prefix("== ") {
            titled = true;
            items.push(Item::Title(title.to_owned()));
        } else if let Some(reply) = line.strip_prefix("  ") {
            match items.last_mut() {
                Some(Item::Step(step)) => step.expected.push(reply.to_owned()),
                _ => bail!("line {number}: expected a command before the reply '{reply}'"),
            }
        } else {
            ensure!(
                titled,
                "line {number}: expected '== title' before the first command"
            );
            let (_, command) = connection(line);
            Command::parse(command).with_context(|| format!("line {number}"))?;
            let command = line.to_owned();
            items.push(Item::Step(Step {
                line: number,
                command,
                expected: Vec::new(),
            }));
        }
    }
    Ok(items)
}

/// Splits `2: GET k` into the connection number and the command.
fn connection(line: &str) -> (u32, &str) {
    let numbered = line
        .split_once(": ")
        .and_then(|(n, rest)| Some((n.parse().ok()?, rest)));
    numbered.unwrap_or((1, line))
}

enum Answer {
    Reply(Reply),
    Closed,
    Silent,
    Waits,
}

impl Step {
    fn verify(&self, answer: &Answer, is_loose: bool) -> Result<()> {
        let expected = self.expected.join("\n");
        ensure!(!expected.is_empty(), "the case states no expected reply");
        match answer {
            Answer::Silent | Answer::Waits => Ok(()),
            Answer::Closed => {
                ensure!(
                    expected == "closed",
                    "expected:\n{expected}\ngot the end of the connection"
                );
                Ok(())
            }
            Answer::Reply(reply) => {
                let got = || format!("expected:\n{expected}\ngot:\n{}", reply.lines().join("\n"));
                ensure!(expected != "closed", got());
                let lines: Vec<&str> = self.expected.iter().map(String::as_str).collect();
                let pattern = notation::parse(&lines)?;
                let matches = match is_loose {
                    true => pattern.loosened().matches(&reply.clone().loosened()),
                    false => pattern.matches(reply),
                };
                ensure!(matches, got());
                Ok(())
            }
        }
    }
}

/// The connections of one case, opened on first use.
struct Players {
    address: Address,
    /// Whether replies are compared as values of a language.
    is_loose: bool,
    clients: BTreeMap<u32, Client>,
}

impl Players {
    /// Empties the store and waits for the end of the last case's connections. If there are limits,
    /// `address` is that of a bridge, whose connections the store does not count.
    fn fresh(address: &Address, limits: Option<&Limits>) -> Result<Self> {
        let mut cleaner = Client::connect(address)?;
        let reply = cleaner.call(["FLUSHALL"])?;
        ensure!(
            reply.clone().loosened() == Reply::Bulk(b"OK".to_vec()),
            "FLUSHALL: expected OK, got {reply}"
        );
        if limits.is_none() {
            alone(&mut cleaner)?;
        }
        Ok(Players {
            address: address.clone(),
            is_loose: limits.is_some_and(Limits::loses_types),
            clients: BTreeMap::new(),
        })
    }

    fn check(&mut self, step: &Step) -> Result<()> {
        let answer = self.play(step)?;
        step.verify(&answer, self.is_loose)
    }

    /// Polls CLIENT LIST on a separate connection until it shows the connection `id` as blocked.
    fn wait_until_blocked(&self, id: &str) -> Result<()> {
        let mut observer = Client::connect(&self.address)?;
        let deadline = Instant::now() + BLOCKED_WITHIN;
        while Instant::now() < deadline {
            let Reply::Bulk(line) = observer.call(["CLIENT", "LIST", "ID", id])? else {
                break;
            };
            if line.windows(8).any(|part| part == b" flags=b") {
                return Ok(());
            }
            std::thread::yield_now();
        }
        bail!("expected the command to block its connection, {id}");
    }

    fn play(&mut self, step: &Step) -> Result<Answer> {
        let (number, line) = connection(&step.command);
        let command = Command::parse(line)?;
        if !self.clients.contains_key(&number) {
            self.clients.insert(number, Client::connect(&self.address)?);
        }
        let client = self.clients.get_mut(&number).context("no connection")?;
        if step.expected == ["silent"] {
            // A reply that arrives later makes the next command fail, which reads it as its own
            // reply.
            client.send(&command)?;
            return Ok(Answer::Silent);
        }
        if step.expected == ["waits"] {
            let Reply::Integer(id) = client.call(["CLIENT", "ID"])? else {
                bail!("CLIENT ID: expected an integer");
            };
            let id = id.to_string();
            client.send(&command)?;
            self.wait_until_blocked(&id)?;
            return Ok(Answer::Waits);
        }
        // Ignore a failed write: a write to a closed connection does not always fail, so the read
        // decides.
        let sent = if line == RECEIVE {
            Ok(())
        } else {
            client.send(&command)
        };
        match client.receive() {
            Ok(reply) => Ok(Answer::Reply(reply)),
            Err(error) => match error.kind() {
                io::ErrorKind::UnexpectedEof
                | io::ErrorKind::ConnectionReset
                | io::ErrorKind::BrokenPipe => Ok(Answer::Closed),
                _ => Err(sent.err().unwrap_or(error).into()),
            },
        }
    }
}

/// Waits until the server has noticed that the previous case's connections are closed, so that
/// their subscriptions no longer count.
fn alone(client: &mut Client) -> Result<()> {
    let deadline = Instant::now() + PATIENCE;
    loop {
        let reply = client.call(["INFO", "clients"])?;
        let Reply::Bulk(text) = &reply else {
            bail!("INFO clients: expected a text, got {reply}");
        };
        let count = text
            .split(|&byte| byte == b'\n')
            .find_map(|line| line.strip_prefix(b"connected_clients:"))
            .context("INFO clients: no connected_clients")?;
        if count.trim_ascii() == b"1" {
            return Ok(());
        }
        ensure!(
            Instant::now() < deadline,
            "expected 1 connected client after {PATIENCE:?}, got {}",
            String::from_utf8_lossy(count)
        );
        std::thread::yield_now();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_reads_and_writes_back_unchanged() {
        let text = "# Strings.\n\n== one\nSET k \"a b\"\n  +OK\n2: MGET k x\n  *2\n    $\"a b\"\n    $-1\n";
        let file = CaseFile {
            path: PathBuf::new(),
            items: parse(text).unwrap(),
        };
        assert_eq!(file.text(), text);
    }

    #[test]
    fn malformed_case_files_are_refused() {
        for bad in ["GET k\n", "== t\n  +OK\n", "== t\nGET \"k\n"] {
            assert!(parse(bad).is_err(), "{bad:?}");
        }
    }
}
