//! Scripts: their texts, what runs them, and what they do to the store.
//!
//! The interpreter is no part of this crate: the process brings it along ([`Process::with_interpreter`]), so that who
//! needs none builds without it. It runs in the thread that sent the command, within one transaction.
//!
//! - `calls`: the commands that a script runs, and when it has to end.
//! - `known`: the scripts that this process knows.
//! - `library`: libraries of functions, and those that this process knows.
//! - `running`: the functions of this process that take long.
//! - `seen`: what the slow log and MONITOR get to see of a script's commands.
//! - `shebang`: the first line of scripts and libraries.
//!
//! [`Process::with_interpreter`]: crate::host::Process::with_interpreter

mod calls;
mod known;
mod library;
mod running;
mod seen;
mod shebang;

use std::collections::HashMap;
use std::fmt;
use std::hash::{BuildHasher, Hash, Hasher, RandomState};
use std::time::Duration;

use sha1_smol::Sha1;

use crate::arguments::CommandError;
use crate::reply::Reply;

pub(crate) use calls::Terms;
pub use calls::{Calls, Refused};
pub(crate) use known::KnownScripts;
pub use library::{FunctionFlags, LibraryFunction, is_name};
pub(crate) use library::{KnownLibraries, Libraries, Library, name_and_start, new_mark};
pub(crate) use running::RunningFunctions;
pub(crate) use seen::Seen;

/// What runs scripts. One for all threads of a process; what it keeps of a text is its own.
pub trait Interpreter: Send + Sync {
    /// Compiles a script.
    ///
    /// # Errors
    /// What is wrong with its text, and where this takes longer than a script may run.
    fn compile(&self, script: &Script, limits: ScriptLimits) -> Result<(), CommandError>;

    /// Runs the program of a library, which registers its functions, and nothing else.
    ///
    /// # Errors
    /// What is wrong with it.
    fn load(
        &self,
        library: &Script,
        limits: ScriptLimits,
    ) -> Result<Vec<LibraryFunction>, CommandError>;

    /// Runs a script, or a function of a library, to its end and writes one reply: what it returns.
    ///
    /// # Errors
    /// The error that ended it; what it did before stays. Or that it was [stopped](Stop::Stopped): then the transaction
    /// is rolled back.
    fn run(
        &self,
        script: &Script,
        called: &Called<'_>,
        calls: &mut Calls<'_, '_>,
        reply: &mut dyn Reply,
    ) -> Result<(), Stop>;

    /// Bytes of memory that the interpreters of all threads of this process take.
    fn memory(&self) -> u64;
}

/// Why a script did not come to its end.
#[derive(Debug)]
pub enum Stop {
    /// By an error of its own.
    Error(CommandError),
    /// It has to end, whatever it would do about it; [`Calls`] knows why.
    Stopped,
}

/// What a script is called with.
#[derive(Clone, Copy, Debug)]
pub struct Called<'a> {
    /// The keys that it says it uses.
    pub keys: &'a [&'a [u8]],
    /// Everything else.
    pub arguments: &'a [&'a [u8]],
    /// The function that is called, where the script is a library.
    pub function: Option<&'a [u8]>,
    /// The command that calls a function.
    pub words: &'a [&'a [u8]],
}

/// Limits on a script that belong to the process.
#[derive(Clone, Copy, Debug)]
pub struct ScriptLimits {
    /// Bytes that the interpreter of one thread may take.
    pub memory: usize,
    /// How long a script may run; none is for ever. One that runs longer is undone.
    pub time: Option<Duration>,
    /// How long a script may run on a thread that serves others, where it is such. One that runs longer is undone and
    /// [`Blocked::Long`](crate::Blocked::Long): it starts anew on a thread of its own.
    pub brief: Option<Duration>,
    /// The same for a call whose patience is [limited](undercroft_engine::limit_patience): the caller starts it anew
    /// without.
    pub hurried: Option<Duration>,
}

impl Default for ScriptLimits {
    fn default() -> ScriptLimits {
        ScriptLimits {
            memory: 256 << 20,
            time: None,
            brief: None,
            hurried: None,
        }
    }
}

/// The SHA-1 of a text in 40 lower-case hexadecimal digits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sha([u8; 40]);

impl Hash for Sha {
    /// By 32 of its bits, which are as good as any.
    fn hash<H: Hasher>(&self, hasher: &mut H) {
        let (first, _) = self.0.as_chunks();
        hasher.write_u64(u64::from_ne_bytes(first[0]));
    }
}

/// A map by SHA-1s.
pub type BySha<T> = HashMap<Sha, T, ShaHashing>;

/// Hashes SHA-1s for a table, and nothing else: they need only be spread, in a way that is another one in each process.
#[derive(Clone)]
pub struct ShaHashing(u64);

impl Default for ShaHashing {
    fn default() -> ShaHashing {
        ShaHashing(RandomState::new().hash_one(()))
    }
}

impl BuildHasher for ShaHashing {
    type Hasher = ShaHasher;

    fn build_hasher(&self) -> ShaHasher {
        ShaHasher(self.0)
    }
}

/// See [`ShaHashing`].
pub struct ShaHasher(u64);

impl Hasher for ShaHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        let words = bytes.iter().map(|byte| u64::from(*byte));
        words.for_each(|word| self.write_u64(word));
    }

    fn write_u64(&mut self, word: u64) {
        let product = u128::from(self.0 ^ word) * u128::from(0x9e37_79b9_7f4a_7c15_u64);
        self.0 = (product >> 64) as u64 ^ product as u64;
    }
}

impl Sha {
    /// That of a text.
    pub fn of(text: &[u8]) -> Sha {
        Sha::read(&Sha1::from(text))
    }

    fn read(hashed: &Sha1) -> Sha {
        const DIGITS: &[u8; 16] = b"0123456789abcdef";
        let bytes = hashed.digest().bytes();
        let mut digits = [0; 40];
        for (pair, byte) in digits.chunks_exact_mut(2).zip(bytes) {
            pair[0] = DIGITS[usize::from(byte >> 4)];
            pair[1] = DIGITS[usize::from(byte & 15)];
        }
        Sha(digits)
    }

    /// One that a client sent, in any case; none where it is not 40 bytes long.
    pub fn parse(text: &[u8]) -> Option<Sha> {
        let mut digits: [u8; 40] = text.try_into().ok()?;
        digits.make_ascii_lowercase();
        Some(Sha(digits))
    }

    /// The digits.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }
}

impl fmt::Display for Sha {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&String::from_utf8_lossy(&self.0))
    }
}

/// The SHA-1 of a text that comes in pieces.
#[derive(Default)]
pub struct Hashing(Sha1);

impl Hashing {
    /// Adds a piece.
    pub fn add(&mut self, piece: &[u8]) {
        self.0.update(piece);
    }

    /// That of all pieces.
    pub fn end(&self) -> Sha {
        Sha::read(&self.0)
    }
}

/// A script's text.
#[derive(Debug)]
pub struct Script {
    sha: Sha,
    text: Box<[u8]>,
    /// Where behind the first line the program begins.
    start: usize,
    flags: ScriptFlags,
}

/// What the first line of a script says of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ScriptFlags {
    /// Whether there is such a line: without it a script may do anything.
    pub are_given: bool,
    /// It changes nothing.
    pub no_writes: bool,
    /// It may run where there is no room for more.
    pub allow_oom: bool,
}

impl Script {
    /// Reads a text, and the first line of it where that begins with `#!`.
    ///
    /// # Errors
    /// What is wrong with that line.
    pub fn parse(text: &[u8]) -> Result<Script, CommandError> {
        let (start, flags) = ScriptFlags::of_text(text)?;
        Ok(Script {
            sha: Sha::of(text),
            text: text.into(),
            start,
            flags,
        })
    }

    /// The text of a library, whose program begins at a place. Its SHA-1 is that of the text and the mark: an interpreter
    /// runs its program once for each mark.
    pub(crate) fn library(text: &[u8], mark: u64, start: usize) -> Script {
        let mut hashed = Sha1::from(text);
        hashed.update(&mark.to_le_bytes());
        Script {
            sha: Sha::read(&hashed),
            text: text.into(),
            start,
            flags: ScriptFlags::default(),
        }
    }

    /// What EVALSHA calls it, unless it is a library.
    pub fn sha(&self) -> &Sha {
        &self.sha
    }

    /// The program: the text but for a first line that begins with `#!`, whose end stays so that lines keep their numbers.
    pub fn program(&self) -> &[u8] {
        &self.text[self.start..]
    }

    /// All of it.
    pub fn text(&self) -> &[u8] {
        &self.text
    }

    /// What its first line says.
    pub fn flags(&self) -> ScriptFlags {
        self.flags
    }
}

impl ScriptFlags {
    /// Returns where the program of a text begins, and the flags.
    fn of_text(text: &[u8]) -> Result<(usize, ScriptFlags), CommandError> {
        if !text.starts_with(b"#!") {
            return Ok((0, ScriptFlags::default()));
        }
        let end =
            shebang::line_end(text).ok_or(CommandError::fixed("ERR Invalid script shebang"))?;
        Ok((end, ScriptFlags::parse(&text[..end])?))
    }

    /// Returns the flags of a script's text; none are given where its first line is wrong.
    pub(crate) fn of(text: &[u8]) -> ScriptFlags {
        ScriptFlags::of_text(text).map_or_else(|_| ScriptFlags::default(), |(_, flags)| flags)
    }

    /// Whether a script that says so may write.
    pub(crate) fn declares_writes(self) -> bool {
        self.are_given && !self.no_writes
    }

    /// Whether a script that says so may need memory.
    pub(crate) fn declares_memory(self) -> bool {
        self.declares_writes() && !self.allow_oom
    }

    fn parse(line: &[u8]) -> Result<ScriptFlags, CommandError> {
        let mut flags = ScriptFlags {
            are_given: true,
            ..ScriptFlags::default()
        };
        let words = shebang::words(line).unwrap_or_default();
        let (engine, options) = words
            .split_first()
            .ok_or(CommandError::fixed("ERR Invalid engine in script shebang"))?;
        if engine != b"#!lua" {
            return Err(CommandError::from_parts(&[
                b"ERR Unexpected engine in script shebang: ",
                engine,
            ]));
        }
        for word in options {
            let Some(names) = word.strip_prefix(b"flags=") else {
                return Err(CommandError::from_parts(&[
                    b"ERR Unknown lua shebang option: ",
                    word,
                ]));
            };
            if names.is_empty() {
                continue;
            }
            for name in names.split(|byte| *byte == b',') {
                match name {
                    b"no-writes" => flags.no_writes = true,
                    b"allow-oom" => flags.allow_oom = true,
                    // There are no replicas that could be stale, and no cluster.
                    b"allow-stale" | b"no-cluster" | b"allow-cross-slot-keys" => {}
                    _ => {
                        return Err(CommandError::from_parts(&[
                            b"ERR Unexpected flag in script shebang: ",
                            name,
                        ]));
                    }
                }
            }
        }
        Ok(flags)
    }
}
