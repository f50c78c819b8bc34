//! Reads an RDB file as a series of events.

use std::io::Read;

use undercroft_engine::DATABASES;
use undercroft_engine::rdb::{ExpiringHash, decode_string};
use undercroft_engine::strings::STRING_MAX;

use super::error::{ReadError, shown};
use super::source::Source;
use super::values::{ValueKind, length, skip_string, skip_value};

/// The bytes with which files of Redis and of Valkey begin. The version follows as decimal digits,
/// up to the ninth byte of the file.
const REDIS: &[u8] = b"REDIS";
const VALKEY: &[u8] = b"VALKEY";
/// The number of bytes before the first opcode.
pub const HEADER: usize = 9;
/// The newest version of Redis' files, which Redis 7.4 to 8.2 write.
const REDIS_NEWEST: u32 = 12;
/// The versions of Valkey's files, which Valkey 9 writes.
const VALKEY_OLDEST: u32 = 80;
const VALKEY_NEWEST: u32 = 81;
/// The first version whose files end with a checksum.
const FIRST_WITH_CHECKSUM: u32 = 5;
/// The first version of Redis' files with fields that expire.
const FIRST_WITH_EXPIRING_FIELDS: u32 = 12;

// The opcodes.
const SLOT_IMPORT: u8 = 243;
const SLOT_INFO: u8 = 244;
const FUNCTION: u8 = 245;
const FUNCTION_PRERELEASE: u8 = 246;
const MODULE_AUX: u8 = 247;
const IDLE: u8 = 248;
const FREQUENCY: u8 = 249;
const AUX: u8 = 250;
const RESIZE: u8 = 251;
const EXPIRY_MS: u8 = 252;
const EXPIRY: u8 = 253;
const SELECT: u8 = 254;
const END: u8 = 255;

/// The servers that share a version of the format. Types from 22 on have a different meaning in each
/// family.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Family {
    /// Redis, and Valkey up to version 8.
    Redis,
    /// Valkey since version 9.
    Valkey,
}

/// When a key was last used, or how often.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Usage {
    /// The time in seconds since the last use.
    IdleSeconds(u64),
    /// The logarithmic counter of uses.
    Frequency(u8),
}

/// A key of an RDB file with its value in encoded form.
#[derive(Clone, Copy, Debug)]
pub struct KeyEvent<'r> {
    /// The offset in the file at which the key's type byte is.
    pub at: u64,
    /// The database of the key.
    pub database: usize,
    /// The name of the key.
    pub key: &'r [u8],
    /// The time when the key expires in Unix milliseconds, or `None` if the key does not expire.
    pub expiry: Option<u64>,
    /// When the key was last used, if the file contains it.
    pub usage: Option<Usage>,
    /// The encoding of the value.
    pub kind: ValueKind,
    /// The encoded value, without its type byte. The content has not been checked.
    pub value: &'r [u8],
}

/// A part of an RDB file.
#[derive(Clone, Copy, Debug)]
pub enum Event<'r> {
    /// Information about the file or about the server that wrote it.
    Aux {
        /// The name of the information.
        name: &'r [u8],
        /// Its value.
        value: &'r [u8],
    },
    /// The source text of a function library.
    Library {
        /// The offset in the file at which the library begins.
        at: u64,
        /// The text.
        text: &'r [u8],
    },
    /// The numbers of keys that the file claims to contain.
    Sizes {
        /// The database.
        database: usize,
        /// The number of its keys.
        keys: u64,
        /// The number of its keys that expire.
        expiring: u64,
    },
    /// A key.
    Key(KeyEvent<'r>),
}

/// A reader of an RDB file. Reads from any input, without seeking, in memory for one key.
pub struct Reader<R> {
    source: Source<R>,
    family: Family,
    version: u32,
    database: usize,
    key: Vec<u8>,
    text: Vec<u8>,
    is_done: bool,
}

impl<R: Read> Reader<R> {
    /// Begins to read a file, up to its version.
    ///
    /// # Errors
    /// Returns an error if the input is not an RDB file, or has a version that cannot be read.
    pub fn new(input: R) -> Result<Reader<R>, ReadError> {
        let mut source = Source::new(input);
        let header: [u8; HEADER] = source.array("the magic bytes REDIS or VALKEY")?;
        let number = |digits: &[u8]| {
            let are_digits = digits.iter().all(u8::is_ascii_digit);
            let digits = std::str::from_utf8(digits).ok().filter(|_| are_digits)?;
            digits.parse::<u32>().ok()
        };
        let (family, version) = if let Some(digits) = header.strip_prefix(VALKEY) {
            (Family::Valkey, number(digits))
        } else if let Some(digits) = header.strip_prefix(REDIS) {
            (Family::Redis, number(digits))
        } else {
            return Err(ReadError::damaged(0, "the magic bytes REDIS or VALKEY"));
        };
        let version = version.ok_or_else(|| ReadError::damaged(5, "the digits of a version"))?;
        let (oldest, newest, name) = match family {
            Family::Redis => (1, REDIS_NEWEST, "Redis"),
            Family::Valkey => (VALKEY_OLDEST, VALKEY_NEWEST, "Valkey"),
        };
        if !(oldest..=newest).contains(&version) {
            return Err(ReadError::refused(
                0,
                format!(
                    "version {version} of {name}'s format is not supported; expected a version \
                     from {oldest} to {newest}"
                ),
            ));
        }
        Ok(Reader {
            source,
            family,
            version,
            database: 0,
            key: Vec::new(),
            text: Vec::new(),
            is_done: false,
        })
    }

    /// Returns the family of the file.
    pub fn family(&self) -> Family {
        self.family
    }

    /// Returns the version of the file's format.
    pub fn version(&self) -> u32 {
        self.version
    }

    /// Returns the number of bytes read so far.
    pub fn offset(&self) -> u64 {
        self.source.offset()
    }

    /// Returns the bytes after the file's end that have already arrived, and the input.
    pub fn into_rest(self) -> (Vec<u8>, R) {
        self.source.into_rest()
    }

    /// Returns whether the input ends after the file.
    ///
    /// # Errors
    /// Returns an error if the input cannot be read.
    pub fn is_at_end(&mut self) -> Result<bool, ReadError> {
        self.source.is_at_end()
    }

    /// Returns the next event, or `None` after the last one. The checksum has then been verified.
    ///
    /// # Errors
    /// Returns an error if the file is damaged, contains data that a store cannot hold, or cannot
    /// be read.
    pub fn next_event(&mut self) -> Result<Option<Event<'_>>, ReadError> {
        if self.is_done {
            return Ok(None);
        }
        let (mut expiry, mut usage) = (None, None);
        loop {
            let at = self.source.offset();
            let opcode = self.source.byte("a key or the end")?;
            match opcode {
                EXPIRY => {
                    let seconds = i32::from_le_bytes(self.source.array("a time in seconds")?);
                    expiry = Some(u64::try_from(i64::from(seconds) * 1000).unwrap_or(0));
                }
                EXPIRY_MS => {
                    let time = i64::from_le_bytes(self.source.array("a time in milliseconds")?);
                    // A time before 1970 has passed like any other.
                    expiry = Some(u64::try_from(time).unwrap_or(0));
                }
                IDLE => usage = Some(Usage::IdleSeconds(length(&mut self.source)?)),
                FREQUENCY => usage = Some(Usage::Frequency(self.source.byte("a counter")?)),
                SELECT => {
                    let found = length(&mut self.source)?;
                    let database = usize::try_from(found).ok().filter(|it| *it < DATABASES);
                    self.database = database.ok_or_else(|| {
                        let text = format!(
                            "keys of database {found} cannot be stored; a store has the databases \
                             0 to {}",
                            DATABASES - 1
                        );
                        ReadError::refused(at, text)
                    })?;
                }
                RESIZE => {
                    let keys = length(&mut self.source)?;
                    let expiring = length(&mut self.source)?;
                    return Ok(Some(Event::Sizes {
                        database: self.database,
                        keys,
                        expiring,
                    }));
                }
                AUX => return self.aux(at).map(Some),
                FUNCTION => return self.library(at).map(Some),
                FUNCTION_PRERELEASE => {
                    return Err(ReadError::refused(
                        at,
                        "a function library in the format of the release candidates of Redis 7.0 \
                         cannot be loaded; load the file into Redis 7.0 or newer and save it again",
                    ));
                }
                MODULE_AUX => {
                    let module = length(&mut self.source)?;
                    return Err(ReadError::refused(
                        at,
                        format!(
                            "data of the module type '{}' cannot be stored; unload the module and \
                             save the file again",
                            module_name(module)
                        ),
                    ));
                }
                SLOT_INFO => {
                    for _ in 0..3 {
                        length(&mut self.source)?;
                    }
                }
                SLOT_IMPORT if self.family == Family::Valkey => {
                    return Err(ReadError::refused(
                        at,
                        "the file was saved while its server imported slots of a cluster; save it \
                         again when the migration is complete",
                    ));
                }
                END => {
                    self.end()?;
                    return Ok(None);
                }
                _ => return self.key(at, opcode, expiry, usage).map(Some),
            }
        }
    }

    fn aux(&mut self, at: u64) -> Result<Event<'_>, ReadError> {
        string(&mut self.source, &mut self.key, at)?;
        string(&mut self.source, &mut self.text, at)?;
        Ok(Event::Aux {
            name: &self.key,
            value: &self.text,
        })
    }

    fn library(&mut self, at: u64) -> Result<Event<'_>, ReadError> {
        string(&mut self.source, &mut self.text, at)?;
        Ok(Event::Library {
            at,
            text: &self.text,
        })
    }

    /// Verifies the checksum at the end of the file.
    fn end(&mut self) -> Result<(), ReadError> {
        self.is_done = true;
        if self.version < FIRST_WITH_CHECKSUM {
            return Ok(());
        }
        let computed = self.source.checksum();
        let at = self.source.offset();
        let found = u64::from_le_bytes(self.source.array("a checksum of 8 bytes")?);
        // Servers whose `rdbchecksum` is off write 0.
        if found != 0 && found != computed {
            return Err(ReadError::damaged(
                at,
                format!("the checksum {computed:016x}, found {found:016x}"),
            ));
        }
        Ok(())
    }

    fn key(
        &mut self,
        at: u64,
        opcode: u8,
        expiry: Option<u64>,
        usage: Option<Usage>,
    ) -> Result<Event<'_>, ReadError> {
        let kind = self.value_kind(at, opcode)?;
        string(&mut self.source, &mut self.key, at)?;
        let Some(kind) = kind else {
            return Err(self.module_value(at, opcode));
        };
        self.source.begin_capture();
        skip_value(&mut self.source, kind)?;
        Ok(Event::Key(KeyEvent {
            at,
            database: self.database,
            key: &self.key,
            expiry,
            usage,
            kind,
            value: self.source.end_capture(),
        }))
    }

    /// Returns the encoding that a type byte represents in this file, or `None` for a module's
    /// value.
    fn value_kind(&self, at: u64, kind: u8) -> Result<Option<ValueKind>, ReadError> {
        let expiring = match (self.family, kind) {
            (_, 0..=5 | 9..=21) => return Ok(Some(ValueKind::Shared(kind))),
            (_, 6 | 7) => return Ok(None),
            (Family::Redis, 22..=25) if self.version >= FIRST_WITH_EXPIRING_FIELDS => {
                let has_earliest = kind >= 24;
                match kind {
                    22 | 24 => ExpiringHash::Redis { has_earliest },
                    _ => ExpiringHash::RedisListpack { has_earliest },
                }
            }
            (Family::Valkey, 22) => ExpiringHash::Valkey,
            _ => {
                let name = match self.family {
                    Family::Redis => "Redis",
                    Family::Valkey => "Valkey",
                };
                return Err(ReadError::damaged(
                    at,
                    format!(
                        "a type of version {} of {name}'s format, found {kind}",
                        self.version
                    ),
                ));
            }
        };
        Ok(Some(ValueKind::ExpiringHash(expiring)))
    }

    /// Returns the error for a module's value, of which the key has been read.
    fn module_value(&mut self, at: u64, kind: u8) -> ReadError {
        let key = shown(&self.key);
        let module = match kind {
            7 => length(&mut self.source).map(module_name),
            _ => Ok("a release candidate of Redis 4".to_owned()),
        };
        match module {
            Err(error) => error,
            Ok(module) => ReadError::refused(
                at,
                format!(
                    "the key {key} has a value of the module type '{module}', which cannot be \
                     stored; delete such keys and save the file again"
                ),
            ),
        }
    }
}

/// Reads a string in any encoding into `out`.
fn string<R: Read>(source: &mut Source<R>, out: &mut Vec<u8>, at: u64) -> Result<(), ReadError> {
    source.begin_capture();
    skip_string(source)?;
    let decoded = decode_string(source.end_capture(), STRING_MAX as usize);
    let decoded = decoded.ok_or_else(|| ReadError::damaged(at, "a compressed string"))?;
    out.clear();
    out.extend_from_slice(&decoded);
    Ok(())
}

/// Returns the name of a module's type, which its 64-bit identifier contains: nine characters of six
/// bits each, and a version of ten bits.
fn module_name(module: u64) -> String {
    const CHARACTERS: &[u8; 64] =
        b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    let character = |index: u32| {
        let bits = module >> (10 + 6 * (8 - index)) & 0x3f;
        char::from(CHARACTERS[bits as usize])
    };
    (0..9).map(character).collect()
}

#[cfg(test)]
#[path = "reader_tests.rs"]
mod tests;
