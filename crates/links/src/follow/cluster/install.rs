//! Makes the data sets that lanes have loaded together visible, in one step.
//!
//! The data sets replace all keys of the store, so the keys of lanes that were not loaded are copied to
//! them first. No lane commits a change in the meantime. The copy costs a second for about a million
//! keys, which is rare: a master's backlog was lost, or a master joined with keys.

use std::collections::{BTreeMap, HashSet};

use undercroft_engine::{Lane, Store, key_slot, loading_database};

use crate::follow::changes::Changes;
use crate::follow::cluster::rendezvous::Loaded;
use crate::follow::cluster::routed::{ARRIVED, Routed};
use crate::follow::cluster::routes::Rerouting;
use crate::follow::cluster::shared::{Sender, Shared};
use crate::follow::cluster::topology::View;
use crate::follow::error::FollowError;
use crate::follow::source_url::Address;
use crate::follow::transfer::Received;
use crate::load::LoadError;

/// The number of keys that are found at once.
const PAGE: u64 = 1000;

/// Makes data sets visible, and records the places in their streams.
pub(super) fn install(
    shared: &Shared<'_>,
    loaded: &BTreeMap<u8, Loaded>,
    stops: &dyn Fn() -> bool,
) -> Result<(), FollowError> {
    if let Some(library_lane) = shared.routes.library_lane()
        && let Some(Loaded { received, .. }) = loaded.get(&library_lane)
    {
        replace_libraries(shared, (library_lane, received), stops)?;
    }
    let is_loaded = |lane: u8| loaded.contains_key(&lane);
    shared.routes.change(|rerouting| {
        let store = shared.store;
        let ended = end_moves(rerouting, loaded);
        let owners = rerouting.record().owners;
        let mut has_keys = owners.ranges().iter().any(|(_, lane)| is_loaded(*lane));
        has_keys |= store.keys(loading_database(ARRIVED)) > 0;
        let is_first = store.cluster_source()?.is_none();
        if has_keys || is_first {
            complete((store, stops), rerouting, &is_loaded, &ended)?;
        }
        for (&number, Loaded { received, .. }) in loaded {
            let sender = shared.lane(number).and_then(|lane| lane.sender().0);
            let Some(Sender { id: node, address }) = sender else {
                continue;
            };
            let (host, port) = match address {
                Address::Tcp { host, port } => (host, port),
                Address::Unix(path) => (path.display().to_string(), 0),
            };
            rerouting.set_lane(Lane {
                number,
                id: received.source.id,
                node,
                host,
                port,
                position: received.source.position,
            });
        }
        let record = rerouting.record();
        match has_keys || is_first {
            true => store.finish_loading_cluster(&record, is_loaded).map(drop)?,
            false => store.set_cluster_source(&record, is_loaded)?,
        }
        rerouting.set_recorded();
        Ok(())
    })
}

/// Ends the moves of slots to lanes whose data sets have all keys of the slots, because the nodes owned
/// the slots before they made the data sets. Returns the slots.
fn end_moves(rerouting: &mut Rerouting<'_>, loaded: &BTreeMap<u8, Loaded>) -> HashSet<u16> {
    let mut ended = HashSet::new();
    for (slot, to) in rerouting.record().moving {
        let view = loaded.get(&to).and_then(|loaded| loaded.view.as_ref());
        if view.is_some_and(|view| view.owns(slot)) {
            rerouting.set_owner(slot, to);
            rerouting.end_move(slot);
            ended.insert(slot);
        }
    }
    ended
}

/// Adds the keys of lanes that were not loaded to the data sets, and resolves keys that two of them
/// contain.
/// `ended` are the slots whose moves the data sets have ended.
fn complete(
    (store, stops): (&Store, &dyn Fn() -> bool),
    rerouting: &mut Rerouting<'_>,
    is_loaded: &dyn Fn(u8) -> bool,
    ended: &HashSet<u16>,
) -> Result<(), FollowError> {
    let (own, arrived) = (loading_database(0), loading_database(ARRIVED));
    if !ended.is_empty() {
        // Only the new owners' keys of these slots count, which are among those that have arrived.
        for_each_key(
            store,
            own,
            stops,
            &mut |key| match ended.contains(&key_slot(key)) {
                true => remove(store, own, key),
                false => Ok(()),
            },
        )?;
    }
    for key in rerouting.changed_by_others(is_loaded) {
        remove(store, own, &key)?;
    }
    let is_kept = |key: &[u8]| rerouting.holder(key).is_some_and(|lane| !is_loaded(lane));
    for_each_key(store, 0, stops, &mut |key| {
        if !is_kept(key) {
            return Ok(());
        }
        let key = store.key(key);
        let copied = store.write(store.shards_of([&key]), |writer| {
            writer.remove_quietly(own, &key)?;
            writer.copy((0, &key), (own, &key))
        });
        copied
            .map(drop)
            .map_err(|error| LoadError::of_key(key.bytes(), error).into())
    })?;
    rerouting.forget_changed(is_loaded);
    for_each_key(store, arrived, stops, &mut |key| {
        rerouting.mark_changed(key);
        let key = store.key(key);
        let moved = store.write(store.shards_of([&key]), |writer| {
            writer.remove_quietly(own, &key)?;
            writer.copy((arrived, &key), (own, &key))
        });
        moved
            .map(drop)
            .map_err(|error| LoadError::of_key(key.bytes(), error).into())
    })?;
    Ok(store.flush(&[arrived], true).map(drop)?)
}

fn remove(store: &Store, database: usize, key: &[u8]) -> Result<(), FollowError> {
    let key = store.key(key);
    let removed = store.write(store.shards_of([&key]), |writer| {
        writer.remove_quietly(database, &key)
    });
    Ok(removed.map(drop)?)
}

/// Calls `visit` for each key of a database, which no process changes in the meantime.
fn for_each_key(
    store: &Store,
    database: usize,
    stops: &dyn Fn() -> bool,
    visit: &mut dyn FnMut(&[u8]) -> Result<(), FollowError>,
) -> Result<(), FollowError> {
    let mut cursor = 0;
    loop {
        if stops() {
            return Err(FollowError::Stopped);
        }
        let mut page: Vec<Vec<u8>> = Vec::new();
        cursor = store.scan(
            database,
            cursor,
            PAGE,
            |_, _| Ok(Some(())),
            |key, ()| page.push(key.to_vec()),
        )?;
        page.iter().try_for_each(|key| visit(key))?;
        if cursor == 0 {
            return Ok(());
        }
    }
}

/// Replaces the store's function libraries by those of a lane. If the process dies before the data sets
/// are visible, the next one does so again.
fn replace_libraries(
    shared: &Shared<'_>,
    (number, received): (u8, &Received),
    stops: &dyn Fn() -> bool,
) -> Result<(), FollowError> {
    let Some(lane) = shared.lane(number) else {
        return Ok(());
    };
    let ask = || -> Result<View, FollowError> { Err(FollowError::Stopped) };
    let options = shared.options;
    // The libraries need no decisions.
    let how = (&ask as _, &shared.rendezvous);
    let routed = Routed::new(&shared.routes, &options.filter, number, how);
    let to = (shared.store, &routed as _, options.load.drop_field_expiry);
    let (host, position) = (shared.host, received.source.position);
    let mut changes = Changes::new(to, host, &lane.state, stops, position)?;
    changes.replace_libraries(&received.libraries)
}
