//! The texts of scripts and function libraries, shared by all processes of a store.
//!
//! The texts are stored in separate dictionaries that clients cannot see, so neither FLUSHALL nor
//! eviction removes them. A process caches each text that it reads, and reads the text again only
//! after a change ([`Access::text_changes`]).
//!
//! A long-running script reports itself periodically in one word of the store
//! ([`Store::see_script`]). A client that is blocked by the script, in any process, can then see
//! the reason and ask the script to stop. The report expires by itself, so nothing needs to be
//! cleared when the script's process dies.

use undercroft_memory::{Setting, ShardSet, coarse_milliseconds};

use crate::error::Error;
use crate::handle::store::Store;
use crate::keyspace::Snapshot;
use crate::structures::roots::{LIBRARIES, SCRIPTS, USERS};
use crate::transaction::access::Access;
use crate::transaction::writer::{Expiry, Writer};

/// The key of the version, an 8-byte count of changes, of libraries and of users. The key is
/// unambiguous, because the key of a library or a user is never empty.
pub(crate) const VERSION: &[u8] = b"";

/// The first byte of a library record. The library's 8-byte mark (a number that identifies its
/// loading) and its text follow. The text of a library never starts with this byte.
const MARKED: u8 = 0;

/// The name and the text of a script or a library.
pub type NamedText = (Vec<u8>, Vec<u8>);

/// A function library in its stored form.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct StoredLibrary {
    /// The name of the library.
    pub name: Vec<u8>,
    /// The source text of the library.
    pub text: Vec<u8>,
    /// A number that identifies one loading of the library: loading the same text again gives a
    /// different number.
    pub mark: u64,
}

/// The kinds of shared texts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SharedTexts {
    /// Scripts, keyed by their SHA-1.
    Scripts,
    /// Function libraries, keyed by their names.
    Libraries,
    /// Users of servers, keyed by their names after a prefix; see [`crate::users`].
    Users,
}

impl SharedTexts {
    const ALL: [SharedTexts; 3] = [
        SharedTexts::Scripts,
        SharedTexts::Libraries,
        SharedTexts::Users,
    ];

    pub(crate) fn dictionary(self) -> usize {
        match self {
            SharedTexts::Scripts => SCRIPTS,
            SharedTexts::Libraries => LIBRARIES,
            SharedTexts::Users => USERS,
        }
    }

    fn setting(self) -> Setting {
        match self {
            SharedTexts::Scripts => Setting::ScriptsForgotten,
            SharedTexts::Libraries => Setting::LibrariesChanged,
            SharedTexts::Users => Setting::UsersChanged,
        }
    }
}

/// The number of shared texts of one kind, and the memory that they use.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SharedMemory {
    /// The number of texts.
    pub texts: u64,
    /// The number of bytes that the texts use, estimated from a sample if there are many texts.
    pub bytes: u64,
}

/// The reported state of a long-running script.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RunningScript {
    /// Whether the script has changed a key.
    pub has_written: bool,
    /// Whether the script was started by FCALL rather than EVAL.
    pub is_function: bool,
}

impl Store {
    /// Reports a long-running script to all processes. The report expires, so call this every few
    /// hundred milliseconds while the script runs.
    ///
    /// # Errors
    /// Fails if the store is not writable.
    pub fn see_script(&self, script: RunningScript) -> Result<(), Error> {
        let flags = u64::from(script.has_written) << 1 | u64::from(script.is_function);
        let seen = coarse_milliseconds().max(1) << 2 | flags;
        Ok(self.segment.set_setting(Setting::ScriptSeen, seen)?)
    }

    /// Withdraws the report of a long-running script when the script ends.
    ///
    /// # Errors
    /// Fails if the store is not writable.
    pub fn end_script(&self) -> Result<(), Error> {
        Ok(self.segment.set_setting(Setting::ScriptSeen, 0)?)
    }

    /// Returns the state of the long-running script, if one was reported recently.
    pub fn running_script(&self) -> Option<RunningScript> {
        let flags = self.segment.script_seen()?;
        Some(RunningScript {
            has_written: flags & 2 != 0,
            is_function: flags & 1 != 0,
        })
    }

    /// Returns how many times running scripts have been told to stop. A script stops if this count
    /// has grown since the script started.
    pub fn killed_scripts(&self) -> u64 {
        self.segment.setting(Setting::ScriptsKilled)
    }

    /// Returns the names and texts of all scripts, libraries and users. `user ` precedes the key of a
    /// user.
    ///
    /// # Errors
    /// Fails if a lock cannot be acquired.
    pub fn texts(&self) -> Result<Vec<NamedText>, Error> {
        let access = self.access();
        let mut found = Vec::new();
        for texts in SharedTexts::ALL {
            let names = access.keys_where(texts.dictionary(), |_| Ok(true))?;
            for name in names.iter() {
                let mut text = Vec::new();
                if access.shared_text(texts, name, &mut text)? {
                    if texts == SharedTexts::Libraries && name != VERSION {
                        text = parse_record(text).1;
                    }
                    // A library and a user can have the same name.
                    let prefix: &[u8] = match texts {
                        SharedTexts::Users => b"user ",
                        SharedTexts::Scripts | SharedTexts::Libraries => b"",
                    };
                    found.push(([prefix, name].concat(), text));
                }
            }
        }
        Ok(found)
    }

    /// Deletes the texts of all scripts, libraries and users.
    ///
    /// # Errors
    /// Fails if a lock cannot be acquired.
    pub fn forget_texts(&self) -> Result<(), Error> {
        let count = |writer: &mut Writer<'_, '_>| {
            SharedTexts::ALL
                .into_iter()
                .try_for_each(|texts| count_change(writer, texts))
        };
        self.access()
            .flush_and(&SharedTexts::ALL.map(SharedTexts::dictionary), true, count)
            .map(drop)
    }

    /// Tells all running scripts to stop. A script that has already changed a key ignores this.
    ///
    /// # Errors
    /// Fails if the store is not writable.
    pub fn kill_scripts(&self) -> Result<(), Error> {
        Ok(self.segment.count_up(Setting::ScriptsKilled)?)
    }
}

impl<'a> Access<'a> {
    /// Returns the underlying store.
    pub fn store(&self) -> &'a Store {
        self.store
    }

    /// Returns the number of texts of a kind and the memory that they use, which is estimated from
    /// a sample of up to a few hundred texts. O(1).
    ///
    /// # Errors
    /// Fails if a lock cannot be acquired.
    pub fn shared_memory(&self, texts: SharedTexts) -> Result<SharedMemory, Error> {
        /// The number of texts that one scan step reads, and the maximum number of steps.
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
        // The version is stored as a record, but is neither a library nor a user.
        let version = u64::from(texts != SharedTexts::Scripts && records > 0);
        Ok(SharedMemory {
            texts: records - version,
            bytes: u64::try_from(all).unwrap_or(u64::MAX),
        })
    }

    /// Returns a counter that grows when texts of this kind are deleted. For libraries and users,
    /// the counter also grows when one is added or replaced. Takes one atomic load.
    #[inline]
    pub fn text_changes(&self, texts: SharedTexts) -> u64 {
        self.store.segment.setting(texts.setting())
    }

    /// Appends a shared text to `out`. Returns whether the text exists. O(length).
    ///
    /// # Errors
    /// Fails if a lock cannot be acquired.
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

    /// Stores the text of a script for all processes. O(length).
    ///
    /// # Errors
    /// Fails if a lock cannot be acquired or the store is out of memory.
    pub fn share_script(&self, name: &[u8], text: &[u8]) -> Result<(), Error> {
        let key = self.key(name);
        self.write(ShardSet::one(key.shard()), |writer| {
            writer.set(SCRIPTS, &key, text, Expiry::Never)
        })
    }

    /// Deletes the texts of all scripts. O(1), plus the cost of freeing them as described at
    /// [`Store::flush`].
    ///
    /// # Errors
    /// Fails if a lock cannot be acquired.
    pub fn forget_scripts(&self, wait: bool) -> Result<(), Error> {
        let count = |writer: &mut Writer<'_, '_>| count_change(writer, SharedTexts::Scripts);
        self.flush_and(&[SCRIPTS], wait, count).map(drop)
    }

    /// Changes libraries in one transaction: deletes the `forgotten` libraries, then stores the
    /// `kept` libraries, each given as name, text and [mark](StoredLibrary::mark). If the version
    /// of the libraries is no longer `version`, changes nothing and returns false. O(bytes).
    ///
    /// # Errors
    /// Fails if a lock cannot be acquired or the store is out of memory.
    pub fn change_libraries(
        &self,
        version: u64,
        forgotten: &[&[u8]],
        kept: &[(&[u8], &[u8], u64)],
    ) -> Result<bool, Error> {
        let record = |(name, text, mark): &(&[u8], &[u8], u64)| {
            let record = [&[MARKED], &mark.to_le_bytes()[..], text].concat();
            (name.to_vec(), record)
        };
        let kept: Vec<NamedText> = kept.iter().map(record).collect();
        self.change_texts(SharedTexts::Libraries, version, forgotten, &kept)
    }

    /// Changes texts that have a version in one transaction: deletes the `forgotten` texts, then
    /// stores the `kept` texts. If the version is no longer `version`, changes nothing and returns
    /// false. O(bytes).
    ///
    /// # Errors
    /// Fails if a lock cannot be acquired or the store is out of memory.
    pub(crate) fn change_texts(
        &self,
        texts: SharedTexts,
        version: u64,
        forgotten: &[&[u8]],
        kept: &[NamedText],
    ) -> Result<bool, Error> {
        let (store, dictionary) = (self.store, texts.dictionary());
        let mark = store.key(VERSION);
        self.write(store.all_shards(), |writer| {
            let is_same = writer.holds(dictionary, &mark, &version.to_le_bytes())?;
            if is_same != (version != 0).then_some(true) {
                return Ok(false);
            }
            for name in forgotten {
                writer.remove_quietly(dictionary, &store.key(name))?;
            }
            for (name, text) in kept {
                writer.set(dictionary, &store.key(name), text, Expiry::Never)?;
            }
            let next = version.wrapping_add(1).to_le_bytes();
            writer.set(dictionary, &mark, &next, Expiry::Never)?;
            count_change(writer, texts)?;
            Ok(true)
        })
    }

    /// Returns all libraries, sorted by name, and the version to pass to
    /// [`change_libraries`](Self::change_libraries). O(bytes).
    ///
    /// # Errors
    /// Fails if a lock cannot be acquired.
    pub fn libraries(&self) -> Result<(Vec<StoredLibrary>, u64), Error> {
        let (found, version) = self.texts_and_version(SharedTexts::Libraries)?;
        let library = |(name, record)| {
            let (mark, text) = parse_record(record);
            StoredLibrary { name, text, mark }
        };
        Ok((found.into_iter().map(library).collect(), version))
    }

    /// Returns all texts of a kind that has a version, sorted by name, and the version. All texts
    /// belong to this version. O(bytes).
    ///
    /// # Errors
    /// Fails if a lock cannot be acquired.
    pub(crate) fn texts_and_version(
        &self,
        texts: SharedTexts,
    ) -> Result<(Vec<NamedText>, u64), Error> {
        loop {
            let version = self.version_of(texts)?;
            let mut found = Vec::new();
            let names = self.keys_where(texts.dictionary(), |name| Ok(name != VERSION))?;
            for name in names.iter() {
                let mut record = Vec::new();
                if self.shared_text(texts, name, &mut record)? {
                    found.push((name.to_vec(), record));
                }
            }
            if self.version_of(texts)? == version {
                found.sort_unstable();
                return Ok((found, version));
            }
        }
    }

    fn version_of(&self, texts: SharedTexts) -> Result<u64, Error> {
        let mut text = Vec::new();
        self.shared_text(texts, VERSION, &mut text)?;
        Ok(text.try_into().map_or(0, u64::from_le_bytes))
    }
}

/// Increments the change counter of the texts, which processes check before they use a cached text.
fn count_change(writer: &mut Writer<'_, '_>, texts: SharedTexts) -> Result<(), Error> {
    // Like Redis, a server sends its libraries to its replicas, but not its users.
    if matches!(texts, SharedTexts::Libraries) {
        writer.libraries_changed();
    }
    Ok(writer.transaction.count_up(texts.setting())?)
}

impl Snapshot<'_> {
    /// Returns the source texts of all function libraries, sorted by their names. O(bytes).
    ///
    /// # Errors
    /// Returns [`Error::Memory`] if a lock cannot be acquired or an entry is damaged.
    pub fn libraries(&self) -> Result<Vec<Vec<u8>>, Error> {
        let records = self.texts(LIBRARIES)?.into_iter();
        let libraries = records.filter(|(name, _)| *name != VERSION);
        Ok(libraries
            .map(|(_, record)| parse_record(record).1)
            .collect())
    }
}

/// Splits a library record into its mark and its text. Older builds stored only the text.
fn parse_record(record: Vec<u8>) -> (u64, Vec<u8>) {
    match &record[..] {
        [MARKED, rest @ ..] if let Some((mark, text)) = rest.split_first_chunk() => {
            (u64::from_le_bytes(*mark), text.to_vec())
        }
        _ => (0, record),
    }
}
