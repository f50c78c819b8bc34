//! Tests the guarantees that channels give to producers and consumers, which are threads with
//! separate handles.

use std::thread;
use std::time::Duration;

use undercroft_engine::channels::{Channel, Received, Sent};
use undercroft_engine::waiting::{Answer, Look, Looked, Take, WaitOutcome, Waiters, Wanted};
use undercroft_engine::{Ranges, Store};
use undercroft_testkit::fresh;

/// A timeout that expires only if a test fails.
const LONG: Duration = Duration::from_secs(60);

fn wanted<'w>(keys: &'w [&'w [u8]; 2], look: Look) -> Wanted<'w> {
    Wanted {
        database: 0,
        keys,
        take: Take::Look(look),
    }
}

fn receive(store: &Store, jobs: &Channel) -> Received {
    let mut out = Ranges::new();
    store
        .receive(0, jobs, 1, &|_| true, &mut out)
        .expect("room")
}

fn waits(
    waiters: &mut Waiters<&Store>,
    jobs: &Channel,
    look: Look,
) -> undercroft_engine::waiting::Ticket {
    match waiters.begin(&wanted(&jobs.looked_at(), look)) {
        Ok(WaitOutcome::Waiting(ticket)) => ticket,
        other => panic!("expected to wait, got {other:?}"),
    }
}

#[test]
fn change_wakes_the_first_waiter_whose_next_call_wakes_the_second() {
    let (_directory, store) = fresh::store(2);
    let jobs = Channel::new(b"jobs");
    let mut waiters = Waiters::new(&store);
    let tickets = [0; 3].map(|_| waits(&mut waiters, &jobs, Look::Item));
    store.send(0, &jobs, 9, &[b"one", b"two"]).expect("room");
    assert_eq!(waiters.answered(true).expect("a list"), tickets[..1]);
    assert_eq!(
        waiters.finish(tickets[0]).expect("room"),
        Some(Answer::Ready)
    );
    assert_eq!(receive(&store, &jobs), Received::Some);
    assert_eq!(waiters.answered(true).expect("a list"), tickets[1..2]);
    // This client leaves after it was woken but before it pops anything, so the next client is
    // woken instead.
    waiters.give_up(tickets[1]);
    assert_eq!(waiters.answered(true).expect("a list"), tickets[2..]);
    assert_eq!(
        waiters.finish(tickets[2]).expect("room"),
        Some(Answer::Ready)
    );
    assert_eq!(receive(&store, &jobs), Received::Some);
    assert_eq!(receive(&store, &jobs), Received::Empty);
    assert!(store.waits().expect("sound").is_empty());
}

#[test]
fn waiter_for_an_item_does_not_block_waiter_for_room() {
    let (_directory, store) = fresh::store(2);
    let jobs = Channel::new(b"jobs");
    let mut waiters = Waiters::new(&store);
    let item = waits(&mut waiters, &jobs, Look::Item);
    store.send(0, &jobs, 1, &[b"one"]).expect("room");
    let room = waits(&mut waiters, &jobs, Look::Room(1));
    assert_eq!(waiters.answered(true).expect("a list"), [item]);
    assert_eq!(receive(&store, &jobs), Received::Some);
    assert_eq!(waiters.answered(true).expect("a list"), [item, room]);
}

#[test]
fn waiter_with_a_higher_limit_finds_room_before_earlier_waiters() {
    let (_directory, store) = fresh::store(2);
    let jobs = Channel::new(b"jobs");
    let mut waiters = Waiters::new(&store);
    store.send(0, &jobs, 3, &[b"1", b"2", b"3"]).expect("room");
    let _few = waits(&mut waiters, &jobs, Look::Room(1));
    let many = waits(&mut waiters, &jobs, Look::Room(3));
    assert_eq!(receive(&store, &jobs), Received::Some);
    assert_eq!(waiters.answered(true).expect("a list"), [many]);
}

#[test]
fn waiter_far_back_in_the_queue_finds_room_by_itself() {
    let (_directory, store) = fresh::store(2);
    let jobs = Channel::new(b"jobs");
    let mut waiters = Waiters::new(&store);
    for _ in 0..100 {
        waits(&mut waiters, &jobs, Look::Item);
    }
    store.send(0, &jobs, 1, &[b"one"]).expect("room");
    let room = waits(&mut waiters, &jobs, Look::Room(1));
    assert_eq!(receive(&store, &jobs), Received::Some);
    waiters.tend();
    assert!(waiters.answered(true).expect("a list").contains(&room));
}

#[test]
fn closing_wakes_all_waiters() {
    let (_directory, store) = fresh::store(2);
    let jobs = Channel::new(b"jobs");
    let mut waiters = Waiters::new(&store);
    let tickets = [0; 3].map(|_| waits(&mut waiters, &jobs, Look::Item));
    store.set(0, jobs.looked_at()[1], b"1").expect("room");
    assert_eq!(waiters.answered(true).expect("a list"), tickets);
    assert_eq!(receive(&store, &jobs), Received::Closed);
    assert_eq!(
        store.send(0, &jobs, 9, &[b"late"]).expect("room"),
        Sent::Closed
    );
    let looked = store.look_at_channel(0, &jobs, Look::Room(9));
    assert_eq!(looked.expect("readable"), Looked::Closed);
}

#[test]
fn refused_messages_stay_in_the_channel() {
    let (_directory, store) = fresh::store(2);
    let jobs = Channel::new(b"jobs");
    store.send(0, &jobs, 9, &[b"a", b"b", b"x"]).expect("room");
    let accepts = |item: &[u8]| item != b"x";
    let mut out = Ranges::new();
    let received = store.receive(0, &jobs, 9, &accepts, &mut out);
    assert_eq!(received.expect("room"), Received::Refused(2));
    let received = store.receive(0, &jobs, 2, &accepts, &mut out);
    assert_eq!(received.expect("room"), Received::Some);
    assert_eq!(out.iter().collect::<Vec<_>>(), [b"a", b"b"]);
    let (held, _) = store
        .receive_and_hold(0, &jobs, 1, &accepts, &mut out)
        .expect("room");
    assert_eq!(held, Received::Refused(0));
    assert_eq!(store.keys(0), 1, "nothing is held");
}

#[test]
fn only_messages_held_by_dead_consumers_go_back_and_in_order() {
    let place = fresh::place(2);
    let (first, second) = (place.open(), place.open());
    let jobs = Channel::new(b"jobs");
    first
        .send(0, &jobs, 9, &[b"1", b"2", b"3", b"4"])
        .expect("room");
    let mut out = Ranges::new();
    for _ in 0..2 {
        let held = first.receive_and_hold(0, &jobs, 1, &|_| true, &mut out);
        assert_eq!(held.expect("room").0, Received::Some);
    }
    let (_, own) = second
        .receive_and_hold(0, &jobs, 1, &|_| true, &mut out)
        .expect("room");
    assert_eq!(out.get(0), b"3");
    assert_eq!(second.recall(0, &jobs).expect("room"), 0, "both live");
    drop(first);
    assert_eq!(second.recall(0, &jobs).expect("room"), 2);
    second
        .receive(0, &jobs, 9, &|_| true, &mut out)
        .expect("room");
    assert_eq!(out.iter().collect::<Vec<_>>(), [b"1", b"2", b"4"]);
    assert!(second.end_hold(0, &jobs, &own, b"3", true).expect("room"));
    assert!(!second.end_hold(0, &jobs, &own, b"3", true).expect("room"));
    assert_eq!(receive(&second, &jobs), Received::Some);
}

#[test]
fn concurrent_threads_take_each_message_once() {
    const EACH: u64 = 2_000;
    let place = fresh::place(2);
    let jobs = Channel::new(b"jobs");
    let wait = |store: &Store, look| {
        let keys = jobs.looked_at();
        let answer = store.take_or_wait(&wanted(&keys, look), Some(LONG));
        assert_eq!(answer.expect("no error"), Answer::Ready);
    };
    let produce = |first: u64| {
        let store = place.open();
        for number in first * EACH..(first + 1) * EACH {
            while store
                .send(0, &jobs, 3, &[&number.to_le_bytes()])
                .expect("room")
                == Sent::Full
            {
                wait(&store, Look::Room(3));
            }
        }
    };
    let consume = || {
        let (store, mut all, mut out) = (place.open(), Vec::new(), Ranges::new());
        loop {
            let received = store.receive(0, &jobs, 2, &|_| true, &mut out);
            match received.expect("room") {
                Received::Some => all.extend(
                    out.iter()
                        .map(|item| u64::from_le_bytes(item.try_into().expect("a number"))),
                ),
                Received::Closed => return all,
                _ => wait(&store, Look::Item),
            }
        }
    };
    let mut taken: Vec<u64> = thread::scope(|scope| {
        let consumers = [0; 2].map(|_| scope.spawn(consume));
        let producers = [0, 1].map(|first| scope.spawn(move || produce(first)));
        for producer in producers {
            producer.join().expect("no panic");
        }
        let closed = jobs.looked_at()[1];
        place.open().set(0, closed, b"1").expect("room");
        let taken = consumers.map(|consumer| consumer.join().expect("no panic"));
        taken.into_iter().flatten().collect()
    });
    taken.sort_unstable();
    assert!(taken.into_iter().eq(0..2 * EACH));
}
