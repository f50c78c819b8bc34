//! Caches scripts in this process. Script texts are kept in the store, so that all its processes
//! find them. A process reads a text from the store if it has not cached the script, or if scripts
//! have been flushed since it was cached.

use std::sync::Arc;

use undercroft_engine::scripts::SharedTexts;
use undercroft_engine::{Access, Error, ForkMutex};

use super::script::Script;
use super::sha::{Sha, ShaMap};
use crate::arguments::CommandError;
use crate::failure::Failure;

/// The number of scripts at which the cache is emptied. Real programs use fewer scripts, and an
/// evicted script can still be read from the store.
const KNOWN_MAX: usize = 4096;

/// The cached scripts, keyed by their SHA-1.
#[derive(Default)]
pub(crate) struct ScriptCache {
    scripts: ForkMutex<ShaMap<CachedScript>>,
}

struct CachedScript {
    script: Arc<Script>,
    /// The number of script flushes in the store when the script was last found there.
    changes: u64,
}

impl ScriptCache {
    /// Returns the script with this SHA-1, or `None` if the store does not contain it.
    ///
    /// # Errors
    /// Returns an error if a lock cannot be acquired or the stored text is invalid.
    pub(crate) fn find(
        &self,
        store: Access<'_>,
        sha: &Sha,
    ) -> Result<Option<Arc<Script>>, Failure> {
        let changes = store.text_changes(SharedTexts::Scripts);
        if let Some(script) = self.get(sha, changes) {
            return Ok(Some(script));
        }
        let mut text = Vec::new();
        if !store.shared_text(SharedTexts::Scripts, sha.as_bytes(), &mut text)? {
            return Ok(None);
        }
        let script = Arc::new(Script::parse(&text)?);
        self.keep(store, &script, changes);
        Ok(Some(script))
    }

    /// Compiles a script with `compile`, and saves its text in the store unless the store already
    /// contains it.
    ///
    /// # Errors
    /// Returns an error if the text is invalid or a lock cannot be acquired.
    pub(crate) fn learn(
        &self,
        store: Access<'_>,
        text: &[u8],
        compile: impl FnOnce(&Script) -> Result<(), CommandError>,
    ) -> Result<Arc<Script>, Failure> {
        let sha = Sha::of(text);
        let changes = store.text_changes(SharedTexts::Scripts);
        if let Some(script) = self.get(&sha, changes) {
            return Ok(script);
        }
        let script = Arc::new(Script::parse(text)?);
        compile(&script)?;
        let mut there = Vec::new();
        if !store.shared_text(SharedTexts::Scripts, sha.as_bytes(), &mut there)?
            && let Err(error) = store.share_script(sha.as_bytes(), text)
        {
            // The script can still run if it cannot be saved because the store is full or
            // read-only.
            if error.is_wait() || store.starts_again() || !is_harmless(&error) {
                return Err(error.into());
            }
            return Ok(script);
        }
        self.keep(store, &script, changes);
        Ok(script)
    }

    fn get(&self, sha: &Sha, changes: u64) -> Option<Arc<Script>> {
        let scripts = self.scripts.lock();
        let known = scripts.get(sha).filter(|known| known.changes == changes);
        known.map(|known| Arc::clone(&known.script))
    }

    /// Caches a script, except within a transaction, which can still be rolled back.
    fn keep(&self, store: Access<'_>, script: &Arc<Script>, changes: u64) {
        if store.is_running() {
            return;
        }
        let script = Arc::clone(script);
        let mut scripts = self.scripts.lock();
        if scripts.len() >= KNOWN_MAX {
            scripts.clear();
        }
        scripts.insert(script.sha, CachedScript { script, changes });
    }
}

fn is_harmless(error: &Error) -> bool {
    error.is_out_of_memory() || error.is_read_only()
}
