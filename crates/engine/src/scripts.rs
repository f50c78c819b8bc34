//! Texts of scripts and libraries of functions, which all processes of a store share.
//!
//! They lie in dictionaries of their own, of which clients see no keys: neither FLUSHALL nor eviction takes them. A
//! process that knows a text need not look it up again while nothing was forgotten ([`Access::text_changes`]).
//!
//! A script that takes long says so every now and then ([`Store::see_script`]), in one word of the store: whoever waits
//! behind it, in whatever process, then knows why, and may tell it to end. A process that died says nothing any more, so
//! nothing has to be cleared.

use undercroft_memory::{Setting, ShardSet, coarse_milliseconds};

use crate::error::Error;
use crate::handle::store::Store;
use crate::structures::roots::{LIBRARIES, SCRIPTS};
use crate::transaction::access::Access;
use crate::transaction::writer::Expiry;

/// Beside the libraries, whose names are not empty: how often they were changed, 8 bytes.
const VERSION: &[u8] = b"";

/// The record of a library begins with this, then come 8 bytes of its mark, then its text. No text begins so.
const MARKED: u8 = 0;

/// A name and a text.
pub type NamedText = (Vec<u8>, Vec<u8>);

/// A library, as the store keeps it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct StoredLibrary {
    /// Its name.
    pub name: Vec<u8>,
    /// Its text.
    pub text: Vec<u8>,
    /// What tells this loading of it from any other, of the same text, too.
    pub mark: u64,
}

/// A kind of texts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SharedTexts {
    /// Scripts, by their SHA-1.
    Scripts,
    /// Libraries of functions, by their names.
    Libraries,
}

impl SharedTexts {
    fn dictionary(self) -> usize {
        match self {
            SharedTexts::Scripts => SCRIPTS,
            SharedTexts::Libraries => LIBRARIES,
        }
    }

    fn setting(self) -> Setting {
        match self {
            SharedTexts::Scripts => Setting::ScriptsForgotten,
            SharedTexts::Libraries => Setting::LibrariesChanged,
        }
    }
}

/// The texts of one kind, and the memory that they take.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SharedMemory {
    /// Number of texts.
    pub texts: u64,
    /// Bytes that they take, approximately where there are very many.
    pub bytes: u64,
}

/// A script that takes long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RunningScript {
    /// Whether it has changed something.
    pub has_written: bool,
    /// Whether it is a function.
    pub is_function: bool,
}

impl Store {
    /// Says that a script runs which takes long. To be said every few hundred milliseconds while it does.
    ///
    /// # Errors
    /// Where the store cannot be written to.
    pub fn see_script(&self, script: RunningScript) -> Result<(), Error> {
        let flags = u64::from(script.has_written) << 1 | u64::from(script.is_function);
        let seen = coarse_milliseconds().max(1) << 2 | flags;
        Ok(self.segment.set_setting(Setting::ScriptSeen, seen)?)
    }

    /// Says that a script which was seen has ended.
    ///
    /// # Errors
    /// Where the store cannot be written to.
    pub fn end_script(&self) -> Result<(), Error> {
        Ok(self.segment.set_setting(Setting::ScriptSeen, 0)?)
    }

    /// The script that takes long, if one was seen lately.
    pub fn running_script(&self) -> Option<RunningScript> {
        let flags = self.segment.script_seen()?;
        Some(RunningScript {
            has_written: flags & 2 != 0,
            is_function: flags & 1 != 0,
        })
    }

    /// How often scripts were told to end: one that runs ends where this has grown since it began.
    pub fn killed_scripts(&self) -> u64 {
        self.segment.setting(Setting::ScriptsKilled)
    }

    /// The texts of all scripts and libraries, by their names.
    ///
    /// # Errors
    /// A lock that cannot be had.
    pub fn texts(&self) -> Result<Vec<NamedText>, Error> {
        let access = self.access();
        let mut found = Vec::new();
        for texts in [SharedTexts::Scripts, SharedTexts::Libraries] {
            let names = access.keys_where(texts.dictionary(), |_| Ok(true))?;
            for name in names.iter() {
                let mut text = Vec::new();
                if access.shared_text(texts, name, &mut text)? {
                    if texts == SharedTexts::Libraries && name != VERSION {
                        text = parse_record(text).1;
                    }
                    found.push((name.to_vec(), text));
                }
            }
        }
        Ok(found)
    }

    /// Forgets the texts of all scripts and libraries.
    ///
    /// # Errors
    /// A lock that cannot be had.
    pub fn forget_texts(&self) -> Result<(), Error> {
        let count = || {
            self.count_change(SharedTexts::Scripts)?;
            self.count_change(SharedTexts::Libraries)
        };
        self.access()
            .flush_and(&[SCRIPTS, LIBRARIES], true, count)
            .map(drop)
    }

    /// A word by itself: who sees it grown looks the texts up anew, and finds them as they are, or as they were just
    /// before a transaction that is not committed yet.
    fn count_change(&self, texts: SharedTexts) -> Result<(), Error> {
        Ok(self.segment.count_up(texts.setting())?)
    }

    /// Tells scripts that run to end, if they have changed nothing yet.
    ///
    /// # Errors
    /// Where the store cannot be written to.
    pub fn kill_scripts(&self) -> Result<(), Error> {
        Ok(self.segment.count_up(Setting::ScriptsKilled)?)
    }
}

impl<'a> Access<'a> {
    /// The store that this is a way to.
    pub fn store(&self) -> &'a Store {
        self.store
    }

    /// How many texts of a kind there are, and the memory that they take, by a sample of some hundred. O(1).
    ///
    /// # Errors
    /// A lock that cannot be had.
    pub fn shared_memory(&self, texts: SharedTexts) -> Result<SharedMemory, Error> {
        /// Texts looked at in one go, and goes at most.
        const AT_ONCE: u64 = 64;
        const GOES: usize = 8;
        let dictionary = texts.dictionary();
        let records = self.count_keys(dictionary)?;
        let (mut cursor, mut seen, mut bytes) = (0, 0_u64, 0_u64);
        for _ in 0..GOES {
            cursor = self.scan(
                dictionary,
                cursor,
                AT_ONCE,
                |reader, entry| Ok(Some(entry.memory_usage(reader.view(), 0)?)),
                |_, usage| {
                    seen += 1;
                    bytes = bytes.saturating_add(usage);
                },
            )?;
            if cursor == 0 {
                break;
            }
        }
        let all = u128::from(bytes) * u128::from(records) / u128::from(seen.max(1));
        // The version is a record, too, and no library.
        let version = u64::from(texts == SharedTexts::Libraries && records > 0);
        Ok(SharedMemory {
            texts: records - version,
            bytes: u64::try_from(all).unwrap_or(u64::MAX),
        })
    }

    /// Counts up whenever texts of a kind are forgotten, and where they are libraries, whenever one is changed.
    pub fn text_changes(&self, texts: SharedTexts) -> u64 {
        self.store.segment.setting(texts.setting())
    }

    /// Fills `out` with a text. Returns whether it is there. O(length).
    ///
    /// # Errors
    /// A lock that cannot be had.
    pub fn shared_text(
        &self,
        texts: SharedTexts,
        name: &[u8],
        out: &mut Vec<u8>,
    ) -> Result<bool, Error> {
        let key = self.key(name);
        self.read_into(ShardSet::one(key.shard()), out, |reader, out| match reader
            .find(texts.dictionary(), &key)?
        {
            None => Ok::<_, Error>(false),
            Some(entry) => {
                let text = entry.text(reader.view())?;
                text.append_to(reader.view(), out)?;
                Ok(true)
            }
        })
    }

    /// Keeps the text of a script for all processes. O(length).
    ///
    /// # Errors
    /// A lock that cannot be had, and where there is no memory.
    pub fn share_script(&self, name: &[u8], text: &[u8]) -> Result<(), Error> {
        let key = self.key(name);
        self.write(ShardSet::one(key.shard()), |writer| {
            writer.set(SCRIPTS, &key, text, Expiry::Never)
        })
    }

    /// Forgets the texts of all scripts. O(1) and then as [`Store::flush`].
    ///
    /// # Errors
    /// A lock that cannot be had.
    pub fn forget_scripts(&self, wait: bool) -> Result<(), Error> {
        // Counted before the commit, so that no death leaves a process with a script that is gone.
        let count = || self.store.count_change(SharedTexts::Scripts);
        self.flush_and(&[SCRIPTS], wait, count).map(drop)
    }

    /// Changes libraries in one transaction: forgets some, then keeps others, each a name, a text and a
    /// [mark](StoredLibrary::mark). Changes nothing where they are not those of `version` any more. Returns whether they
    /// were. O(bytes).
    ///
    /// # Errors
    /// A lock that cannot be had, and where there is no memory.
    pub fn change_libraries(
        &self,
        version: u64,
        forgotten: &[&[u8]],
        kept: &[(&[u8], &[u8], u64)],
    ) -> Result<bool, Error> {
        let store = self.store;
        let mark = store.key(VERSION);
        self.write(store.all_shards(), |writer| {
            let is_same = writer.holds(LIBRARIES, &mark, &version.to_le_bytes())?;
            if is_same != (version != 0).then_some(true) {
                return Ok(false);
            }
            for name in forgotten {
                writer.remove_quietly(LIBRARIES, &store.key(name))?;
            }
            for (name, text, mark) in kept {
                let record = [&[MARKED], &mark.to_le_bytes()[..], text].concat();
                writer.set(LIBRARIES, &store.key(name), &record, Expiry::Never)?;
            }
            let next = version.wrapping_add(1).to_le_bytes();
            writer.set(LIBRARIES, &mark, &next, Expiry::Never)?;
            // A process that sees it grown before the commit waits for that when it reads.
            store.count_change(SharedTexts::Libraries)?;
            Ok(true)
        })
    }

    /// All libraries, by name, and their version for [`change_libraries`](Self::change_libraries). O(bytes).
    ///
    /// # Errors
    /// A lock that cannot be had.
    pub fn libraries(&self) -> Result<(Vec<StoredLibrary>, u64), Error> {
        loop {
            let version = self.libraries_version()?;
            let mut found = Vec::new();
            let names = self.keys_where(LIBRARIES, |name| Ok(name != VERSION))?;
            for name in names.iter() {
                let mut record = Vec::new();
                if self.shared_text(SharedTexts::Libraries, name, &mut record)? {
                    let (mark, text) = parse_record(record);
                    let name = name.to_vec();
                    found.push(StoredLibrary { name, text, mark });
                }
            }
            if self.libraries_version()? == version {
                found.sort_unstable();
                return Ok((found, version));
            }
        }
    }

    fn libraries_version(&self) -> Result<u64, Error> {
        let mut text = Vec::new();
        self.shared_text(SharedTexts::Libraries, VERSION, &mut text)?;
        Ok(text.try_into().map_or(0, u64::from_le_bytes))
    }
}

/// The mark and the text of a library's record. Builds before this one kept the text only.
fn parse_record(record: Vec<u8>) -> (u64, Vec<u8>) {
    match &record[..] {
        [MARKED, rest @ ..] if let Some((mark, text)) = rest.split_first_chunk() => {
            (u64::from_le_bytes(*mark), text.to_vec())
        }
        _ => (0, record),
    }
}
