//! A script's text, and the flags in its first line.

use sha1_smol::Sha1;

use super::sha::Sha;
use super::shebang;
use crate::arguments::CommandError;

/// The text of a script or a library.
#[derive(Debug)]
pub struct Script {
    pub(super) sha: Sha,
    text: Box<[u8]>,
    /// The offset at which the program begins, after a `#!` line.
    start: usize,
    flags: ScriptFlags,
}

/// The flags that a script declares in its first line.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ScriptFlags {
    /// Whether the script has a `#!` line; a script without one may do anything.
    pub are_given: bool,
    /// The script writes nothing.
    pub no_writes: bool,
    /// The script may run when memory is full.
    pub allow_oom: bool,
}

impl Script {
    /// Parses a script and, if the text begins with `#!`, the flags in its first line.
    ///
    /// # Errors
    /// If the first line is invalid.
    pub fn parse(text: &[u8]) -> Result<Script, CommandError> {
        let (start, flags) = ScriptFlags::of_text(text)?;
        Ok(Script {
            sha: Sha::of(text),
            text: text.into(),
            start,
            flags,
        })
    }

    /// Creates the script of a library, whose program begins at `start`. Its SHA-1 covers the text
    /// and the mark, so that an interpreter runs the program once for each mark.
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

    /// The SHA-1 by which EVALSHA finds the script. A library's SHA-1 also covers its mark.
    pub fn sha(&self) -> &Sha {
        &self.sha
    }

    /// The program: the text without a leading `#!` line. That line's end is kept, so that line
    /// numbers stay right.
    pub fn program(&self) -> &[u8] {
        &self.text[self.start..]
    }

    /// The complete text.
    pub fn text(&self) -> &[u8] {
        &self.text
    }

    /// The flags declared in the first line.
    pub fn flags(&self) -> ScriptFlags {
        self.flags
    }
}

impl ScriptFlags {
    /// Returns the offset at which a text's program begins, and the flags.
    fn of_text(text: &[u8]) -> Result<(usize, ScriptFlags), CommandError> {
        if !text.starts_with(b"#!") {
            return Ok((0, ScriptFlags::default()));
        }
        let end =
            shebang::line_end(text).ok_or(CommandError::fixed("ERR Invalid script shebang"))?;
        Ok((end, ScriptFlags::parse(&text[..end])?))
    }

    /// Returns the flags of a script's text, or the default flags if its first line is invalid.
    pub(crate) fn of(text: &[u8]) -> ScriptFlags {
        ScriptFlags::of_text(text).map_or_else(|_| ScriptFlags::default(), |(_, flags)| flags)
    }

    /// Whether the flags say that the script may write.
    pub(crate) fn declares_writes(self) -> bool {
        self.are_given && !self.no_writes
    }

    /// Whether the flags say that the script may need memory.
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
                    // Accepted without effect: there are no stale replicas and no cluster.
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
