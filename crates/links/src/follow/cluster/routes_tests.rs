//! Tests the routes of a cluster.

use undercroft_engine::Options;

use super::*;

/// Runs a test with routes in which slot `{t}` belongs to lane 0.
fn with_routes(test: impl FnOnce(&Store, &Routes<'_>)) {
    let directory = tempfile::tempdir_in("/dev/shm").expect("a directory in shared memory");
    let options = Options {
        capacity: Some(32 << 20),
        shards: Some(1),
        ..Options::default()
    };
    let store = Store::create(&directory.path().join("store"), &options).expect("a store");
    let mut source = ClusterSource::default();
    source.owners.set(slot(), Some(0));
    store.set_cluster_source(&source, |_| true).expect("room");
    test(&store, &Routes::of(&store).expect("a whole store"));
}

fn slot() -> u16 {
    key_slot(b"{t}")
}

#[test]
fn key_of_a_moving_slot_belongs_to_the_lane_that_has_changed_it() {
    with_routes(|store, routes| {
        let key = b"{t}a";
        let answer = |lane, kind| routes.answer(lane, key, kind, 10);
        assert_eq!(answer(0, Kind::Change), Answer::Applies);
        assert_eq!(answer(1, Kind::Change), Answer::Unknown);
        let required = std::cell::Cell::new(None);
        let require = |lane| required.set(Some(lane));
        begin_move(routes, slot(), 1, &require).expect("room");
        let recorded = store.cluster_source().expect("a whole store");
        assert_eq!(recorded.expect("a cluster").moving, [(slot(), 1)]);
        // The new lane has not changed the key: its removal is none of this key.
        assert_eq!(answer(1, Kind::Removal), Answer::DoesNot);
        assert_eq!(answer(0, Kind::Removal), Answer::Applies);
        let before = routes.version(0);
        assert_eq!(answer(1, Kind::Arrival), Answer::AppliesAnew);
        assert_ne!(routes.version(0), before, "the old owner decides again");
        // Until it is committed, each attempt replaces the old value.
        assert_eq!(answer(1, Kind::Change), Answer::AppliesAnew);
        routes.note_committed([key.to_vec()].iter());
        assert_eq!(answer(1, Kind::Change), Answer::Applies);
        assert_eq!(answer(1, Kind::Removal), Answer::Applies);
        // Late changes of the old owner, and its removal, do not apply.
        assert_eq!(answer(0, Kind::Removal), Answer::DoesNot);
        assert_eq!(answer(0, Kind::Change), Answer::Unknown);
        routes.note_foreign(0, slot(), 10);
        assert_eq!(answer(0, Kind::Change), Answer::DoesNot);
        assert_eq!(routes.answer(0, key, Kind::Change, 11), Answer::Unknown);
        // Other keys of the slot are still those of the old owner.
        assert_eq!(routes.answer(0, b"{t}b", Kind::Change, 9), Answer::Applies);
        let third = begin_move(routes, slot(), 2, &require);
        assert!(matches!(third, Err(FollowError::MovesOn(_))), "{third:?}");
        assert_eq!(required.get(), None);
    });
}

#[test]
fn doubtful_slot_moves_only_with_a_data_set() {
    with_routes(|store, routes| {
        let doubt = |rerouting: &mut Rerouting<'_>| {
            rerouting.doubt(slot(), 1);
            Ok(())
        };
        routes.change(doubt).expect("room");
        let recorded = store.cluster_source().expect("a whole store");
        assert_eq!(recorded.expect("a cluster").doubtful, [(slot(), 1)]);
        // The owner's removals can be those of a master that has given the slot away.
        let answer = |kind, place| routes.answer(0, b"{t}a", kind, place);
        assert_eq!(answer(Kind::Change, 5), Answer::Applies);
        assert_eq!(answer(Kind::Removal, 5), Answer::Unknown);
        routes.note_owned(0, slot(), 5);
        assert_eq!(answer(Kind::Removal, 5), Answer::Applies);
        assert_eq!(answer(Kind::Removal, 6), Answer::Unknown);
        let required = std::cell::Cell::new(None);
        begin_move(routes, slot(), 1, &|lane| required.set(Some(lane))).expect("room");
        assert_eq!(required.get(), Some(1));
    });
}

#[test]
fn decisions_of_an_earlier_version_are_not_committed() {
    with_routes(|_, routes| {
        let version = routes.version(0);
        let mut runs = 0;
        let mut commit = |version| {
            let mut run = || {
                runs += 1;
                Ok(())
            };
            routes.commit(0, version, &mut run).expect("room")
        };
        assert!(commit(version));
        begin_move(routes, slot(), 1, &|_| {}).expect("room");
        assert!(!commit(version) && commit(routes.version(0)));
        assert_eq!(runs, 2);
    });
}
