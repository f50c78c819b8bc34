//! Manages function libraries, and caches them in this process. Library texts are kept in the
//! store, and a process rereads them when a library has changed. A library's local variables last
//! until any process loads the library again, even from the same text, because each load creates a
//! new mark (a unique number) in the store.

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;

use undercroft_engine::scripts::{SharedTexts, StoredLibrary};
use undercroft_engine::{Access, ForkMutex};

use super::script::{Script, ScriptFlags};
use super::shebang;
use crate::algorithms::words::words;
use crate::arguments::CommandError;
use crate::failure::Failure;

/// A function that a library has registered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LibraryFunction {
    /// The name of the function.
    pub name: Vec<u8>,
    /// The description of the function, if it has one.
    pub description: Option<Vec<u8>>,
    /// The flags that restrict how the function may be called.
    pub flags: FunctionFlags,
}

/// The flags of a function.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FunctionFlags(u8);

impl FunctionFlags {
    /// The names of all flags, in the order in which they are listed.
    const NAMES: [&str; 5] = [
        "no-writes",
        "allow-oom",
        "allow-stale",
        "no-cluster",
        "allow-cross-slot-keys",
    ];

    /// Sets the flag with this name. Returns `false` if no such flag exists.
    #[must_use]
    pub fn add(&mut self, name: &[u8]) -> bool {
        let mut names = FunctionFlags::NAMES.iter();
        let place = names.position(|known| known.as_bytes() == name);
        if let Some(place) = place {
            self.0 |= 1 << place;
        }
        place.is_some()
    }

    /// Returns the names of the flags that are set.
    pub fn names(self) -> impl Iterator<Item = &'static str> {
        let names = FunctionFlags::NAMES.iter().enumerate();
        names.filter_map(move |(place, name)| (self.0 >> place & 1 == 1).then_some(*name))
    }

    pub(crate) fn of_script(self) -> ScriptFlags {
        ScriptFlags {
            are_given: true,
            no_writes: self.0 & 1 != 0,
            allow_oom: self.0 & 2 != 0,
        }
    }
}

/// Returns whether a name is valid for a library or a function.
pub fn is_name(name: &[u8]) -> bool {
    let is_fit = |byte: &u8| byte.is_ascii_alphanumeric() || *byte == b'_';
    !name.is_empty() && name.iter().all(is_fit)
}

/// A library whose program has been run.
pub(crate) struct Library {
    pub(crate) name: Vec<u8>,
    /// A unique number that distinguishes this load of the library from all other loads.
    pub(crate) mark: u64,
    pub(crate) script: Arc<Script>,
    pub(crate) functions: Vec<LibraryFunction>,
}

impl Library {
    /// Creates a library from its text. `load` runs the library's program, unless this thread has
    /// already run the program for the same mark (the unique number of a load).
    ///
    /// # Errors
    /// Returns an error if the text is invalid or registers no functions.
    pub(crate) fn load(
        text: &[u8],
        mark: u64,
        load: impl FnOnce(&Script) -> Result<Vec<LibraryFunction>, CommandError>,
    ) -> Result<Library, CommandError> {
        let (name, start) = name_and_start(text)?;
        let script = Arc::new(Script::library(text, mark, start));
        let functions = load(&script)?;
        if functions.is_empty() {
            return Err(CommandError::fixed("ERR No functions registered"));
        }
        Ok(Library {
            name,
            mark,
            script,
            functions,
        })
    }
}

/// Returns a new mark, a number that identifies a load of libraries. The mark is unique across
/// processes and stores.
pub(crate) fn new_mark(store: Access<'_>) -> u64 {
    // Forked processes share their hash keys and can load libraries at the same change count, so
    // hash the process ID too.
    let loading = (
        store.text_changes(SharedTexts::Libraries),
        std::process::id(),
    );
    RandomState::new().hash_one(loading)
}

/// Returns the name that the first line of a library declares, and the offset at which the program
/// begins.
///
/// # Errors
/// Returns an error if the first line is invalid.
pub(crate) fn name_and_start(text: &[u8]) -> Result<(Vec<u8>, usize), CommandError> {
    const INVALID: CommandError = CommandError::fixed("ERR Invalid library metadata");
    if !text.starts_with(b"#!") {
        return Err(CommandError::fixed("ERR Missing library metadata"));
    }
    let end = shebang::line_end(text).ok_or(INVALID)?;
    let words = words(&text[..end]).ok_or(INVALID)?;
    let (first, rest) = words.split_first().ok_or(INVALID)?;
    let engine = first.get(2..).unwrap_or_default();
    let mut name: Option<&[u8]> = None;
    for word in rest {
        match word.split_at_checked(5) {
            Some((option, given)) if option.eq_ignore_ascii_case(b"name=") => {
                if name.replace(given).is_some() {
                    return Err(CommandError::fixed(
                        "ERR Invalid metadata value, name argument was given multiple times",
                    ));
                }
            }
            _ => {
                return Err(CommandError::from_parts(&[
                    b"ERR Invalid metadata value given: ",
                    word,
                ]));
            }
        }
    }
    let name = name.ok_or(CommandError::fixed("ERR Library name was not given"))?;
    if !is_name(name) {
        return Err(CommandError::fixed(
            "ERR Library names can only contain letters, numbers, or underscores(_) and must be at least one character \
             long",
        ));
    }
    if !engine.eq_ignore_ascii_case(b"lua") {
        return Err(CommandError::quoting("ERR Engine ", engine, " not found"));
    }
    // The program starts with the line feed of the `#!` line, which keeps line numbers correct.
    Ok((name.to_vec(), end))
}

/// A snapshot of all libraries in a store.
#[derive(Default)]
pub(crate) struct Libraries {
    /// The libraries, sorted by name.
    pub(crate) all: Vec<Arc<Library>>,
    /// The version of this snapshot, to pass to [`Access::change_libraries`].
    pub(crate) version: u64,
    /// Maps the lowercase name of a function to the index of its library, and to its index within
    /// that library.
    functions: HashMap<Vec<u8>, (usize, usize)>,
}

impl Libraries {
    /// Adds a library.
    ///
    /// # Errors
    /// Returns an error if a function with the same name already exists.
    pub(crate) fn add(&mut self, library: Arc<Library>) -> Result<(), CommandError> {
        for function in &library.functions {
            if self
                .functions
                .contains_key(&function.name.to_ascii_lowercase())
            {
                return Err(CommandError::from_parts(&[
                    b"ERR Function ",
                    &function.name,
                    b" already exists",
                ]));
            }
        }
        let place = self.all.len();
        for (index, function) in library.functions.iter().enumerate() {
            let name = function.name.to_ascii_lowercase();
            self.functions.insert(name, (place, index));
        }
        self.all.push(library);
        Ok(())
    }

    /// Finds a function and its library by the name of the function, ignoring case.
    pub(crate) fn function(&self, name: &[u8]) -> Option<(&Library, &LibraryFunction)> {
        let &(library, function) = self.functions.get(&name.to_ascii_lowercase())?;
        let library = &self.all[library];
        Some((library, &library.functions[function]))
    }

    /// Finds a library by its name.
    pub(crate) fn named(&self, name: &[u8]) -> Option<&Arc<Library>> {
        self.all.iter().find(|library| library.name == name)
    }

    /// Returns the total number of functions in all libraries.
    pub(crate) fn function_count(&self) -> usize {
        self.functions.len()
    }
}

/// The libraries that this process has cached.
#[derive(Default)]
pub(crate) struct LibraryCache {
    /// The cached libraries, and the store's change count from just before they were read.
    known: ForkMutex<Option<(u64, Arc<Libraries>)>>,
}

impl LibraryCache {
    /// Returns the current libraries. Calls `load` to run the programs of new libraries.
    ///
    /// # Errors
    /// Returns an error if a lock cannot be acquired, or if a stored library can no longer be
    /// loaded.
    pub(crate) fn now(
        &self,
        store: Access<'_>,
        load: impl Fn(&Script) -> Result<Vec<LibraryFunction>, CommandError>,
    ) -> Result<Arc<Libraries>, Failure> {
        let changes = store.text_changes(SharedTexts::Libraries);
        // Clone the snapshot to release the lock immediately, because it is acquired again below.
        let known = self.known.lock().clone();
        if let Some((of, libraries)) = &known
            && *of == changes
        {
            return Ok(Arc::clone(libraries));
        }
        let (stored, version) = store.libraries()?;
        let mut libraries = Libraries {
            version,
            ..Libraries::default()
        };
        for StoredLibrary { name, text, mark } in &stored {
            let before = known.as_ref().and_then(|(_, known)| known.named(name));
            let is_same =
                |library: &&Arc<Library>| library.mark == *mark && library.script.text() == text;
            let library = match before.filter(is_same) {
                Some(library) => Arc::clone(library),
                None => Arc::new(Library::load(text, *mark, &load)?),
            };
            libraries.add(library)?;
        }
        let libraries = Arc::new(libraries);
        // Cache nothing within a transaction, because it can still be rolled back.
        if !store.is_running() {
            *self.known.lock() = Some((changes, Arc::clone(&libraries)));
        }
        Ok(libraries)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn first_line_names_the_library() {
        for (text, name) in [
            ("#!lua name=a\nx", "a"),
            ("#!LUA  NAME=a_1 \nx", "a_1"),
            ("#!lua \"name=q\"\n", "q"),
        ] {
            let (found, start) = name_and_start(text.as_bytes()).expect("a name");
            assert_eq!(found, name.as_bytes());
            assert_eq!(text.as_bytes()[start], b'\n');
        }
    }
}
