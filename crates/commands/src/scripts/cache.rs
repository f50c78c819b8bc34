//! The scripts that this process knows. Their texts lie in the store, where all its processes find them; a process
//! looks there only for one that it does not know, and for all of them again when somebody has forgotten them.

use std::sync::Arc;

use undercroft_engine::scripts::SharedTexts;
use undercroft_engine::{Access, Error, ForkMutex};

use super::script::Script;
use super::sha::{Sha, ShaMap};
use crate::arguments::CommandError;
use crate::failure::Failure;

/// More scripts than these are no program's own: they are forgotten and found in the store again.
const KNOWN_MAX: usize = 4096;

/// Scripts by their SHA-1.
#[derive(Default)]
pub(crate) struct ScriptCache {
    scripts: ForkMutex<ShaMap<CachedScript>>,
}

struct CachedScript {
    script: Arc<Script>,
    /// How often texts had been forgotten when it was last seen in the store.
    changes: u64,
}

impl ScriptCache {
    /// The script of a SHA-1, if the store has it.
    ///
    /// # Errors
    /// A lock that cannot be had.
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

    /// The script of a text, which `compile` has compiled and the store has from now on.
    ///
    /// # Errors
    /// What is wrong with the text, and a lock that cannot be had.
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
            // It can be run all the same where there is no room for its text, or none may be written.
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

    /// Not what a transaction has stored that may yet be rolled back.
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
