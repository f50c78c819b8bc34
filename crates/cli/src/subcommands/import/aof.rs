//! Imports append-only files of Redis and Valkey: a folder with a manifest, or a single file.
//!
//! An append-only file is a history, so its commands run in order on one thread. The clock of this
//! process stands still meanwhile: as in Redis, a key that has expired since stays until the end,
//! because later commands may change it. Transactions take effect whole or not at all.

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use undercroft_commands::reply::{Recorder, Tree};
use undercroft_commands::session::Session;
use undercroft_embedded::OpenStore;
use undercroft_engine::DATABASES;
use undercroft_links::aof::{Manifest, Replay, Tail, read_aof};
use undercroft_links::load::{Counts, LoadError, LoadOptions, load};
use undercroft_links::rdb::Reader;

use super::libraries::load_libraries;
use super::target::{self, Target};
use crate::arguments::Import;
use crate::failure::{Failure, Outcome, SUCCESS, at};
use crate::interrupt::Interrupt;
use crate::out::{say, tell};
use crate::progress::Progress;
use crate::size::counted;

/// The files of an import, in the order of their commands.
pub(super) struct Files {
    paths: Vec<PathBuf>,
}

impl Files {
    /// Returns the files of a folder with a manifest.
    pub(super) fn of_folder(folder: &Path) -> Result<Files, Failure> {
        let shown = folder.display();
        let entries = std::fs::read_dir(folder).map_err(at(format_args!("opening {shown}")))?;
        let paths = entries.flatten().map(|entry| entry.path());
        let mut manifests: Vec<PathBuf> = paths.filter(|path| is_manifest(path)).collect();
        match (manifests.pop(), &manifests[..]) {
            (Some(manifest), []) => Files::of_manifest(&manifest),
            (None, _) => Err(Failure::new(format_args!(
                "{shown}: expected a folder with the manifest of append-only files, such as \
                 appendonly.aof.manifest; nothing was changed"
            ))),
            (Some(_), _) => Err(Failure::new(format_args!(
                "{shown}: has several manifests; name the one to import; nothing was changed"
            ))),
        }
    }

    /// Returns the files that a manifest lists.
    pub(super) fn of_manifest(path: &Path) -> Result<Files, Failure> {
        let shown = path.display();
        let text = std::fs::read_to_string(path).map_err(at(format_args!("reading {shown}")))?;
        let manifest = Manifest::parse(&text)
            .map_err(|error| Failure::new(format_args!("{shown}: {error}; nothing was changed")))?;
        let folder = path.parent().unwrap_or(Path::new(""));
        let paths = manifest.files().into_iter().map(|name| folder.join(name));
        Ok(Files {
            paths: paths.collect(),
        })
    }

    /// Returns a single file.
    pub(super) fn single(path: &Path) -> Files {
        Files {
            paths: vec![path.to_owned()],
        }
    }
}

/// Returns whether a path has the name of a manifest.
pub(super) fn is_manifest(path: &Path) -> bool {
    path.extension()
        .is_some_and(|extension| extension == "manifest")
}

pub(super) fn run(files: &Files, arguments: &Import, interrupt: &Interrupt) -> Outcome {
    let mut passes = Passes {
        files,
        interrupt,
        options: LoadOptions {
            drop_field_expiry: arguments.drop_field_expiry,
            ..LoadOptions::new()
        },
        length: 0,
    };
    for path in &files.paths {
        let status = path.metadata();
        let status = status.map_err(at(format_args!("opening {}", path.display())))?;
        passes.length += status.len();
    }
    let is_new = target::is_new(arguments)?;
    if !is_new && !arguments.streaming {
        passes
            .pass("validating", &mut Validation(&passes.options))
            .map_err(|reason| passes.failure(&reason, "nothing was changed"))?;
    }
    let target = Target::open(arguments, interrupt)?;
    target.check(0, arguments)?;
    target.empty()?;
    // The file has the changes as the server sends them to its replicas.
    target.store().apply_source();
    // The time 1 ms after the epoch, before the expiry of every key.
    target.store().set_time(1);
    let mut execution = Execution::new(&target.open, passes.options, arguments.replace);
    let read = passes.pass("importing", &mut execution);
    let (counts, commands) = (execution.counts, execution.commands);
    target.store().set_time(0);
    let tail = read.map_err(|reason| passes.failure(&reason, &target.state(None)))?;
    let keys: u64 = (0..DATABASES)
        .map(|database| target.store().keys(database))
        .sum();
    let place = target.finish()?;
    if let Some((path, at, bytes)) = tail {
        tell(format_args!(
            "undercroft: {} ends within a command or a transaction, as after a crash: the last {} \
             after byte {at} were left out\n",
            path.display(),
            counted(bytes, "byte"),
        ));
    }
    let snapshot = match counts.keys {
        0 => String::new(),
        keys => format!(" ({} from a snapshot)", counted(keys, "key")),
    };
    say!(
        "ran {}{snapshot}; {place} has {}",
        counted(commands, "command"),
        counted(keys, "key")
    );
    Ok(SUCCESS)
}

/// A truncated tail: the file, the offset at which it begins, and its length.
type Cut = (PathBuf, u64, u64);

/// The settings that all passes over the files share.
struct Passes<'p> {
    files: &'p Files,
    interrupt: &'p Interrupt,
    options: LoadOptions,
    /// The total length of all files in bytes.
    length: u64,
}

impl Passes<'_> {
    /// Reads all files in order. Returns the truncated tail of the last file, if it has one.
    fn pass(&self, doing: &'static str, replay: &mut impl Replay) -> Result<Option<Cut>, String> {
        let (mut progress, mut before) = (Progress::new(doing, self.length), 0);
        let last = self.files.paths.last();
        for path in &self.files.paths {
            let shown = path.display();
            let file = File::open(path).map_err(|error| format!("opening {shown}: {error}"))?;
            let length = file.metadata().map_or(0, |status| status.len());
            let mut watch = |at| {
                progress.at(before + at);
                !self.interrupt.is_caught()
            };
            let tail =
                read_aof(file, replay, &mut watch).map_err(|error| format!("{shown}: {error}"))?;
            match tail {
                Tail::Whole => {}
                Tail::Truncated { at, bytes } if Some(path) == last => {
                    return Ok(Some((path.clone(), at, bytes)));
                }
                Tail::Truncated { at, .. } => {
                    return Err(format!(
                        "{shown}: damaged at byte {at}: expected whole commands, because further \
                         files follow"
                    ));
                }
            }
            before += length;
        }
        Ok(None)
    }

    /// Returns the failure of an import. `left` describes the state of the store.
    fn failure(&self, reason: &str, left: &str) -> Failure {
        match self.interrupt.is_caught() {
            true => Failure::interrupted(left),
            false => Failure::new(format_args!("{reason}; {left}")),
        }
    }
}

/// Validates the structure of the files.
struct Validation<'v>(&'v LoadOptions);

impl Replay for Validation<'_> {
    fn snapshot<R: Read>(&mut self, reader: &mut Reader<R>) -> Result<(), LoadError> {
        load(reader, None, self.0, &mut |_| true).map(drop)
    }

    fn command(&mut self, _words: &[&[u8]], _at: u64) -> Result<(), String> {
        Ok(())
    }

    fn is_in_transaction(&self) -> bool {
        false
    }

    fn discard(&mut self) {}
}

/// Runs the content of the files on a store.
struct Execution<'e> {
    open: &'e OpenStore,
    session: Session,
    options: LoadOptions,
    /// Whether function libraries may replace others.
    replaces: bool,
    counts: Counts,
    commands: u64,
}

impl Execution<'_> {
    fn new(open: &OpenStore, options: LoadOptions, replaces: bool) -> Execution<'_> {
        Execution {
            open,
            session: open.session(),
            options,
            replaces,
            counts: Counts::default(),
            commands: 0,
        }
    }
}

impl Replay for Execution<'_> {
    fn snapshot<R: Read>(&mut self, reader: &mut Reader<R>) -> Result<(), LoadError> {
        let loaded = load(reader, Some(&self.open.store), &self.options, &mut |_| true)?;
        self.counts = loaded.counts;
        load_libraries(self.open, &loaded.libraries, self.replaces)
            .map_err(|failure| LoadError::Library(failure.to_string()))
    }

    fn command(&mut self, words: &[&[u8]], _at: u64) -> Result<(), String> {
        let name = || {
            words
                .first()
                .unwrap_or(&&b""[..])
                .escape_ascii()
                .to_string()
        };
        let mut recorder = Recorder::new();
        self.open
            .execute(&mut self.session, words, &mut recorder)
            .map_err(|blocked| format!("{}: {blocked}", name()))?;
        self.commands += 1;
        // The clock stands still, so removed values are freed here.
        if self.commands.is_multiple_of(UPKEEP_EVERY) {
            let freed = self.open.store.upkeep_all();
            freed.map_err(|error| error.to_string())?;
        }
        let replies = recorder.finish().unwrap_or_default();
        match replies.iter().find_map(error_in) {
            Some(error) => Err(format!("{}: {error}", name())),
            None => Ok(()),
        }
    }

    fn is_in_transaction(&self) -> bool {
        self.session.queued().is_some()
    }

    fn discard(&mut self) {
        if self.is_in_transaction() {
            let mut recorder = Recorder::new();
            // Discarding a queue of commands changes no key and cannot fail.
            let _ = self
                .open
                .execute(&mut self.session, &[b"DISCARD"], &mut recorder);
        }
    }
}

/// The number of commands between two steps of upkeep.
const UPKEEP_EVERY: u64 = 1 << 16;

/// Returns the first error in a reply.
fn error_in(reply: &Tree) -> Option<&str> {
    match reply {
        Tree::Error(text) => Some(text),
        Tree::Array(items) | Tree::Set(items) => items.iter().find_map(error_in),
        _ => None,
    }
}
