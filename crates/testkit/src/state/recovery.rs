//! Whether a store that a death left is whole.

use std::path::Path;
use std::time::Duration;

use undercroft_engine::leases::Leased;
use undercroft_engine::{Error, Expiry, Store};

use super::content::{PROBE, State, leased_key};
use crate::fixture::{MESSAGES_KEPT, NOW, open};
use crate::image::copy_store;
use crate::scenario::Scenario;

/// How many keys, at most, [`verify`] looks at before the store is recovered.
const READS_MAX: usize = 16;

/// Problems that the structural check finds, and locks held by nobody alive.
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

/// What a death between `before` and `after` may leave.
#[derive(Clone, Debug)]
pub struct Expected {
    /// The state before the change.
    pub before: State,
    /// The state between two parts of it, where it has a first part.
    pub between: Option<State>,
    /// The state after it.
    pub after: State,
    /// The change gives memory back, or what the dead left, in several
    /// transactions: memory in use may lie between that of the two states.
    pub gradual: bool,
    /// Items go from hand to hand in several transactions: a process that has them in
    /// between, all must be there, once.
    pub handed: bool,
}

impl Expected {
    /// What a death in a scenario may leave of the prepared store in a file, which stays as it is: copies beside it are
    /// changed.
    ///
    /// # Panics
    /// If a copy cannot be made, the change fails, or it changes nothing.
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

/// Which state a death left: the later one is the greater one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Outcome {
    /// The one before the change.
    Old,
    /// The one behind its first part.
    Between,
    /// The one after it.
    New,
}

impl Outcome {
    /// Returns it, unless it is an earlier one than a shorter life has left. The states of some changes are not told
    /// apart so strictly; of those nothing is asked.
    pub fn after(self, last: &mut Outcome, scenario: &Scenario) -> Result<Outcome, String> {
        let is_strict = scenario.handed || scenario.first.is_some();
        if is_strict && self < *last {
            return Err(format!("{self:?}, where a shorter life left {last:?}"));
        }
        *last = self;
        Ok(self)
    }
}

/// Checks a store that its writer's death left: it is recovered, its structure
/// is sound, it holds the old or the new state as a whole, it works on, and
/// nothing is in use once it is emptied. `turn` varies who comes first:
/// a recovery, a reader or a writer. The store is empty afterwards.
pub fn verify(store: &Store, expected: &Expected, turn: u64) -> Result<Outcome, String> {
    let say = |error: Error| error.to_string();
    match turn % 3 {
        0 => store.recover().map_err(say)?,
        1 => {
            let keys = expected.before.content.keys();
            let keys: Vec<_> = keys.chain(expected.after.content.keys()).collect();
            for (database, key) in keys.iter().step_by(keys.len() / READS_MAX + 1) {
                // As a command looks, which leaves what has expired to a later step.
                let access = store.access();
                access.exists(*database, &[key.as_slice()]).map_err(say)?;
            }
            // Reading needs no recovery (R9), but every read goes through the logs again: a few are enough.
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
    // The store works on, with the very keys that were being changed.
    for (database, key) in expected
        .before
        .content
        .keys()
        .chain(expected.after.content.keys())
    {
        store.set(*database, key, b"works on").map_err(say)?;
    }
    store.flush_all(true).map_err(say)?;
    store.forget_texts().map_err(say)?;
    // Long messages on their way are no keys: they go when their time is over.
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
    // A message that is not finished may have overwritten the oldest few.
    let sent = |of: &State| {
        of.messages.ends_with(&state.messages) && state.messages.len() + 4 >= of.messages.len()
    };
    let held = |of: &State| state.content == of.content && state.texts == of.texts;
    let same = |of: &State| held(of) && sent(of);
    let enrolled = |of: &State| state.subscribers == of.subscribers && state.waits == of.waits;
    // What the dead left is one with the change only where that is one transaction.
    let whole = |of: &State| {
        if enrolled(of) { memory(of) } else { *gradual }
    };
    // The old one first: a list without the new message may be the end of both.
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
    if *gradual && same(after) && (probed || between.contains(&state.used)) {
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

/// Takes the lease of a key, whose holder is dead, and sets the value for it.
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
