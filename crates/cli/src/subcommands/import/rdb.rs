//! Imports an RDB file.
//!
//! A new store gets its name only when it is complete, so the file is read once. An existing store
//! is not changed before the whole file has been validated, so the file is read twice, unless the
//! user requests otherwise.

use std::time::Instant;

use undercroft_engine::Store;
use undercroft_links::load::{Counts, LoadError, LoadOptions, Loaded, load};
use undercroft_links::rdb::{ReadError, Reader};

use super::libraries::load_libraries;
use super::source::Source;
use super::target::{self, Target};
use crate::arguments::Import;
use crate::failure::{Failure, Outcome, SUCCESS};
use crate::interrupt::Interrupt;
use crate::out::say;
use crate::progress::Progress;
use crate::size::{counted, grouped, human};

pub(super) fn run(mut source: Source, arguments: &Import, interrupt: &Interrupt) -> Outcome {
    let start = Instant::now();
    let options = LoadOptions {
        drop_field_expiry: arguments.drop_field_expiry,
        ..LoadOptions::new()
    };
    let mut import = Passes {
        options,
        interrupt,
        name: source.name.clone(),
    };
    let is_new = target::is_new(arguments)?;
    let is_single_pass = is_new || arguments.streaming;
    if source.length.is_none() && !is_single_pass {
        return Err(Failure::new(format_args!(
            "{}: expected a regular file, because import validates it before it changes an \
             existing store; --streaming changes the store while it reads",
            source.name
        )));
    }
    let validated = match is_single_pass {
        true => None,
        false => Some(
            import
                .pass("validating", &mut source, None)
                .map_err(|error| import.failure(error, "nothing was changed"))?,
        ),
    };
    let target = Target::open(arguments, interrupt)?;
    target.check(
        validated.as_ref().map_or(0, |it| it.counts.bytes),
        arguments,
    )?;
    if let Some(validated) = &validated {
        // A library that conflicts with another one is found before any key changes.
        load_libraries(&target.open, &validated.libraries, arguments.replace)
            .map_err(|failure| Failure::new(format_args!("{failure}; nothing was changed")))?;
    }
    target.empty()?;
    let keys = validated.as_ref().map(|it| it.counts.keys);
    let loaded = import
        .pass("importing", &mut source, Some(target.store()))
        .map_err(|error| import.failure(error, &target.state(keys)))?;
    if validated.is_none() {
        load_libraries(&target.open, &loaded.libraries, arguments.replace)
            .map_err(|failure| Failure::new(format_args!("{failure}; {}", target.state(keys))))?;
    }
    let place = target.finish()?;
    report(&loaded, &place, start);
    Ok(SUCCESS)
}

/// The settings that all passes over the file share.
struct Passes<'i> {
    options: LoadOptions,
    interrupt: &'i Interrupt,
    /// The name of the file.
    name: String,
}

impl Passes<'_> {
    /// Reads the whole file, and stores its keys if there is a store.
    fn pass(
        &mut self,
        doing: &'static str,
        source: &mut Source,
        store: Option<&Store>,
    ) -> Result<Loaded, Ended> {
        let mut progress = match source.length {
            Some(length) => Progress::new(doing, length),
            None => Progress::of_unknown_length(doing),
        };
        let content = source.content().map_err(Ended::Failure)?;
        let mut watch = |at| {
            progress.at(at);
            !self.interrupt.is_caught()
        };
        let mut reader = Reader::new(content).map_err(LoadError::Read)?;
        let loaded = load(&mut reader, store, &self.options, &mut watch)?;
        if !reader.is_at_end().map_err(LoadError::Read)? {
            let at = reader.offset();
            return Err(Ended::Damaged(format!(
                "damaged at byte {at}: expected the end of the file"
            )));
        }
        Ok(loaded)
    }

    /// Returns the failure of an import. `left` describes the state of the store.
    fn failure(&self, ended: Ended, left: &str) -> Failure {
        if self.interrupt.is_caught() {
            return Failure::interrupted(left);
        }
        let reason = match ended {
            Ended::Failure(failure) => failure.to_string(),
            Ended::Damaged(text) => text,
            Ended::Load(LoadError::Store { key, error }) if error.is_out_of_memory() => {
                format!("storing the key {key}: {error}; raise the limit with --maxmemory")
            }
            Ended::Load(LoadError::Read(ReadError::Io(error))) => format!("reading it: {error}"),
            Ended::Load(error) => error.to_string(),
        };
        Failure::new(format_args!("{}: {reason}; {left}", self.name))
    }
}

/// The reason why a pass over the file ended early.
enum Ended {
    Load(LoadError),
    Damaged(String),
    Failure(Failure),
}

impl From<LoadError> for Ended {
    fn from(error: LoadError) -> Ended {
        Ended::Load(error)
    }
}

/// Prints what was imported.
fn report(loaded: &Loaded, place: &str, start: Instant) {
    let Counts {
        keys,
        expired,
        empty,
        dropped_expiries,
        bytes,
    } = loaded.counts;
    let mut text = format!(
        "imported {} ({} of keys and values) into {place}",
        counted(keys, "key"),
        human(bytes)
    );
    let seconds = start.elapsed().as_secs_f64();
    if seconds >= 1.0 {
        let rate = grouped((keys as f64 / seconds) as u64);
        text.push_str(&format!(" in {seconds:.1} s, {rate} keys/s"));
    }
    let mut add = |count: u64, name: &str, what: &str| {
        if count > 0 {
            text.push_str(&format!("; {} {what}", counted(count, name)));
        }
    };
    add(loaded.libraries.len() as u64, "function library", "loaded");
    add(expired, "key", "had expired");
    add(empty, "key", "had an empty collection");
    add(dropped_expiries, "field", "lost the expiry");
    say!("{text}");
}
