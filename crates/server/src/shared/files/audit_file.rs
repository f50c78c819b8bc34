//! Appends the events of the audit log to a file, one JSON object a line.

use std::fs::{File, OpenOptions};
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use rustix::fs::OFlags;
use serde::Serialize;
use time::OffsetDateTime;
use undercroft_commands::arguments::CommandError;
use undercroft_commands::audit::{AuditEvent, AuditFacts, AuditLog};

use crate::log::log;
use crate::shared::files::refusal_rate::RefusalRate;

/// The file of `audit-log`. All threads of the server share it.
#[derive(Debug)]
pub(crate) struct AuditFile {
    path: PathBuf,
    /// Whether audited commands are refused while the file cannot be written (`audit-log-required`).
    is_required: bool,
    state: Mutex<State>,
    /// The rate at which connections are refused.
    pub(crate) refusals: RefusalRate,
    written: AtomicU64,
    lost: AtomicU64,
    /// Whether the last event could not be written, so that this is logged only once.
    is_failing: AtomicBool,
}

#[derive(Debug)]
struct State {
    file: File,
    /// Whether the file ends with a part of a line, because the file system was full.
    has_partial_line: bool,
}

/// An event as a line of the file. The order of the fields is that of the line.
#[derive(Serialize)]
struct Line<'e> {
    time: String,
    event: &'static str,
    result: &'static str,
    user: String,
    address: &'e str,
    client: u64,
    #[serde(skip_serializing_if = "str::is_empty")]
    command: &'static str,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    arguments: Vec<String>,
    #[serde(skip_serializing_if = "str::is_empty")]
    reason: &'e str,
}

impl AuditFile {
    /// Opens a file for appending, and creates it with mode 0600 if it does not exist.
    ///
    /// # Errors
    /// If the file cannot be opened, or is not a regular file: a pipe that is not read would block
    /// the server.
    pub(crate) fn open(path: &Path, is_required: bool) -> io::Result<AuditFile> {
        let path = std::path::absolute(path)?;
        Ok(AuditFile {
            state: Mutex::new(State {
                file: open(&path)?,
                has_partial_line: false,
            }),
            path,
            is_required,
            refusals: RefusalRate::default(),
            written: AtomicU64::new(0),
            lost: AtomicU64::new(0),
            is_failing: AtomicBool::new(false),
        })
    }

    /// Opens the path again, after its file was renamed. If this fails, the old file stays in use.
    pub(crate) fn reopen(&self) {
        match open(&self.path) {
            Ok(file) => {
                *self.state() = State {
                    file,
                    has_partial_line: false,
                };
                log(format_args!(
                    "audit-log {}: opened again",
                    self.path.display()
                ));
            }
            Err(error) => log(format_args!(
                "audit-log {}: the old file stays in use: {error}",
                self.path.display()
            )),
        }
    }

    fn append(&self, event: &AuditEvent) -> io::Result<()> {
        let mut line = serde_json::to_vec(&Line::of(event))?;
        line.push(b'\n');
        let mut state = self.state();
        if state.has_partial_line {
            line.insert(0, b'\n');
        }
        // A single call, so that lines of several processes do not mix.
        let written = loop {
            match state.file.write(&line) {
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                written => break written?,
            }
        };
        if written > 0 {
            state.has_partial_line = written < line.len();
        }
        match written == line.len() {
            true => Ok(()),
            false => Err(ErrorKind::StorageFull.into()),
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // Each change of the state is a single assignment, so it is sound after a panic.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn error(&self, error: Option<&io::Error>) -> CommandError {
        let reason = error.map_or(String::new(), |error| format!(" ({error})"));
        CommandError::new(format!(
            "ERR the audit log {} cannot be written{reason}, and audit-log-required is set: free space or \
             repair the file, then retry",
            self.path.display()
        ))
    }
}

impl AuditLog for AuditFile {
    fn record(&self, event: &AuditEvent) -> Result<(), CommandError> {
        match self.append(event) {
            Ok(()) => {
                self.written.fetch_add(1, Ordering::Relaxed);
                if self.is_failing.swap(false, Ordering::Relaxed) {
                    let lost = self.lost.load(Ordering::Relaxed);
                    log(format_args!(
                        "audit-log {}: can be written again; {lost} events were lost since the start",
                        self.path.display()
                    ));
                }
                Ok(())
            }
            Err(error) => {
                self.lost.fetch_add(1, Ordering::Relaxed);
                if !self.is_failing.swap(true, Ordering::Relaxed) {
                    log(format_args!(
                        "audit-log {}: an event was lost: {error}",
                        self.path.display()
                    ));
                }
                match self.is_required {
                    true => Err(self.error(Some(&error))),
                    false => Ok(()),
                }
            }
        }
    }

    fn is_required(&self) -> bool {
        self.is_required
    }

    fn refusal(&self) -> Option<CommandError> {
        let is_refused = self.is_required && self.is_failing.load(Ordering::Relaxed);
        is_refused.then(|| self.error(None))
    }

    fn facts(&self) -> AuditFacts {
        AuditFacts {
            written: self.written.load(Ordering::Relaxed),
            lost: self.lost.load(Ordering::Relaxed),
        }
    }
}

impl<'e> Line<'e> {
    fn of(event: &'e AuditEvent) -> Line<'e> {
        Line {
            time: rfc3339(event.time),
            event: event.event,
            result: event.result.name(),
            user: text(&event.user),
            address: &event.address,
            client: event.client,
            command: event.command,
            arguments: event.arguments.iter().map(|word| text(word)).collect(),
            reason: &event.reason,
        }
    }
}

/// Formats a time in Unix microseconds. All times have the same length, so their order as texts is that
/// of time.
fn rfc3339(time: i64) -> String {
    let rest = time.rem_euclid(1_000_000);
    let seconds = OffsetDateTime::from_unix_timestamp(time.div_euclid(1_000_000));
    let moment = seconds.unwrap_or(OffsetDateTime::UNIX_EPOCH);
    let (date, (hour, minute, second)) = (moment.date(), moment.to_hms());
    // A date is shown as YYYY-MM-DD.
    format!("{date}T{hour:02}:{minute:02}:{second:02}.{rest:06}Z")
}

/// Returns bytes as text. Bytes that are not valid UTF-8 become `\xHH`.
fn text(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len());
    for chunk in bytes.utf8_chunks() {
        text.push_str(chunk.valid());
        text.extend(chunk.invalid().escape_ascii().map(char::from));
    }
    text
}

fn open(path: &Path) -> io::Result<File> {
    let file = OpenOptions::new()
        .append(true)
        .create(true)
        .mode(0o600)
        // Opening a pipe that no process reads must fail instead of blocking.
        .custom_flags((OFlags::NONBLOCK | OFlags::CLOEXEC | OFlags::NOCTTY).bits() as i32)
        .open(path)?;
    match file.metadata()?.is_file() {
        true => Ok(file),
        false => Err(io::Error::new(
            ErrorKind::InvalidInput,
            "expected a regular file",
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use undercroft_commands::audit::AuditResult;

    fn event(user: &[u8], argument: &[u8]) -> AuditEvent {
        AuditEvent {
            time: 1_700_000_000_000_010,
            event: "config",
            user: user.to_vec(),
            address: "127.0.0.1:5".to_owned(),
            client: 7,
            command: "config|set",
            arguments: vec![argument.to_vec()],
            result: AuditResult::Failure,
            reason: "why\nnot".to_owned(),
        }
    }

    #[test]
    fn each_event_is_one_line_whatever_bytes_it_contains() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("audit");
        let file = AuditFile::open(&path, false).expect("a file");
        let seed = undercroft_testkit::fresh::seed();
        let mut random = fastrand::Rng::with_seed(seed);
        let mut written = Vec::new();
        for _ in 0..200 {
            let length = random.usize(..40);
            let mut bytes: Vec<u8> = (0..length).map(|_| random.u8(..)).collect();
            bytes.extend(b"\n\r\"}\\\x00\xe2\x80\xa8\x85{");
            file.record(&event(&bytes, &bytes)).expect("space");
            written.push(bytes);
        }
        let content = std::fs::read_to_string(&path).expect("UTF-8");
        assert!(content.ends_with('\n'));
        let lines: Vec<&str> = content.split_terminator('\n').collect();
        assert_eq!(lines.len(), written.len());
        for (line, bytes) in lines.into_iter().zip(&written) {
            let value: serde_json::Value = serde_json::from_str(line).expect("an object");
            assert_eq!(value["time"], "2023-11-14T22:13:20.000010Z");
            assert_eq!(value["user"], text(bytes), "{line}");
            assert_eq!(value["arguments"][0], text(bytes), "{line}");
            assert_eq!(value["reason"], "why\nnot");
        }
    }

    #[test]
    fn line_after_a_partial_line_starts_on_its_own() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("audit");
        let file = AuditFile::open(&path, true).expect("a file");
        std::fs::write(&path, "{\"time\":\"20").expect("space");
        file.state().has_partial_line = true;
        file.record(&event(b"u", b"x")).expect("space");
        let content = std::fs::read_to_string(&path).expect("text");
        assert_eq!(content.lines().count(), 2, "{content}");
        assert!(!file.state().has_partial_line);
    }
}
