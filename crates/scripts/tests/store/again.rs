//! Checks that a stream command leaves no trace when its script is rolled back and restarted. Each
//! script runs the command and then accesses keys of other shards, which restarts the script. A
//! script that ran out of memory is restarted in the same way. In a second store, each command runs
//! once, without a restart. The replies and the final data must be the same in both stores.

use undercroft_commands::reply::Tree;
use undercroft_conformance::command::Command;
use undercroft_conformance::generate::{FAMILIES, Generator};

use crate::host::Embedded;

const COMMANDS: usize = 4000;
/// The number of commands between two comparisons of the stores' data.
const LOOK: usize = 200;
const KEYS: &[&str] = &["stream:1", "stream:2", "stream:3"];
/// The script accesses keys of other shards after the command, so that the command has already run
/// when the script is rolled back.
const SCRIPT: &str = "\
local reply = redis.pcall(unpack(ARGV))
for index = 1, 32 do redis.call('incr', 'other:' .. index) end
return reply";
/// The prefixes of the errors for commands that scripts cannot call.
const REFUSED: &[&str] = &[
    "ERR Wrong number of args calling Redis command",
    "ERR Unknown Redis command called",
];

/// Converts a command's reply to the reply that a script returns for it: null arrays become null,
/// maps become arrays, and integers are converted to floating point and back.
fn scripted(reply: Tree) -> Tree {
    match reply {
        Tree::NullArray => Tree::Null,
        // As in Redis, the nearest float of the largest integers is out of range.
        Tree::Integer(number) if number as f64 >= -(i64::MIN as f64) => Tree::Integer(i64::MIN),
        Tree::Integer(number) => Tree::Integer(number as f64 as i64),
        Tree::Array(items) | Tree::Set(items) => {
            Tree::Array(items.into_iter().map(scripted).collect())
        }
        Tree::Map(pairs) => {
            let items = pairs.into_iter().flat_map(|(key, item)| [key, item]);
            Tree::Array(items.map(scripted).collect())
        }
        other => other,
    }
}

fn run(embedded: &Embedded, words: &[&[u8]]) -> Tree {
    let reply = embedded.client().run_bytes(words);
    scripted(reply.expect("no process holds a lock"))
}

/// Returns whether two replies match. An error always matches if scripts cannot call the command.
fn are_same(alone: &Tree, again: &Tree) -> bool {
    let is_refused = |text: &String| REFUSED.iter().any(|start| text.starts_with(start));
    match (alone, again) {
        (Tree::Error(_), Tree::Error(text)) if is_refused(text) => true,
        _ => alone == again,
    }
}

/// Asserts that both stores contain the same data.
fn compare(alone: &Embedded, again: &Embedded) {
    for key in KEYS {
        for words in [
            &["DUMP", key][..],
            &["XINFO", "STREAM", key, "FULL", "COUNT", "0"],
        ] {
            let bytes: Vec<&[u8]> = words.iter().map(|word| word.as_bytes()).collect();
            assert_eq!(run(alone, &bytes), run(again, &bytes), "{words:?}");
        }
    }
    alone.check();
    again.check();
}

#[test]
fn restarted_stream_commands_leave_no_trace() {
    let seed = std::env::var("UNDERCROFT_SEED").map_or_else(
        |_| fastrand::u64(..1 << 40),
        |seed| seed.parse().expect("a number"),
    );
    println!("seed {seed} (replay with UNDERCROFT_SEED={seed})");
    let streams = FAMILIES.iter().filter(|family| family.name == "streams");
    let streams: Vec<_> = streams.copied().collect();
    assert_eq!(streams.len(), 1, "the family of streams");
    let mut generator = Generator::new(seed, &streams);
    let (alone, again) = (Embedded::of_shards(8), Embedded::of_shards(8));
    let mut done = 0;
    let mut time = 1_700_000_000_000;
    while done < COMMANDS {
        let Command(words) = generator.command();
        // Scripts cannot run blocking commands.
        if words.iter().any(|word| word.eq_ignore_ascii_case(b"BLOCK")) {
            continue;
        }
        done += 1;
        time += 7;
        alone.set_time(time);
        again.set_time(time);
        let words: Vec<&[u8]> = words.iter().map(Vec::as_slice).collect();
        let by_itself = run(&alone, &words);
        let script = [&[b"EVAL", SCRIPT.as_bytes(), b"0"], &words[..]].concat();
        let twice = run(&again, &script);
        assert!(
            are_same(&by_itself, &twice),
            "{}: {by_itself:?}, and run again {twice:?}",
            Command::of(words)
        );
        if done % LOOK == 0 {
            compare(&alone, &again);
        }
    }
    let counted = run(&again, &[b"GET", b"other:32"]);
    assert_eq!(counted, Tree::Bulk(done.to_string().into_bytes()));
}
