//! Checks a store after a process died during a change.

use std::path::Path;
use std::time::Duration;

use undercroft_engine::leases::Leased;
use undercroft_engine::{Error, Expiry, Store};

use super::content::{PROBE, State, leased_key};
use crate::fixture::{MESSAGES_KEPT, NOW, open};
use crate::image::copy_store;
use crate::scenario::Scenario;

/// The maximum number of keys that [`verify`] reads before it recovers the store.
const READS_MAX: usize = 16;

/// Returns the problems that the check of the store's structures finds, and the locks whose holders
/// are dead.
pub fn problems(store: &Store) -> Result<Vec<String>, Error> {
    let mut problems = store.check()?.problems;
    problems.extend(
        store
            .held_locks()
            .into_iter()
            .map(|lock| format!("a lock is still held: {lock:?}")),
    );
    Ok(problems)
}

/// The states that a death during a change can leave in the store.
#[derive(Clone, Debug)]
pub struct Expected {
    /// The state before the change.
    pub before: State,
    /// The state after the first part of the change, if the change has a separate first part.
    pub between: Option<State>,
    /// The state after the change.
    pub after: State,
    /// Whether the change frees memory in several transactions: memory that it no longer needs, or
    /// memory that dead processes left allocated. The number of bytes in use can then be between
    /// those of the two states.
    pub gradual: bool,
    /// Whether items pass from one process to another in several transactions. After a death
    /// between two of these transactions, every item must exist exactly once.
    pub handed: bool,
}

impl Expected {
    /// Returns the states that a death during a scenario can leave. Makes the changes in copies of
    /// the prepared store at `base`.
    ///
    /// # Panics
    /// Panics if the store cannot be copied, or if the change fails or changes nothing.
    pub fn of(scenario: &Scenario, base: &Path) -> Expected {
        let path = base.with_extension("done");
        let after_it = |act: fn(&Store)| {
            copy_store(base, &path).expect("room for a copy");
            let store = open(&path).expect("a whole store");
            act(&store);
            let state = State::of(&store).expect("a whole store");
            drop(store);
            std::fs::remove_file(&path).expect("just made");
            state
        };
        let expected = Expected {
            before: after_it(|_| ()),
            between: scenario.first.map(after_it),
            after: after_it(scenario.act),
            gradual: scenario.gradual,
            handed: scenario.handed,
        };
        let states = [Some(&expected.before), expected.between.as_ref()];
        for state in states.into_iter().flatten() {
            assert_ne!(
                state, &expected.after,
                "{}: it changes nothing",
                scenario.name
            );
        }
        expected
    }
}

/// The state that a death left in the store, in chronological order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Outcome {
    /// The state before the change.
    Old,
    /// The state after the first part of the change.
    Between,
    /// The state after the change.
    New,
}

impl Outcome {
    /// Returns the outcome, or an error if a death at an earlier point left a later state. Checks
    /// this order only in scenarios with several committed parts.
    pub fn after(self, last: &mut Outcome, scenario: &Scenario) -> Result<Outcome, String> {
        let is_strict = scenario.handed || scenario.first.is_some();
        if is_strict && self < *last {
            return Err(format!("{self:?}, where a shorter life left {last:?}"));
        }
        *last = self;
        Ok(self)
    }
}

/// Checks a store whose writer died. The store must be recoverable and structurally sound, contain
/// exactly the old or the new state, accept new writes, and use no memory after it has been
/// emptied. `turn` selects the first access: a recovery, a read or a write. Leaves the store empty.
pub fn verify(store: &Store, expected: &Expected, turn: u64) -> Result<Outcome, String> {
    let say = |error: Error| error.to_string();
    match turn % 3 {
        0 => store.recover().map_err(say)?,
        1 => {
            let keys = expected.before.content.keys();
            let keys: Vec<_> = keys.chain(expected.after.content.keys()).collect();
            for (database, key) in keys.iter().step_by(keys.len() / READS_MAX + 1) {
                // Read like a command, which does not free expired keys.
                let access = store.access();
                access.exists(*database, &[key.as_slice()]).map_err(say)?;
            }
            // Reads do not require a recovery (R9), but each read has to apply the undo logs, so
            // read only a few keys.
            store.recover().map_err(say)?;
        }
        _ => {
            for key in 0..4 {
                let key = format!("probe:{key}");
                store.set(PROBE, key.as_bytes(), b"x").map_err(say)?;
            }
        }
    }
    let found = problems(store).map_err(say)?;
    if !found.is_empty() {
        return Err(format!("the check finds {found:?}"));
    }
    let state = State::of(store).map_err(say)?;
    let outcome = judge(&state, expected, turn % 3 == 2)?;
    for (database, name) in state.content.keys() {
        if let Some(key) = leased_key(name) {
            pass_lease_on(store, *database, key)?;
        }
    }
    // The store must accept writes to the keys that the change touched.
    for (database, key) in expected
        .before
        .content
        .keys()
        .chain(expected.after.content.keys())
    {
        store.set(*database, key, b"works on").map_err(say)?;
    }
    store.flush_all(true).map_err(say)?;
    store.begin_loading().map_err(say)?;
    store.end_stream().map_err(say)?;
    store.forget_source().map_err(say)?;
    store.forget_texts().map_err(say)?;
    // Long messages occupy memory until their retention period ends, so advance the time.
    store.set_time(NOW + MESSAGES_KEPT);
    store.upkeep_all().map_err(say)?;
    let found = problems(store).map_err(say)?;
    if store.used_memory() != 0 || !found.is_empty() {
        return Err(format!(
            "emptied, {} bytes are in use: {found:?}",
            store.used_memory()
        ));
    }
    Ok(outcome)
}

fn judge(state: &State, expected: &Expected, probed: bool) -> Result<Outcome, String> {
    let Expected {
        before,
        between: half,
        after,
        gradual,
        handed,
    } = expected;
    if *handed {
        return judge_by_items(state, before, after);
    }
    let memory = |of: &State| probed || state.used == of.used;
    // An unfinished message can have overwritten a few of the oldest messages.
    let sent = |of: &State| {
        of.messages.ends_with(&state.messages) && state.messages.len() + 4 >= of.messages.len()
    };
    let held = |of: &State| {
        let is_held = state.content == of.content && state.texts == of.texts;
        let is_followed = state.source == of.source && state.cluster == of.cluster;
        is_held && is_followed && state.outgoing == of.outgoing
    };
    let same = |of: &State| held(of) && sent(of);
    let enrolled = |of: &State| state.subscribers == of.subscribers && state.waits == of.waits;
    // The lists of dead subscribers and waiters match a state only if the change is a single
    // transaction.
    let whole = |of: &State| {
        if enrolled(of) { memory(of) } else { *gradual }
    };
    // Compare with the old state first: a list without the new message can be a suffix of both
    // lists.
    if same(before) && whole(before) {
        return Ok(Outcome::Old);
    }
    if half.as_ref().is_some_and(|half| same(half) && whole(half)) {
        return Ok(Outcome::Between);
    }
    if same(after) && whole(after) {
        return Ok(Outcome::New);
    }
    let between = before.used.min(after.used)..=before.used.max(after.used).saturating_add(128);
    let is_between = probed || between.contains(&state.used);
    if *gradual && same(before) && enrolled(before) && is_between {
        return Ok(Outcome::Old);
    }
    if *gradual && same(after) && is_between {
        return Ok(Outcome::New);
    }
    Err(format!(
        "neither old nor new: {}\n  old: {}{}\n  new: {}",
        state.summary(),
        before.summary(),
        half.as_ref().map_or(String::new(), |half| format!(
            "\n  between: {}",
            half.summary()
        )),
        after.summary()
    ))
}

fn judge_by_items(state: &State, before: &State, after: &State) -> Result<Outcome, String> {
    let has = |of: &State| state.items == of.items;
    if has(before) && (state.waits == before.waits || !has(after)) {
        return Ok(Outcome::Old);
    }
    if has(after) {
        return Ok(Outcome::New);
    }
    Err(format!(
        "items are lost or doubled: {}\n  old: {}\n  new: {}",
        state.summary(),
        before.summary(),
        after.summary()
    ))
}

/// Acquires the lease of a key after its holder has died, and sets the value.
fn pass_lease_on(store: &Store, database: usize, key: &[u8]) -> Result<(), String> {
    let say = |error: Error| error.to_string();
    let name = String::from_utf8_lossy(key);
    let term = Duration::from_secs(10);
    let leased = store.take_lease(database, key, term, u64::MAX);
    let Leased::Taken(lease, _) = leased.map_err(say)? else {
        return Err(format!(
            "the lease of {name} has a dead holder, and is not the next one's"
        ));
    };
    let set = store.set_leased(database, key, b"passed on", Expiry::Never, &lease);
    match set.map_err(say)? {
        true => Ok(()),
        false => Err(format!(
            "the lease of {name} was taken, and no value is set for it"
        )),
    }
}
