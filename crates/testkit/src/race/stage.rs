//! A store whose keys go from one state to another in the midst of another handle's reads.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use undercroft_engine::{Error, Store};
use undercroft_memory::race::Moment;

use super::{State, states};
use crate::fresh::{self, Place};

/// The time that every handle goes by, Unix milliseconds.
pub const NOW: u64 = 1_900_000_000_000;
/// The keys that change, and one that commands may store to.
pub const KEYS: [&[u8]; 3] = [b"k", b"j", b"d"];

/// The time when the keys are written: nothing has expired yet.
const BEFORE: u64 = NOW - 5000;
/// Where each state is kept under its name.
const KEPT: usize = 1;

/// Where the changes of each of them are counted.
const CHANGES: usize = 2;

/// The states of the first two of [`KEYS`]: indexes into [`Stage::states`]. The third is never there.
pub type World = [usize; 2];

/// When the store changes.
#[derive(Clone, Debug)]
pub enum Interruption {
    /// When the body of a read has run, from the try of this number on, counted from 0: one world after each try.
    Tries(u64, Vec<World>),
    /// Before the look of this number, counted from 0 over all tries.
    Look(u64, World),
}

/// What the hook has seen and what it is to do.
#[derive(Default)]
struct Script {
    interruption: Option<Interruption>,
    tries: u64,
    looks: u64,
    changes: u64,
}

/// A store in a directory of its own, and a handle that changes it.
pub struct Stage {
    place: Place,
    /// All states.
    pub states: Arc<Vec<State>>,
    script: Arc<Mutex<Script>>,
    writer: Arc<Store>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Stage {
    /// A stage of so many shards. Its states are there once it is [filled](Self::fill).
    pub fn new(shards: usize) -> Stage {
        let place = fresh::place(shards);
        let store = place.open();
        store.set_time(BEFORE);
        Stage {
            place,
            states: Arc::new(states()),
            script: Arc::default(),
            writer: Arc::new(store),
        }
    }

    /// Makes the states. `run` is to run a command in a database of the store.
    pub fn fill(&self, mut run: impl FnMut(&Store, usize, &[&[u8]])) {
        for state in self.states.iter() {
            for command in &state.commands {
                let word = |word: &Vec<u8>| match word.as_slice() {
                    b"@" => state.name.as_bytes().to_vec(),
                    word => word.to_vec(),
                };
                let command: Vec<Vec<u8>> = command.iter().map(word).collect();
                let command: Vec<&[u8]> = command.iter().map(Vec::as_slice).collect();
                run(&self.writer, KEPT, &command);
            }
        }
    }

    /// A handle whose reads may be interrupted, once its hook is [set](Self::hook).
    ///
    /// # Panics
    /// Where the store cannot be opened.
    pub fn open(&self, write: bool) -> Store {
        let store = Store::open(&self.place.path, write).expect("a whole store");
        store.set_time(NOW);
        store
    }

    /// The store's file.
    pub fn path(&self) -> &std::path::Path {
        &self.place.path
    }

    /// What a handle's reads are to be interrupted by.
    pub fn hook(&self) -> Box<dyn FnMut(Moment) + Send> {
        let (script, writer, states) = (
            self.script.clone(),
            self.writer.clone(),
            self.states.clone(),
        );
        Box::new(move |moment| {
            let world = lock(&script).at(moment);
            if let Some(world) = world {
                change(&writer, &states, world);
            }
        })
    }

    /// Puts the keys into these states.
    pub fn enter(&self, world: World) {
        change(&self.writer, &self.states, world);
    }

    /// Has the reads that follow interrupted.
    pub fn interrupt(&self, interruption: Interruption) {
        *lock(&self.script) = Script {
            interruption: Some(interruption),
            ..Script::default()
        };
    }

    /// Lets reads alone again. Returns how often the store was changed, and how many looks there were.
    pub fn calm(&self) -> (u64, u64) {
        let script = std::mem::take(&mut *lock(&self.script));
        (script.changes, script.looks)
    }

    /// What a world is called in messages.
    pub fn name(&self, world: World) -> String {
        format!(
            "({}, {})",
            self.states[world[0]].name, self.states[world[1]].name
        )
    }
}

impl Script {
    /// The world that the store goes to now.
    fn at(&mut self, moment: Moment) -> Option<World> {
        let (looks, tries) = (self.looks, self.tries);
        match moment {
            Moment::Looking => self.looks += 1,
            Moment::Tried => self.tries += 1,
        }
        let world = match (self.interruption.as_ref()?, moment) {
            (Interruption::Tries(first, worlds), Moment::Tried) => {
                let index = usize::try_from(tries.checked_sub(*first)?).ok()?;
                worlds.get(index).copied()
            }
            (Interruption::Look(look, world), Moment::Looking) => {
                (*look == looks).then_some(*world)
            }
            _ => None,
        };
        self.changes += u64::from(world.is_some());
        world
    }
}

/// Puts the keys into their states, all at one moment. Where they are in them already, the shards change all the same.
fn change(store: &Store, states: &[State], world: World) {
    let kept = world.map(|state| store.key(states[state].name.as_bytes()));
    let keys = KEYS.map(|key| store.key(key));
    let changed = store.write(store.shards_of(kept.iter().chain(&keys)), |writer| {
        for key in &keys {
            writer.remove(0, key)?;
            writer.increment(CHANGES, key, 1)?;
        }
        for ((from, to), state) in kept.iter().zip(&keys).zip(world) {
            if writer.copy((KEPT, from), (0, to))?
                && let Some(expires) = states[state].expires
            {
                let at = NOW.saturating_add_signed(expires);
                writer.set_expiry(0, to, Some(at))?;
            }
        }
        Ok::<_, Error>(())
    });
    changed.expect("nobody else holds the locks");
}
