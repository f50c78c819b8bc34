//! A script's text, and what its first line says of it.

use sha1_smol::Sha1;

use super::sha::Sha;
use super::shebang;
use crate::arguments::CommandError;

/// A script's text.
#[derive(Debug)]
pub struct Script {
    pub(super) sha: Sha,
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
