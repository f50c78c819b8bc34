//! Tests batches of commands: all fast commands of a batch see the same time, and a slow command
//! reads the clock again.

use std::time::{SystemTime, UNIX_EPOCH};

use undercroft_commands::reply::{Recorder, Tree};
use undercroft_commands::{Context, execute};

use super::Client;

fn run(context: &mut Context<'_>, words: &[&[u8]]) -> Tree {
    let mut reply = Recorder::new();
    execute(context, words, &mut reply).expect("no process holds a lock");
    let mut replies = reply.finish().expect("a whole reply");
    replies.pop().expect("one reply")
}

/// Returns the milliseconds in the ID of a new stream entry, which are the store's current time.
fn time(context: &mut Context<'_>) -> u128 {
    let id = match run(context, &[b"XADD", b"s", b"*", b"f", b"v"]) {
        Tree::Bulk(id) => String::from_utf8(id).expect("an id"),
        other => panic!("expected an id, got {other:?}"),
    };
    let (milliseconds, _) = id.split_once('-').expect("two numbers");
    milliseconds.parse().expect("a number")
}

fn let_pass(milliseconds: u128) {
    let now = || SystemTime::now().duration_since(UNIX_EPOCH);
    while now().is_ok_and(|now| now.as_millis() <= milliseconds) {}
}

#[test]
fn fast_commands_of_a_batch_share_a_time_and_a_slow_one_reads_the_clock() {
    let mut client = Client::new(None);
    let mut context = Context::new(&mut client.session, client.host.host(), &client.store);
    context.begin_batch();
    let first = time(&mut context);
    let_pass(first);
    assert_eq!(time(&mut context), first);
    run(&mut context, &[b"SET", b"k", b"v", b"PX", b"100000"]);
    let Tree::Integer(deadline) = run(&mut context, &[b"PEXPIRETIME", b"k"]) else {
        panic!("no deadline");
    };
    assert!(deadline as u128 - 100_000 > first, "{deadline}");
    let behind_slow = time(&mut context);
    assert!(behind_slow > first, "{behind_slow} behind {first}");
    let_pass(behind_slow);
    context.end_batch();
    let outside = time(&mut context);
    assert!(outside > behind_slow, "{outside} behind {behind_slow}");
    let_pass(outside);
    assert!(time(&mut context) > outside);
}
