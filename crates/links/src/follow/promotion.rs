//! Promotes a replica: makes it an ordinary store at a moment at which it is equal to its source, whose
//! writers are paused for the comparison.

use std::collections::HashSet;
use std::thread;
use std::time::{Duration, Instant};

use undercroft_engine::rdb::decode;
use undercroft_engine::strings::STRING_MAX;
use undercroft_engine::{DATABASES, Error, Ranges, Store, ValueType};
use undercroft_resp::Value;

use crate::follow::client::SourceClient;
use crate::follow::cluster::{LaneClient, confirm};
use crate::follow::error::FollowError;
use crate::follow::filter::KeyFilter;
use crate::follow::sentinel;
use crate::follow::source_url::{Address, SourceUrl};
use crate::rdb::shown;

/// How long the store may need to apply the last changes.
const CATCHING_UP: Duration = Duration::from_secs(30);
/// The interval at which a wait looks for requests to stop.
const TURN: Duration = Duration::from_millis(100);
/// The number of values that are compared in each database.
const SAMPLE: usize = 100;
/// The number of bytes after a value in a payload of DUMP: a version and a checksum.
const FOOTER: usize = 10;

/// The comparison that a promotion made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Promotion {
    /// The position of the source's stream that the store has applied, or the sum of those of all
    /// masters of a cluster.
    pub offset: u64,
    /// The number of masters: 1, or those of a cluster.
    pub masters: usize,
    /// The databases that have keys.
    pub databases: Vec<Compared>,
}

/// The comparison of a database.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Compared {
    /// The number of the database.
    pub database: usize,
    /// The number of keys on both sides.
    pub keys: u64,
    /// The number of random keys whose values were compared.
    pub values: u64,
}

/// A master of the source.
struct Master<'a> {
    /// The lane of its stream, if the source is a cluster.
    lane: Option<u8>,
    address: Address,
    client: SourceClient<'a>,
}

/// Pauses the writers of a source for `pause`, waits until the store has applied all changes, compares
/// both, and makes the store an ordinary one. If the source is a cluster, all its masters are paused and
/// compared. Another process or thread must be following the source. After an error, the writers
/// continue and the store stays a replica.
///
/// # Errors
/// Returns [`FollowError::Promotion`] if the two differ, if the store does not catch up, or if slots move
/// between the masters of a cluster, or another error if a master cannot be reached or refuses a command.
pub fn promote(
    store: &Store,
    (url, filter): (&SourceUrl, &KeyFilter),
    pause: Duration,
    stops: &dyn Fn() -> bool,
) -> Result<Promotion, FollowError> {
    let mut masters = connect(store, url, stops)?;
    for master in &mut masters {
        if master.client.position()?.is_replica {
            return Err(FollowError::Promotion(
                "the source is itself a replica, whose writers cannot be paused; name its master"
                    .into(),
            ));
        }
    }
    let start = Instant::now();
    let promoted = pause_writers(&mut masters, pause)
        .and_then(|()| compare((store, filter), &mut masters, stops))
        .and_then(|promotion| {
            if start.elapsed() >= pause {
                return Err(FollowError::Promotion(format!(
                    "the comparison took longer than {} seconds, so that the source may have \
                     changed; use a longer --pause",
                    pause.as_secs()
                )));
            }
            // The programs have the whole pause to change over to the store.
            pause_writers(&mut masters, pause)?;
            // A replica that took a master's place during the comparison is not paused.
            confirm_masters(store, &mut masters)?;
            store.set_replica(false)?;
            Ok(promotion)
        });
    if promoted.is_err() {
        for master in &mut masters {
            // The pause also ends by itself.
            let _ = master.client.call(&["CLIENT", "UNPAUSE"]);
        }
    }
    promoted
}

/// Connects to all masters of the source.
fn connect<'a>(
    store: &Store,
    url: &SourceUrl,
    stops: &'a dyn Fn() -> bool,
) -> Result<Vec<Master<'a>>, FollowError> {
    let Some(cluster) = store.cluster_source()? else {
        let address = sentinel::find(url, stops)?;
        let client = SourceClient::connect(url, stops)?;
        return Ok(vec![Master {
            lane: None,
            address,
            client,
        }]);
    };
    let lanes = cluster.lanes.into_iter().map(|lane| {
        let address = Address::Tcp {
            host: lane.host,
            port: lane.port,
        };
        Ok(Master {
            lane: Some(lane.number),
            client: SourceClient::connect(&url.of(&address), stops)?,
            address,
        })
    });
    lanes.collect()
}

/// Fails if the masters of a cluster are not those that the store follows, with the same slots.
fn confirm_masters(store: &Store, masters: &mut [Master<'_>]) -> Result<(), FollowError> {
    let clients = masters.iter_mut().filter_map(|master| {
        Some(LaneClient {
            lane: master.lane?,
            address: &master.address,
            client: &mut master.client,
        })
    });
    let mut clients: Vec<LaneClient<'_, '_>> = clients.collect();
    match clients.is_empty() {
        true => Ok(()),
        false => confirm(store, &mut clients),
    }
}

fn pause_writers(masters: &mut [Master<'_>], pause: Duration) -> Result<(), FollowError> {
    let time = pause.as_millis().to_string();
    masters.iter_mut().try_for_each(|master| {
        let paused = master.client.call(&["CLIENT", "PAUSE", &time, "WRITE"]);
        paused.map(drop).map_err(|error| match error {
            FollowError::Command(text) => FollowError::Promotion(format!(
                "the source cannot pause its writers, which needs Redis 6.2 or later and \
                 permission: {text}; stop the writers, then use --end"
            )),
            error => error,
        })
    })
}

/// Waits until the store has applied all changes of the masters. Returns the sum of their positions.
fn catch_up(
    store: &Store,
    masters: &mut [Master<'_>],
    stops: &dyn Fn() -> bool,
) -> Result<u64, FollowError> {
    let start = Instant::now();
    let mut sum = 0;
    let wait = |failure: FollowError| match (stops(), start.elapsed() < CATCHING_UP) {
        (true, _) => Err(FollowError::Stopped),
        (false, true) => Ok(()),
        (false, false) => Err(failure),
    };
    for master in masters.iter_mut() {
        let offset = master.client.position()?.offset;
        sum += offset;
        while !store.wait_until_applied_in(master.lane, offset, TURN)? {
            wait(FollowError::Promotion(format!(
                "the store did not apply the changes of the source within {} seconds; look for the \
                 reason in its lag and master_link_error",
                CATCHING_UP.as_secs()
            )))?;
        }
    }
    // The store asks the masters for their slots every second.
    while let Err(error) = confirm_masters(store, masters) {
        match error {
            FollowError::Promotion(_) => wait(error)?,
            error => return Err(error),
        }
        thread::sleep(TURN);
    }
    Ok(sum)
}

fn compare(
    (store, filter): (&Store, &KeyFilter),
    masters: &mut [Master<'_>],
    stops: &dyn Fn() -> bool,
) -> Result<Promotion, FollowError> {
    let offset = catch_up(store, masters, stops)?;
    let mut theirs = [0; DATABASES];
    let mut samples = Vec::new();
    for (index, master) in masters.iter_mut().enumerate() {
        let client = &mut master.client;
        for (database, &keys) in keys(client)?.iter().enumerate() {
            // A node of a cluster has one database.
            if !filter.has_database(database) || master.lane.is_some() && database > 0 {
                continue;
            }
            client.call(&["SELECT", &database.to_string()])?;
            let (keys, sample) = match filter.prefix.is_empty() || keys == 0 {
                true => (keys, random_keys(client)?),
                false => keys_with(client, &filter.prefix, stops)?,
            };
            theirs[database] += keys;
            samples.push((index, database, sample));
        }
    }
    for (database, &keys) in theirs.iter().enumerate() {
        let ours = store.keys(database);
        if filter.has_database(database) && ours != keys {
            return Err(FollowError::Promotion(format!(
                "database {database} has {keys} keys on the source, but {ours} in the store"
            )));
        }
    }
    let mut values = [0; DATABASES];
    for (index, database, sample) in samples {
        let client = &mut masters[index].client;
        client.call(&["SELECT", &database.to_string()])?;
        values[database] += compare_values(store, client, database, &sample)?;
    }
    let all = theirs.into_iter().zip(values).enumerate();
    let compared = all.map(|(database, (keys, values))| Compared {
        database,
        keys,
        values,
    });
    let databases = compared.filter(|compared| compared.keys > 0).collect();
    Ok(Promotion {
        offset,
        masters: masters.len(),
        databases,
    })
}

/// Returns the number of keys in each database of the source.
fn keys(client: &mut SourceClient<'_>) -> Result<[u64; DATABASES], FollowError> {
    let mut keys = [0; DATABASES];
    for (name, figures) in client.info("keyspace")? {
        let Some(number) = name.strip_prefix("db") else {
            continue;
        };
        let count = figures
            .split(',')
            .find_map(|figure| figure.strip_prefix("keys="));
        let place = number
            .parse()
            .ok()
            .and_then(|number: usize| keys.get_mut(number));
        match (place, count.and_then(|count| count.parse().ok())) {
            (Some(place), Some(count)) => *place = count,
            _ => {
                return Err(FollowError::Protocol(format!(
                    "expected the number of keys of a database, got {name}:{figures}"
                )));
            }
        }
    }
    Ok(keys)
}

/// Returns random keys of the selected database.
fn random_keys(client: &mut SourceClient<'_>) -> Result<Vec<Vec<u8>>, FollowError> {
    let mut keys = Vec::new();
    for _ in 0..SAMPLE {
        match client.call(&["RANDOMKEY"])? {
            Value::Bulk(key) => keys.push(key),
            _ => break,
        }
    }
    Ok(keys)
}

/// Returns the number of keys of the selected database that have a prefix, and some of them.
fn keys_with(
    client: &mut SourceClient<'_>,
    prefix: &[u8],
    stops: &dyn Fn() -> bool,
) -> Result<(u64, Vec<Vec<u8>>), FollowError> {
    let mut pattern = Vec::new();
    for &byte in prefix {
        if b"*?[]\\".contains(&byte) {
            pattern.push(b'\\');
        }
        pattern.push(byte);
    }
    pattern.push(b'*');
    // SCAN can return a key twice if the table is resized at the same time.
    let mut found = HashSet::new();
    let mut cursor = b"0".to_vec();
    loop {
        if stops() {
            return Err(FollowError::Stopped);
        }
        let words = [b"SCAN", &cursor[..], b"MATCH", &pattern, b"COUNT", b"1000"];
        let Value::Array(parts) = client.call(&words)? else {
            return Err(FollowError::Protocol("expected a page of SCAN".into()));
        };
        let [Value::Bulk(next), Value::Array(keys)] = &parts[..] else {
            return Err(FollowError::Protocol("expected a page of SCAN".into()));
        };
        found.extend(keys.iter().filter_map(|key| match key {
            Value::Bulk(key) => Some(key.clone()),
            _ => None,
        }));
        cursor.clone_from(next);
        if cursor == b"0" {
            break;
        }
    }
    // The order of a hash set is random.
    let sample = found.iter().take(SAMPLE).cloned().collect();
    Ok((found.len() as u64, sample))
}

/// Compares the values of keys of the selected database. Returns the number of values.
fn compare_values(
    store: &Store,
    client: &mut SourceClient<'_>,
    database: usize,
    keys: &[Vec<u8>],
) -> Result<u64, FollowError> {
    let mut compared = 0;
    for key in keys {
        // An expired key, which both sides still count, has no value any more.
        let Value::Bulk(payload) = client.call(&[b"DUMP", &key[..]])? else {
            continue;
        };
        let Some(theirs) = content_of(&payload) else {
            // A value that a store holds in another form, such as a hash whose fields expire.
            continue;
        };
        if found(store, database, key)? != Some(theirs) {
            return Err(FollowError::Promotion(format!(
                "the key {} in database {database} has another value on the source than in the \
                 store",
                shown(key)
            )));
        }
        compared += 1;
    }
    Ok(compared)
}

/// The type and the items of a value, in an order that does not depend on its encoding.
type Content = (ValueType, Vec<Vec<u8>>);

/// Decodes a payload of DUMP. Returns `None` for a type that a store does not have.
fn content_of(payload: &[u8]) -> Option<Content> {
    let body = payload.get(..payload.len().checked_sub(FOOTER)?)?;
    let (&kind, body) = body.split_first()?;
    let mut items = Ranges::new();
    let value_type = decode(kind, body, STRING_MAX as usize, &mut items)?;
    Some(content(value_type, &items))
}

/// Returns the content of a key of the store.
fn found(store: &Store, database: usize, key: &[u8]) -> Result<Option<Content>, Error> {
    let key = store.key(key);
    store.read(store.shards_of([&key]), |reader| {
        let Some(entry) = reader.find(database, &key)? else {
            return Ok(None);
        };
        let mut items = Ranges::new();
        entry.append_items(reader.view(), &mut items)?;
        Ok::<_, Error>(Some(content(entry.value_type()?, &items)))
    })
}

fn content(value_type: ValueType, items: &Ranges) -> Content {
    let items: Vec<&[u8]> = (0..items.len()).map(|index| items.get(index)).collect();
    let width = match value_type {
        // A replica lacks consumers without entries, so streams are counted only.
        ValueType::Stream => return (value_type, Vec::new()),
        ValueType::Hash | ValueType::SortedSet => 2,
        _ => 1,
    };
    let mut parts: Vec<Vec<u8>> = items
        .chunks(width)
        .map(|part| {
            // The length keeps the two halves apart.
            let mut bytes = part[0].len().to_le_bytes().to_vec();
            bytes.extend_from_slice(part[0]);
            match (value_type, part.get(1)) {
                // A number has several texts, such as 1e300 and 1e+300.
                (ValueType::SortedSet, Some(score)) => {
                    let text = std::str::from_utf8(score).unwrap_or_default();
                    let score: Option<f64> = text.parse().ok();
                    bytes.extend(score.map_or(0, f64::to_bits).to_le_bytes());
                }
                (_, Some(value)) => bytes.extend_from_slice(value),
                (_, None) => {}
            }
            bytes
        })
        .collect();
    if matches!(
        value_type,
        ValueType::Hash | ValueType::SortedSet | ValueType::Set
    ) {
        parts.sort_unstable();
    }
    (value_type, parts)
}
