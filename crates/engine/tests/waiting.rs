//! Tests clients that wait for keys, including their order, their deaths, waits for several keys,
//! and keys of other types.

use std::thread;
use std::time::Duration;

use undercroft_engine::lists::End;
use undercroft_engine::messages::Topic;
use undercroft_engine::sorted_sets::AddRule;
use undercroft_engine::waiting::{Answer, Take, Taken, Ticket, WaitOutcome, Waiters, Wanted};
use undercroft_engine::{Error, PackedLimits, Ranges, Store};
use undercroft_testkit::fresh::{self, Place};

const LEFT: Take = Take::Items {
    end: End::Left,
    count: 1,
};

fn wanted<'w>(keys: &'w [&'w [u8]], take: Take) -> Wanted<'w> {
    Wanted {
        database: 0,
        keys,
        take,
    }
}

fn wait(waiters: &mut Waiters<&Store>, keys: &[&[u8]], take: Take) -> Ticket {
    match waiters.begin(&wanted(keys, take)).expect("room") {
        WaitOutcome::Waiting(ticket) => ticket,
        WaitOutcome::Answered(answer) => panic!("expected to wait, got {answer:?}"),
    }
}

fn push(store: &Store, key: &[u8], items: &[&[u8]]) {
    store.list_push(0, key, End::Right, items).expect("room");
}

fn items(store: &Store, key: &[u8]) -> Vec<Vec<u8>> {
    let mut out = Ranges::new();
    store.list_range(0, key, 0, -1, &mut out).expect("a list");
    out.iter().map(<[u8]>::to_vec).collect()
}

fn taken(key: &[u8], items: &[&[u8]]) -> Option<Answer> {
    let mut taken = Taken {
        key: key.to_vec(),
        ..Taken::default()
    };
    items.iter().for_each(|item| taken.items.push(item));
    Some(Answer::Taken(taken))
}

/// Checks that the store is sound and that only keys use memory.
fn check(store: &Store) {
    let problems = store.check().expect("no lock is held").problems;
    assert!(problems.is_empty(), "{problems:?}");
    store.flush_all(true).expect("room");
    assert_eq!(store.used_memory(), 0);
}

#[test]
fn pushed_item_goes_to_the_longest_waiter() {
    let place = fresh::place(8);
    let (store, other) = (place.open(), place.open());
    let (mut here, mut there) = (Waiters::new(&store), Waiters::new(&other));
    let mut tickets = Vec::new();
    for _ in 0..100 {
        tickets.push((
            wait(&mut here, &[b"k"], LEFT),
            wait(&mut there, &[b"k"], LEFT),
        ));
    }
    let texts: Vec<String> = (0..150).map(|number| number.to_string()).collect();
    for some in texts.chunks(7) {
        let some: Vec<&[u8]> = some.iter().map(String::as_bytes).collect();
        push(&store, b"k", &some);
        assert!(items(&store, b"k").is_empty());
    }
    assert_eq!(here.answered(false).expect("a list").len(), 75);
    for (number, (one, next)) in tickets.iter().enumerate() {
        for (text, answer) in [
            (2 * number, here.finish(*one).expect("no lock is held")),
            (
                2 * number + 1,
                there.finish(*next).expect("no lock is held"),
            ),
        ] {
            let expected = texts
                .get(text)
                .and_then(|text| taken(b"k", &[text.as_bytes()]));
            assert_eq!(answer, expected, "{text}");
        }
    }
    drop((here, there));
    push(&store, b"k", &[b"left"]);
    assert_eq!(items(&store, b"k"), [b"left"]);
    check(&store);
}

#[test]
fn keys_are_tried_in_the_order_given() {
    let place = fresh::place(8);
    let store = place.open();
    let mut waiters = Waiters::new(&store);
    for keys in [[b"a", b"b"], [b"b", b"a"]] {
        push(&store, b"b", &[b"of b"]);
        push(&store, b"a", &[b"of a"]);
        let keys: Vec<&[u8]> = keys.iter().map(|key| &key[..]).collect();
        for key in &keys {
            match waiters.begin(&wanted(&keys, LEFT)).expect("room") {
                WaitOutcome::Answered(Answer::Taken(found)) => assert_eq!(found.key, *key),
                other => panic!("{other:?}"),
            }
        }
    }
    let ticket = wait(&mut waiters, &[b"a", b"b", b"a"], LEFT);
    let behind = wait(&mut waiters, &[b"b"], LEFT);
    push(&store, b"b", &[b"1", b"2", b"3"]);
    push(&store, b"a", &[b"4"]);
    assert_eq!(
        waiters.finish(behind).expect("answered"),
        taken(b"b", &[b"2"])
    );
    assert_eq!(
        waiters.finish(ticket).expect("answered"),
        taken(b"b", &[b"1"])
    );
    assert_eq!(items(&store, b"a"), [b"4"]);
    assert_eq!(items(&store, b"b"), [b"3"]);
    drop(waiters);
    check(&store);
}

#[test]
fn moved_item_goes_to_the_waiter_at_the_destination() {
    let place = fresh::place(8);
    let store = place.open();
    let take = Take::Move {
        from: End::Left,
        to: End::Right,
    };
    // Try all pairs of eight keys, so that the destination's shard is below the source's shard in
    // some pairs and above it in others.
    let keys: Vec<String> = (0..8).map(|number| format!("key:{number}")).collect();
    let mut waiters = Waiters::new(&store);
    for from in &keys {
        for to in &keys {
            let (from, to) = (from.as_bytes(), to.as_bytes());
            let mover = wait(&mut waiters, &[from, to], take);
            let taker = wait(&mut waiters, &[to], LEFT);
            push(&store, from, &[b"item"]);
            let answer = waiters.finish(mover).expect("answered");
            assert_eq!(answer, taken(from, &[b"item"]));
            let answer = waiters.finish(taker).expect("answered");
            assert_eq!(answer, taken(to, &[b"item"]));
            assert!(items(&store, from).is_empty() && items(&store, to).is_empty());
        }
    }
    drop(waiters);
    check(&store);
}

#[test]
fn destination_of_another_type_ends_the_wait_and_keeps_the_item() {
    let place = fresh::place(8);
    let store = place.open();
    let mut waiters = Waiters::new(&store);
    let take = Take::Move {
        from: End::Left,
        to: End::Left,
    };
    let ticket = wait(&mut waiters, &[b"from", b"to"], take);
    let behind = wait(&mut waiters, &[b"from"], LEFT);
    store.set(0, b"to", b"text").expect("room");
    push(&store, b"from", &[b"item"]);
    let answer = waiters.finish(ticket).expect("answered");
    assert_eq!(answer, Some(Answer::WrongType));
    assert_eq!(
        waiters.finish(behind).expect("answered"),
        taken(b"from", &[b"item"])
    );
    drop(waiters);
    check(&store);
}

#[test]
fn waiter_outlasts_a_key_of_another_type() {
    let place = fresh::place(8);
    let store = place.open();
    let mut waiters = Waiters::new(&store);
    let lowest = Take::Scored {
        highest: false,
        count: 2,
    };
    let listed = wait(&mut waiters, &[b"k"], LEFT);
    let scored = wait(&mut waiters, &[b"k"], lowest);
    store.set(0, b"k", b"text").expect("room");
    let refused = waiters.begin(&wanted(&[b"k"], LEFT));
    assert!(matches!(refused, Err(Error::WrongType)), "{refused:?}");
    store.delete(0, &[b"k"]).expect("room");
    let key = store.key(b"k");
    store
        .write(store.shards_of(&[key]), |writer| {
            let members: [(&[u8], f64); 3] = [(b"a", 1.5), (b"b", -2.0), (b"c", 3.0)];
            let (rule, limits) = (AddRule::default(), PackedLimits::SORTED_SET);
            writer.sorted_add(0, &key, &members, rule, &limits)
        })
        .expect("room");
    assert_eq!(waiters.finish(listed).expect("a look"), None);
    let Some(Answer::Taken(found)) = waiters.finish(scored).expect("answered") else {
        panic!("expected two members");
    };
    assert_eq!(found.items.iter().collect::<Vec<_>>(), [b"b", b"a"]);
    assert_eq!(found.scores, [-2.0, 1.5]);
    store.delete(0, &[b"k"]).expect("room");
    push(&store, b"k", &[b"item"]);
    assert_eq!(
        waiters.finish(listed).expect("answered"),
        taken(b"k", &[b"item"])
    );
    drop(waiters);
    check(&store);
}

/// Many clients wait for entries ahead of a client that reads with a group. The key then expires,
/// so no writer serves the queue.
#[test]
fn group_reader_learns_that_its_stream_has_expired() {
    let place = fresh::place(8);
    let store = place.open();
    let (key, other) = (store.key(b"k"), store.key(b"other"));
    for key in [&key, &other] {
        store
            .write(store.shards_of(&[*key]), |writer| {
                writer.stream_create_group(0, key, b"g", (None, -1), true)
            })
            .expect("room");
    }
    let mut waiters = Waiters::new(&store);
    let behind = [0xff; 16];
    let entries = Take::Entries { count: 1 };
    let readers: Vec<Ticket> = (0..100)
        .map(|_| wait(&mut waiters, &[b"k", &behind], entries))
        .collect();
    let deliver = Take::Deliver {
        count: 1,
        acknowledged: true,
    };
    let ticket = wait(&mut waiters, &[b"other", b"k", b"g", b"c"], deliver);
    waiters.tend();
    assert_eq!(waiters.finish(ticket).expect("a look"), None, "it exists");
    store
        .write(store.shards_of(&[key]), |writer| {
            writer.set_expiry(0, &key, Some(1))
        })
        .expect("room");
    waiters.tend();
    let answer = waiters.finish(ticket).expect("answered");
    assert_eq!(answer, Some(Answer::NoStream));
    for reader in readers {
        assert_eq!(waiters.finish(reader).expect("a look"), None);
    }
    drop(waiters);
    check(&store);
}

#[test]
fn items_given_to_a_dead_client_return_to_their_place() {
    let place = fresh::place(8);
    let three = |end| Take::Items { end, count: 3 };
    for end in [End::Left, End::Right] {
        let (dying, pusher) = (place.open(), place.open());
        let mut dead = std::mem::ManuallyDrop::new(Waiters::new(&dying));
        wait(&mut dead, &[b"k", b"other"], three(end));
        wait(&mut dead, &[b"other"], three(end));
        push(&pusher, b"k", &[b"1", b"2", b"3", b"4"]);
        assert_eq!(items(&pusher, b"k").len(), 1);
        dying.abandon();
        // Open a new handle, which has not cached the dead process as alive.
        let store = place.open();
        let mut waiters = Waiters::new(&store);
        let answer = match waiters.begin(&wanted(&[b"k"], LEFT)).expect("room") {
            WaitOutcome::Answered(answer) => Some(answer),
            WaitOutcome::Waiting(ticket) => waiters.finish(ticket).expect("answered"),
        };
        assert_eq!(answer, taken(b"k", &[b"1"]));
        assert_eq!(items(&store, b"k"), [b"2", b"3", b"4"]);
        store.delete(0, &[b"k"]).expect("room");
        store.free_all_of_the_dead().expect("no lock is held");
        push(&store, b"other", &[b"kept"]);
        assert_eq!(items(&store, b"other"), [b"kept"]);
        store.delete(0, &[b"other"]).expect("room");
    }
    check(&place.open());
}

#[test]
fn items_given_to_dead_clients_return_in_order() {
    let place = fresh::place(8);
    for end in [End::Left, End::Right] {
        for by_upkeep in [false, true] {
            let (dying, pusher) = (place.open(), place.open());
            for _ in 0..3 {
                let mut dead = std::mem::ManuallyDrop::new(Waiters::new(&dying));
                wait(&mut dead, &[b"k"], Take::Items { end, count: 2 });
            }
            let mut pushed: Vec<&[u8]> = vec![b"1", b"2", b"3", b"4", b"5", b"6", b"7"];
            push(&pusher, b"k", &pushed);
            assert_eq!(items(&pusher, b"k").len(), 1);
            dying.abandon();
            // Open a new handle, which has not cached the dead process as alive.
            let store = place.open();
            if by_upkeep {
                store.free_all_of_the_dead().expect("no lock is held");
            } else {
                push(&store, b"k", &[b"8"]);
                pushed.push(b"8");
            }
            assert_eq!(items(&store, b"k"), pushed, "{end:?}");
            store.delete(0, &[b"k"]).expect("room");
        }
    }
    check(&place.open());
}

#[test]
fn item_returns_once_its_key_holds_a_list_again() {
    let place = fresh::place(8);
    let (store, other) = (place.open(), place.open());
    let mut waiters = Waiters::new(&store);
    let ticket = wait(&mut waiters, &[b"k"], LEFT);
    push(&other, b"k", &[b"item"]);
    other.set(0, b"k", b"text").expect("room");
    waiters.give_up(ticket);
    // The wait has been removed from the list of answered waits.
    assert_eq!(waiters.answered(false).expect("a list"), []);
    other.delete(0, &[b"k"]).expect("room");
    // Use a new handle, which has not just checked this shard for items of dead clients.
    assert_eq!(items(&place.open(), b"k"), [b"item"]);
    drop(waiters);
    check(&store);
}

#[test]
fn wait_ends_by_timeout_by_another_client_and_by_its_owner() {
    let place = fresh::place(8);
    let store = place.open();
    let short = Some(Duration::from_millis(3));
    let answer = store.take_or_wait(&wanted(&[b"k"], LEFT), short);
    assert_eq!(answer.expect("a wait"), Answer::TimedOut);
    let mut waiters = Waiters::new(&store);
    for (with_error, expected) in [(false, Answer::TimedOut), (true, Answer::Unblocked)] {
        let ticket = wait(&mut waiters, &[b"k", b"l"], LEFT);
        assert!(store.unblock(ticket, with_error).expect("room"));
        assert!(!store.unblock(ticket, with_error).expect("room"));
        push(&store, b"k", &[b"item"]);
        assert_eq!(waiters.answered(false).expect("a list"), [ticket]);
        assert_eq!(waiters.finish(ticket).expect("answered"), Some(expected));
        assert_eq!(items(&store, b"k"), [b"item"]);
        store.delete(0, &[b"k"]).expect("room");
    }
    let (first, second) = (
        wait(&mut waiters, &[b"k"], LEFT),
        wait(&mut waiters, &[b"k"], LEFT),
    );
    push(&store, b"k", &[b"item"]);
    waiters.give_up(first);
    assert_eq!(
        waiters.leave(second).expect("answered"),
        taken(b"k", &[b"item"])
    );
    let last = wait(&mut waiters, &[b"k"], LEFT);
    assert_eq!(waiters.leave(last).expect("a look"), None);
    drop(waiters);
    check(&store);
}

#[test]
fn every_change_that_puts_a_list_at_a_key_serves_its_waiters() {
    let place = fresh::place(8);
    let store = place.open();
    let mut waiters = Waiters::new(&store);
    let (from, to) = (store.key(b"from"), store.key(b"to"));
    let both = store.shards_of(&[from, to]);
    type Change<'c> = &'c dyn Fn();
    let changes: [(usize, Change<'_>); 4] = [
        (0, &|| {
            store
                .write(both, |writer| writer.rename(0, &from, &to))
                .expect("room");
        }),
        (0, &|| {
            store
                .write(both, |writer| writer.copy((0, &from), (0, &to)))
                .expect("room");
            store.delete(0, &[b"from"]).expect("room");
        }),
        (3, &|| {
            store
                .write(both, |writer| {
                    writer.rename(0, &from, &to)?;
                    writer.move_to(&to, 0, 3)
                })
                .expect("room");
        }),
        (3, &|| {
            store
                .write(both, |writer| writer.rename(0, &from, &to))
                .expect("room");
            let all = store.all_shards();
            store
                .write(all, |writer| writer.swap_databases(0, 3))
                .expect("room");
        }),
    ];
    for (number, (database, change)) in changes.into_iter().enumerate() {
        let wanted = Wanted {
            database,
            ..wanted(&[b"to"], LEFT)
        };
        let WaitOutcome::Waiting(ticket) = waiters.begin(&wanted).expect("room") else {
            panic!("expected to wait");
        };
        push(&store, b"from", &[b"item"]);
        change();
        let answer = waiters.finish(ticket).expect("answered");
        assert_eq!(answer, taken(b"to", &[b"item"]), "change {number}");
    }
    drop(waiters);
    check(&store);
}

#[test]
fn threads_of_two_processes_share_the_pushed_items() {
    const EACH: usize = 500;
    let place = fresh::place(8);
    let (store, other) = (place.open(), place.open());
    let all: Vec<Vec<u8>> = thread::scope(|scope| {
        let takers: Vec<_> = [&store, &other, &store, &other]
            .into_iter()
            .map(|store| {
                scope.spawn(move || {
                    let take = || match store.take_or_wait(&wanted(&[b"k"], LEFT), None) {
                        Ok(Answer::Taken(taken)) => taken.items.get(0).to_vec(),
                        other => panic!("{other:?}"),
                    };
                    (0..EACH).map(|_| take()).collect::<Vec<_>>()
                })
            })
            .collect();
        for number in 0..4 * EACH {
            let pusher = [&store, &other][number % 2];
            push(pusher, b"k", &[number.to_string().as_bytes()]);
        }
        let taken = takers
            .into_iter()
            .flat_map(|taker| taker.join().expect("no panic"));
        taken.collect()
    });
    let mut numbers: Vec<usize> = all
        .iter()
        .map(|text| String::from_utf8_lossy(text).parse().expect("a number"))
        .collect();
    numbers.sort_unstable();
    assert_eq!(numbers, (0..4 * EACH).collect::<Vec<_>>());
    check(&store);
}

#[test]
fn wait_ends_when_the_file_is_gone() {
    for replaced in [false, true] {
        let place = fresh::place(8);
        let store = place.open();
        let mut waiters = Waiters::new(&store);
        let ticket = wait(&mut waiters, &[b"k"], LEFT);
        let mut subscriber = store.subscriber();
        let subscribed = subscriber.subscribe(Topic::Channel, &[b"c"]);
        subscribed.expect("room");
        thread::scope(|scope| {
            let popped = scope.spawn(|| store.take_or_wait(&wanted(&[b"k"], LEFT), None));
            let listened = scope.spawn(|| subscriber.next(None).map(drop));
            while store.waits().expect("a look").len() < 2 {
                thread::yield_now();
            }
            let other = fresh::place(8);
            match replaced {
                true => std::fs::rename(&other.path, &place.path),
                false => std::fs::remove_file(&place.path),
            }
            .expect("a file");
            let popped = popped.join().expect("no panic").expect_err("no file");
            assert!(
                popped.to_string().contains("removed or replaced"),
                "{popped}"
            );
            let listened = listened.join().expect("no panic").expect_err("no file");
            assert!(
                listened.to_string().contains("removed or replaced"),
                "{listened}"
            );
        });
        // A wait in an event loop also ends.
        while waiters.answered(true).expect("a list").is_empty() {
            thread::yield_now();
        }
        let answer = waiters.finish(ticket).expect("an answer");
        assert_eq!(answer, Some(Answer::Removed(place.path.clone())));
        while subscriber.try_next_after(true).is_ok() {
            thread::yield_now();
        }
    }
}

/// Creates `clients` clients and an equal number of subscribers, which wait for separate keys and
/// channels, and makes their process die.
fn leave_much(place: &Place, clients: u64) {
    let dying = place.open();
    let mut waiters = std::mem::ManuallyDrop::new(Waiters::new(&dying));
    let mut subscriber = std::mem::ManuallyDrop::new(dying.subscriber());
    for client in 0..clients {
        let names: Vec<Vec<u8>> = (0..60)
            .map(|key| format!("client {client}, key {key}").into_bytes())
            .collect();
        let names: Vec<&[u8]> = names.iter().map(Vec::as_slice).collect();
        wait(&mut waiters, &names, LEFT);
        subscriber.subscribe(Topic::Channel, &names).expect("room");
        subscriber
            .subscribe(Topic::Pattern, &names[..1])
            .expect("room");
    }
    dying.abandon();
}

#[test]
fn waits_of_dead_processes_are_freed_when_memory_is_needed() {
    let place = fresh::place(8);
    leave_much(&place, 40);
    let store = place.open();
    let used = store.used_memory();
    let waiting = store.access().used_by_waiting().expect("a look");
    assert!(
        waiting > used / 2 && waiting < used * 2,
        "{waiting} of {used}"
    );
    // The store is full but contains no keys.
    store.set_max_memory(used / 2).expect("it may write");
    store.check_memory_for(usize::MAX).expect("room");
    assert!(store.used_memory() <= used / 2);
    // The waits of living clients are never freed.
    let mut waiters = Waiters::new(&store);
    wait(&mut waiters, &[b"k"], LEFT);
    store.set_max_memory(1).expect("it may write");
    assert!(matches!(
        store.check_memory_for(usize::MAX),
        Err(Error::MaxMemory)
    ));
    assert_eq!(store.waits().expect("a look").len(), 1);
    drop(waiters);
    store.set_max_memory(0).expect("it may write");
    check(&store);
}

#[test]
fn waits_of_dead_processes_are_freed_in_steps() {
    let place = fresh::place(8);
    leave_much(&place, 40);
    let store = place.open();
    let mut steps = 0;
    while store.used_memory() > 0 {
        steps += 1;
        let freed = store.free_some_of_the_dead().expect("no lock is held");
        // A step frees at most the 64 names that it examines, plus the rest of the last chain.
        assert!(freed.left <= 100, "{freed:?}");
        assert!(steps < 1000, "{} bytes are left", store.used_memory());
    }
    // There are 2,400 channels and 40 clients, and a step examines 64 names.
    assert!(steps > 2400 / 100, "{steps}");
    leave_much(&place, 40);
    // Open a new handle, which has not cached the dead process as alive.
    let store = place.open();
    let freed = store.free_all_of_the_dead().expect("no lock is held");
    assert!(
        freed >= 2400,
        "{freed}, {} bytes are left",
        store.used_memory()
    );
    assert_eq!(store.used_memory(), 0);
    check(&store);
}

#[test]
fn items_of_a_flushed_key_do_not_return() {
    let place = fresh::place(8);
    for databases in [&[0][..], &[1], &[0, 1]] {
        let (dying, store) = (place.open(), place.open());
        let mut dead = std::mem::ManuallyDrop::new(Waiters::new(&dying));
        wait(&mut dead, &[b"k"], LEFT);
        push(&store, b"k", &[b"item"]);
        // The client is alive but has not read the item yet.
        store.flush(databases, true).expect("room");
        dying.abandon();
        let store = place.open();
        let left = items(&store, b"k");
        match databases.contains(&0) {
            true => assert!(left.is_empty(), "{left:?}"),
            false => assert_eq!(left, [b"item"]),
        }
        check(&store);
    }
}
