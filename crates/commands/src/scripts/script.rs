//! Stores a script's text and the flags in its first line.

use sha1_smol::Sha1;

use super::sha::Sha;
use super::shebang;
use crate::algorithms::words::words;
use crate::arguments::CommandError;

/// The text of a script or a library.
#[derive(Debug)]
pub struct Script {
    pub(super) sha: Sha,
    text: Box<[u8]>,
    /// The offset at which the program begins, after the `#!` line if the text has one.
    start: usize,
    flags: ScriptFlags,
}

/// The flags that a script declares in its first line.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ScriptFlags {
    /// Whether the script has a `#!` line. A script without such a line is not restricted.
    pub are_given: bool,
    /// Whether the script declares that it does not write.
    pub no_writes: bool,
    /// Whether the script can run when the memory limit is exceeded.
    pub allow_oom: bool,
}

impl Script {
    /// Parses a script, including the flags in its first line if the text begins with `#!`.
    ///
    /// # Errors
    /// Returns an error if the first line is invalid.
    pub fn parse(text: &[u8]) -> Result<Script, CommandError> {
        let (start, flags) = ScriptFlags::of_text(text)?;
        Ok(Script {
            sha: Sha::of(text),
            text: text.into(),
            start,
            flags,
        })
    }

    /// Creates the script of a library whose program begins at `start`. The SHA-1 covers both the
    /// text and the mark (a number that is unique to each load), so that an interpreter runs the
    /// program once per mark.
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

    /// Returns the SHA-1 by which EVALSHA finds the script. The SHA-1 of a library also covers its
    /// mark (the unique number of a load).
    pub fn sha(&self) -> &Sha {
        &self.sha
    }

    /// Returns the program, which is the text without its `#!` line. The line feed of that line is
    /// included to keep line numbers correct.
    pub fn program(&self) -> &[u8] {
        &self.text[self.start..]
    }

    /// Returns the complete text.
    pub fn text(&self) -> &[u8] {
        &self.text
    }

    /// Returns the flags declared in the first line.
    pub fn flags(&self) -> ScriptFlags {
        self.flags
    }
}

impl ScriptFlags {
    /// Returns the offset at which the program begins in a text, and the flags that the text
    /// declares.
    fn of_text(text: &[u8]) -> Result<(usize, ScriptFlags), CommandError> {
        if !text.starts_with(b"#!") {
            return Ok((0, ScriptFlags::default()));
        }
        let end =
            shebang::line_end(text).ok_or(CommandError::fixed("ERR Invalid script shebang"))?;
        Ok((end, ScriptFlags::parse(&text[..end])?))
    }

    /// Returns the flags that a script's text declares, or the default flags if the first line is
    /// invalid.
    pub(crate) fn of(text: &[u8]) -> ScriptFlags {
        ScriptFlags::of_text(text).map_or_else(|_| ScriptFlags::default(), |(_, flags)| flags)
    }

    /// Returns whether the flags that the script declares permit writes.
    pub(crate) fn declares_writes(self) -> bool {
        self.are_given && !self.no_writes
    }

    /// Returns whether the script declares flags that permit writes but do not include `allow-oom`.
    /// Such a script may need memory.
    pub(crate) fn declares_memory(self) -> bool {
        self.declares_writes() && !self.allow_oom
    }

    fn parse(line: &[u8]) -> Result<ScriptFlags, CommandError> {
        let mut flags = ScriptFlags {
            are_given: true,
            ..ScriptFlags::default()
        };
        let words = words(line).unwrap_or_default();
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
                    // These flags have no effect, because Undercroft has neither stale replicas nor
                    // clusters.
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
