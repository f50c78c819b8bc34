//! Sends pipelines of reading commands over a socket. In the middle of a read, the store changes
//! from one state to another.

use undercroft_commands::table::{Flag, resolve_name};
use undercroft_resp::Value;
use undercroft_testkit::fresh;
use undercroft_testkit::race::{Answers, CASES, Interruption, Stage, World, words};

use crate::is_full;
use crate::served::{Connection, Served};

/// The number of pairs of states to test for each call in a partial run.
const SOME: usize = 8;
/// The number of pairs of states to test for each call in a full run.
const MOST: usize = 200;
/// The number of commands in each pipeline, which is large enough for prefetching.
const PIPELINE: usize = 4;

/// Returns the calls that only read and whose replies are deterministic.
fn calls() -> Vec<Vec<Vec<u8>>> {
    let cases = CASES
        .iter()
        .filter(|case| matches!(case.answers, Answers::Exact));
    let lines = cases.flat_map(|case| case.lines.iter().map(|line| words(line)));
    let reads = |words: &Vec<Vec<u8>>| {
        let words: Vec<&[u8]> = words.iter().map(Vec::as_slice).collect();
        resolve_name(&words).is_ok_and(|command| command.flags.has(Flag::ReadOnly))
    };
    lines.filter(reads).collect()
}

fn stage() -> Stage {
    let stage = Stage::new(4);
    let served = Served::start(stage.open(true));
    let mut connection = Connection::new(&served.socket(), 2);
    stage.fill(|_, database, command| {
        let database = database.to_string();
        let select: &[&[u8]] = &[b"SELECT", database.as_bytes()];
        let replies = connection.pipeline(&[select, command]).expect("replies");
        assert!(!matches!(replies[1], Value::Error(_)), "{replies:?}");
    });
    stage
}

#[test]
fn replies_contain_no_bytes_of_an_abandoned_attempt() {
    let seed = fresh::seed();
    let mut random = fastrand::Rng::with_seed(seed);
    let stage = stage();
    let store = stage.open(true);
    store.interrupt_reads(Some(stage.hook()));
    let served = Served::start(store);
    let (mut calls_made, mut interrupted, mut wrong) = (0, 0, Vec::new());
    for version in [2, 3] {
        let mut connection = Connection::new(&served.socket(), version);
        for call in calls() {
            let call: Vec<&[u8]> = call.iter().map(Vec::as_slice).collect();
            let pipeline = [call.as_slice(); PIPELINE];
            let all = stage.states.len();
            for _ in 0..if is_full() { MOST } else { SOME } {
                let [from, to] = [0, 1].map(|_| random.usize(..all));
                // Swap the states of the two keys.
                let (from, to): (World, World) = ([from, to], [to, from]);
                stage.enter(to);
                let fresh = connection.pipeline(&pipeline);
                stage.enter(from);
                stage.interrupt(Interruption::Tries(0, vec![to]));
                let replies = connection.pipeline(&pipeline);
                interrupted += stage.calm().0;
                calls_made += 1;
                if replies != fresh {
                    let names = (stage.name(from), stage.name(to));
                    let call = call.iter().map(|word| String::from_utf8_lossy(word));
                    let cut = |text: String| text.chars().take(150).collect::<String>();
                    wrong.push(format!(
                        "{} by RESP{version}, {} to {}: expected {}, got {}",
                        call.collect::<Vec<_>>().join(" "),
                        names.0,
                        names.1,
                        cut(format!("{fresh:?}")),
                        cut(format!("{replies:?}"))
                    ));
                    if replies.is_err() {
                        connection = Connection::new(&served.socket(), version);
                    }
                }
            }
        }
    }
    println!(
        "races: {calls_made} pipelines over a socket, {interrupted} of them thrown away; seed {seed}"
    );
    assert!(
        interrupted * 2 > calls_made,
        "only {interrupted} of {calls_made} were interrupted"
    );
    let first: Vec<&String> = wrong.iter().take(10).collect();
    assert!(
        wrong.is_empty(),
        "{} wrong answers (seed {seed}), such as {first:#?}",
        wrong.len()
    );
}
