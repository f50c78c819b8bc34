//! Reads the contents of a store.

use std::collections::BTreeMap;

use undercroft_engine::changes::Change;
use undercroft_engine::messages::Topic;
use undercroft_engine::{
    ClusterSource, DATABASES, Entry, Error, Ranges, Source, SourceLink, Store, Stream, ValueType,
    View, loading_database,
};

/// The number of the database to which the check of a store writes.
pub(super) const PROBE: usize = DATABASES - 1;

/// The value and the expiry time of each key, by database number and key, including the databases
/// that a replica is loading.
pub type Content = BTreeMap<(usize, Vec<u8>), (Vec<u8>, Option<u64>)>;

/// The complete contents of a store, including subscriptions and waits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct State {
    /// The keys with their values and expiry times.
    pub content: Content,
    /// The source of the store's keys, if the store is a replica.
    pub source: Option<Source>,
    /// The cluster whose keys the store has, if it is the replica of one.
    pub cluster: Option<ClusterSource>,
    /// The stream of changes for replicas, if there is one.
    pub outgoing: Option<Outgoing>,
    /// The recorded connection to the source and the recorded filter.
    pub link: (Option<SourceLink>, Vec<u8>),
    /// The texts of scripts, libraries and users, by name.
    pub texts: BTreeMap<Vec<u8>, Vec<u8>>,
    /// The channel and the payload of each published message.
    pub messages: Vec<(Vec<u8>, Vec<u8>)>,
    /// For each topic, the number of subscribers to each name, including dead subscribers.
    pub subscribers: Vec<BTreeMap<Vec<u8>, u64>>,
    /// The clients that are blocked on keys, including dead clients, with the items that were
    /// handed to them.
    pub waits: Vec<String>,
    /// The sorted items of all lists and members of all sorted sets, including items that were
    /// handed to waiters.
    pub items: Vec<Vec<u8>>,
    /// The number of bytes in allocated blocks.
    pub used: u64,
}

impl State {
    /// Reads the complete contents of a store.
    pub fn of(store: &Store) -> Result<State, Error> {
        let (content, mut items) = keys_of(store)?;
        let texts = store.texts()?.into_iter().collect();
        let subscribers = Topic::ALL.map(|topic| store.enrolled(topic));
        let (waits, given): (Vec<String>, Vec<Vec<Vec<u8>>>) = store.waits()?.into_iter().unzip();
        items.extend(given.into_iter().flatten());
        items.sort_unstable();
        Ok(State {
            content,
            source: store.source()?,
            cluster: store.cluster_source()?,
            outgoing: outgoing_of(store)?,
            link: (store.source_link()?, store.source_filter()?),
            texts,
            waits,
            items,
            messages: store.messages()?,
            subscribers: subscribers.into_iter().collect::<Result<_, _>>()?,
            used: store.used_memory(),
        })
    }

    /// Returns the part of the state that outlives a failure of the machine: all but messages and
    /// subscriptions.
    ///
    /// # Errors
    /// Fails if the store is damaged.
    pub fn durable(store: &Store) -> Result<State, Error> {
        let mut state = State::of(store)?;
        state.messages.clear();
        state.subscribers.clear();
        Ok(state)
    }

    /// Describes how this state differs from the expected one.
    pub fn difference(&self, expected: &State) -> String {
        let mut text = String::new();
        let keys = self.content.keys().chain(expected.content.keys());
        for key in keys.filter(|key| self.content.get(key) != expected.content.get(key)) {
            let name = String::from_utf8_lossy(&key.1);
            text += &format!("key {name} of database {} differs\n", key.0);
        }
        if text.is_empty() {
            text = format!("expected {}\nfound {}", expected.summary(), self.summary());
        }
        text
    }

    /// Returns the keys with shortened values, for test messages.
    pub(super) fn summary(&self) -> String {
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
            self.subscribers,
            self.waits
        )
    }
}

/// The stream of changes for replicas, the bytes in the backlog, and the changes that were logged but
/// not sent yet.
type Outgoing = (Stream, Vec<u8>, Vec<String>);

fn outgoing_of(store: &Store) -> Result<Option<Outgoing>, Error> {
    let Some(stream) = store.stream()? else {
        return Ok(None);
    };
    let mut sent = Vec::new();
    store.read_stream(stream.start, u64::MAX, &mut sent)?;
    let logged = store.changes_after(&store.log_starts()?)?;
    // The check of a store changes the keys of one database.
    let changes = logged
        .iter()
        .filter(|change| !matches!(change, Change::Key(PROBE, ..)));
    let texts = changes.map(|change| format!("{change:?}")).collect();
    Ok(Some((stream, sent, texts)))
}

/// Returns the contents of all keys of a store.
pub fn content_of(store: &Store) -> Result<Content, Error> {
    Ok(keys_of(store)?.0)
}

/// Returns the contents of all keys, and separately the items of all lists and the members of all
/// sorted sets.
fn keys_of(store: &Store) -> Result<(Content, Vec<Vec<u8>>), Error> {
    let mut content = Content::new();
    let mut items = Vec::new();
    let visible = (0..DATABASES).filter(|&database| database != PROBE);
    for database in visible.chain((0..DATABASES).map(loading_database)) {
        let mut cursor = 0;
        loop {
            cursor = store.scan(
                database,
                cursor,
                1000,
                |reader, entry| {
                    let view = reader.view();
                    let value = (value_of(entry, view)?, entry.expiry(view)?);
                    Ok(Some((value, items_of(entry, view)?)))
                },
                |key, ((mut value, expiry), found)| {
                    if leased_key(key).is_some() {
                        hide_holder(&mut value);
                    }
                    content.insert((database, key.to_vec()), (value, expiry));
                    items.extend(found);
                },
            )?;
            if cursor == 0 {
                break;
            }
        }
    }
    Ok((content, items))
}

/// Encodes a value, so that equal values have equal encodings. The encoding of a string is its
/// bytes. The encoding of a collection is its type, its internal encoding and all of its items,
/// sorted if the type has no order.
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

/// Returns the key to which a lease's name belongs, or `None` if the name is not that of a lease.
pub(super) fn leased_key(name: &[u8]) -> Option<&[u8]> {
    name.strip_prefix(b"undercroft:lease:{")?.strip_suffix(b"}")
}

/// Masks a lease except for its number, because the holder's entry in the process table and the end
/// of the lease differ between runs.
fn hide_holder(lease: &mut [u8]) {
    if let Some((b'@', rest)) = lease.split_first_mut() {
        let seat = rest.len().min(16);
        rest[..seat].fill(b'-');
        if let Some(over) = rest.get_mut(32..) {
            over.fill(b'-');
        }
    }
}

/// Returns the items of a list, or the members of a sorted set.
fn items_of(entry: &Entry, view: &View<'_>) -> Result<Vec<Vec<u8>>, Error> {
    let value_type = entry.value_type()?;
    if !matches!(value_type, ValueType::List | ValueType::SortedSet) {
        return Ok(Vec::new());
    }
    let width = value_type.description().width;
    let mut texts = Ranges::new();
    entry.append_items(view, &mut texts)?;
    Ok(texts.iter().step_by(width).map(<[u8]>::to_vec).collect())
}
