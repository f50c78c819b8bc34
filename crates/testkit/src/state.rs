//! What a store holds, and whether a store that a death left is whole.

use std::collections::BTreeMap;
use std::fs::OpenOptions;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::time::Duration;

use undercroft_engine::{
    DATABASES, Entry, Error, Expiry, Leased, Options, Ranges, Store, Topic, ValueType, View,
};
use undercroft_memory::layout::header;

use crate::image::copy_store;
use crate::scenario::Scenario;

/// The time in every scenario, Unix milliseconds.
pub const NOW: u64 = 1_000_000_000;
/// No message is kept so long, in milliseconds.
pub const MESSAGES_KEPT: u64 = 3_600_000;

/// The key of every scenario's hash: runs are alike.
pub const HASH_KEY: [u64; 2] = [0x0706_0504_0302_0100, 0x0f0e_0d0c_0b0a_0908];

/// The database that [`verify`] itself writes to.
const PROBE: usize = DATABASES - 1;

/// How many keys, at most, [`verify`] looks at before the store is recovered.
const LOOKS: usize = 16;

/// By database and key: value and expiry.
pub type Content = BTreeMap<(usize, Vec<u8>), (Vec<u8>, Option<u64>)>;

/// What a store holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct State {
    /// Its keys.
    pub content: Content,
    /// The texts of scripts and libraries, by their names.
    pub texts: BTreeMap<Vec<u8>, Vec<u8>>,
    /// The messages that were published: channel and payload.
    pub messages: Vec<(Vec<u8>, Vec<u8>)>,
    /// Who is subscribed, those who died included: by topic and name.
    pub enrolled: Vec<BTreeMap<Vec<u8>, u64>>,
    /// Who waits for keys, those who died included, and what they were given.
    pub waits: Vec<String>,
    /// The items of all lists and the members of all sorted sets, those that
    /// were given to who waited included; sorted.
    pub goods: Vec<Vec<u8>>,
    /// Bytes in allocated blocks.
    pub used: u64,
}

impl State {
    /// Reads everything.
    pub fn of(store: &Store) -> Result<State, Error> {
        let (content, mut goods) = keys_of(store)?;
        let texts = store.texts()?.into_iter().collect();
        let enrolled = Topic::ALL.map(|topic| store.enrolled(topic));
        let (waits, given): (Vec<String>, Vec<Vec<Vec<u8>>>) = store.waits()?.into_iter().unzip();
        goods.extend(given.into_iter().flatten());
        goods.sort_unstable();
        Ok(State {
            content,
            texts,
            waits,
            goods,
            messages: store.messages()?,
            enrolled: enrolled.into_iter().collect::<Result<_, _>>()?,
            used: store.used_memory(),
        })
    }

    /// The content with values cut short, for messages.
    fn summary(&self) -> String {
        let keys = self
            .content
            .iter()
            .map(|((database, key), (value, expiry))| {
                let sum = crc32fast::hash(value);
                let key = String::from_utf8_lossy(key);
                let start = String::from_utf8_lossy(&value[..value.len().min(12)]).into_owned();
                format!(
                    "{database}/{key}={start:?}*{}#{sum:x} {expiry:?}",
                    value.len()
                )
            });
        format!(
            "used {} [{}] {} messages, enrolled {:?}, waits {:?}",
            self.used,
            keys.collect::<Vec<_>>().join(", "),
            self.messages.len(),
            self.enrolled,
            self.waits
        )
    }
}

/// Reads all keys.
pub fn content_of(store: &Store) -> Result<Content, Error> {
    Ok(keys_of(store)?.0)
}

/// All keys, and the items of all lists and the members of all sorted sets.
fn keys_of(store: &Store) -> Result<(Content, Vec<Vec<u8>>), Error> {
    let mut content = Content::new();
    let mut goods = Vec::new();
    for database in (0..DATABASES).filter(|&database| database != PROBE) {
        let mut cursor = 0;
        loop {
            cursor = store.scan(
                database,
                cursor,
                1000,
                |reader, entry| {
                    let view = reader.view();
                    let value = (value_of(entry, view)?, entry.expiry(view)?);
                    Ok(Some((value, goods_of(entry, view)?)))
                },
                |key, ((mut value, expiry), items)| {
                    if leased_key(key).is_some() {
                        hide_holder(&mut value);
                    }
                    content.insert((database, key.to_vec()), (value, expiry));
                    goods.extend(items);
                },
            )?;
            if cursor == 0 {
                break;
            }
        }
    }
    Ok((content, goods))
}

/// A value as bytes, the same for the same content: a string is itself; of a
/// collection, type and encoding and all items, those without an order sorted.
fn value_of(entry: &Entry, view: &View<'_>) -> Result<Vec<u8>, Error> {
    let mut texts = Ranges::new();
    entry.append_items(view, &mut texts)?;
    let value_type = entry.value_type()?;
    let all: Vec<&[u8]> = texts.iter().collect();
    if value_type == ValueType::String {
        return Ok(all.concat());
    }
    let description = value_type.description();
    let mut items: Vec<&[&[u8]]> = all.chunks(description.width).collect();
    if !description.ordered {
        items.sort_unstable();
    }
    let mut value = format!("{} {}:", value_type.name(), entry.encoding()?.name()).into_bytes();
    for text in items.concat() {
        value.extend_from_slice(format!(" {}=", text.len()).as_bytes());
        value.extend_from_slice(text);
    }
    Ok(value)
}

/// The key whose value a lease is for, if a key is a lease's.
fn leased_key(name: &[u8]) -> Option<&[u8]> {
    name.strip_prefix(b"undercroft:lease:{")?.strip_suffix(b"}")
}

/// Leaves a lease its number only: which entry of the process table its holder has differs from run to run, and so does
/// the time of its end.
fn hide_holder(lease: &mut [u8]) {
    if let Some((b'@', rest)) = lease.split_first_mut() {
        let seat = rest.len().min(16);
        rest[..seat].fill(b'-');
        if let Some(over) = rest.get_mut(32..) {
            over.fill(b'-');
        }
    }
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

/// The items of a list, or the members of a sorted set.
fn goods_of(entry: &Entry, view: &View<'_>) -> Result<Vec<Vec<u8>>, Error> {
    let value_type = entry.value_type()?;
    if !matches!(value_type, ValueType::List | ValueType::SortedSet) {
        return Ok(Vec::new());
    }
    let width = value_type.description().width;
    let mut texts = Ranges::new();
    entry.append_items(view, &mut texts)?;
    Ok(texts.iter().step_by(width).map(<[u8]>::to_vec).collect())
}

/// Makes a store of 4 MiB in two shards whose hash key is [`HASH_KEY`].
///
/// # Panics
/// If it cannot be made there.
pub fn create(path: &Path) -> Store {
    let options = Options {
        capacity: Some(4 << 20),
        shards: Some(2),
        ring: Some(64 << 10),
    };
    drop(Store::create(path, &options).expect("a new store"));
    let file = OpenOptions::new()
        .read(true)
        .write(true)
        .open(path)
        .expect("the new store");
    for (word, value) in HASH_KEY.into_iter().enumerate() {
        let at = header::HASH_KEY + word as u64 * 8;
        file.write_all_at(&value.to_le_bytes(), at)
            .expect("a header");
    }
    let mut covered = vec![0; header::CHECKSUM as usize];
    file.read_exact_at(&mut covered, 0).expect("a header");
    let checksum = u64::from(crc32fast::hash(&covered));
    file.write_all_at(&checksum.to_le_bytes(), header::CHECKSUM)
        .expect("a header");
    open(path).expect("the new store with another hash key")
}

/// Opens a store at the scenarios' time.
pub fn open(path: &Path) -> Result<Store, Error> {
    let store = Store::open(path, true)?;
    store.set_time(NOW);
    Ok(store)
}

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
            for (database, key) in keys.iter().step_by(keys.len() / LOOKS + 1) {
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
    let outcome = decide(&state, expected, turn % 3 == 2)?;
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

fn decide(state: &State, expected: &Expected, probed: bool) -> Result<Outcome, String> {
    let Expected {
        before,
        between: half,
        after,
        gradual,
        handed,
    } = expected;
    if *handed {
        return decide_by_goods(state, before, after);
    }
    let memory = |of: &State| probed || state.used == of.used;
    // A message that is not finished may have overwritten the oldest few.
    let sent = |of: &State| {
        of.messages.ends_with(&state.messages) && state.messages.len() + 4 >= of.messages.len()
    };
    let held = |of: &State| state.content == of.content && state.texts == of.texts;
    let same = |of: &State| held(of) && sent(of);
    let enrolled = |of: &State| state.enrolled == of.enrolled && state.waits == of.waits;
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

fn decide_by_goods(state: &State, before: &State, after: &State) -> Result<Outcome, String> {
    let has = |of: &State| state.goods == of.goods;
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
