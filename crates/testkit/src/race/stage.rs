//! Implements a store whose keys change state while another handle reads them.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use undercroft_engine::{Error, Store};
use undercroft_memory::race::Moment;

use super::{State, states};
use crate::fresh::{self, Place};

/// The time of every handle, in Unix milliseconds.
pub const NOW: u64 = 1_900_000_000_000;
/// The two keys that change, and a key to which commands can store a result.
pub const KEYS: [&[u8]; 3] = [b"k", b"j", b"d"];

/// The time at which the keys are written, in Unix milliseconds. None of them has expired at that
/// time.
const BEFORE: u64 = NOW - 5000;
/// The number of the database that stores each state under its name.
const KEPT: usize = 1;

/// The number of the database that counts the changes of each key.
const CHANGES: usize = 2;

/// The states of the first two [`KEYS`], as indexes of [`Stage::states`]. The third key never
/// exists.
pub type World = [usize; 2];

/// The moment during a read at which the store changes.
#[derive(Clone, Debug)]
pub enum Interruption {
    /// Switch the store after the read's body has run, starting with the attempt that has this
    /// number, counted from 0. Each further attempt switches to the next world.
    Tries(u64, Vec<World>),
    /// Switch the store just before a read accesses the heap. The number selects the access,
    /// counted from 0 over all attempts.
    Look(u64, World),
}

/// The planned interruption, and the attempts and heap accesses that the hook has counted.
#[derive(Default)]
struct Script {
    interruption: Option<Interruption>,
    tries: u64,
    looks: u64,
    changes: u64,
}

/// A store in a temporary directory, with a handle that changes the store.
pub struct Stage {
    place: Place,
    /// All states that a key can be in.
    pub states: Arc<Vec<State>>,
    script: Arc<Mutex<Script>>,
    writer: Arc<Store>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Stage {
    /// Returns a stage with `shards` shards. The states must be created with [`fill`](Self::fill).
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

    /// Creates the states by running their commands. `run` must run a command in the database with
    /// the given number.
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

    /// Opens a handle. Its reads can be interrupted after a [`hook`](Self::hook) has been set on
    /// it.
    ///
    /// # Panics
    /// Panics if the store cannot be opened.
    pub fn open(&self, write: bool) -> Store {
        let store = Store::open(&self.place.path, write).expect("a whole store");
        store.set_time(NOW);
        store
    }

    /// Returns the path of the store's file.
    pub fn path(&self) -> &std::path::Path {
        &self.place.path
    }

    /// Returns a hook that interrupts the reads of the handle on which it is set.
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

    /// Puts the keys into the states of a world.
    pub fn enter(&self, world: World) {
        change(&self.writer, &self.states, world);
    }

    /// Plans an interruption of the reads that follow.
    pub fn interrupt(&self, interruption: Interruption) {
        *lock(&self.script) = Script {
            interruption: Some(interruption),
            ..Script::default()
        };
    }

    /// Stops interrupting reads. Returns how often the store changed, and how often reads accessed
    /// the heap.
    pub fn calm(&self) -> (u64, u64) {
        let script = std::mem::take(&mut *lock(&self.script));
        (script.changes, script.looks)
    }

    /// Returns the name of a world for test messages.
    pub fn name(&self, world: World) -> String {
        format!(
            "({}, {})",
            self.states[world[0]].name, self.states[world[1]].name
        )
    }
}

impl Script {
    /// Counts a moment of a read. Returns the world to switch to at this moment, if any.
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

/// Copies the states of a world to the keys in one transaction. The shards change even if the keys
/// are already in these states.
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
    changed.expect("no other process holds the locks");
}
