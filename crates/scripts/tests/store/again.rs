//! Every command on streams, run twice: a script that touches a key of another shard behind it is rolled back and
//! starts anew, and so is one that was short of room. What the runs before have done must be nowhere: another store, in
//! which each command runs by itself, gives the same replies, and holds the same in the end.

use undercroft_commands::reply::Tree;
use undercroft_conformance::command::Command;
use undercroft_conformance::generate::{FAMILIES, Generator};

use crate::host::Embedded;

const COMMANDS: usize = 4000;
/// Commands between two looks at the data.
const LOOK: usize = 200;
const KEYS: &[&str] = &["stream:1", "stream:2", "stream:3"];
/// The keys of other shards come behind the command: all of it has run then, and is thrown away.
const SCRIPT: &str = "\
local reply = redis.pcall(unpack(ARGV))
for index = 1, 32 do redis.call('incr', 'other:' .. index) end
return reply";
/// What a script says of a command that it cannot call at all.
const REFUSED: &[&str] = &[
    "ERR Wrong number of args calling Redis command",
    "ERR Unknown Redis command called",
];

/// A reply as a script hands it on: it has one kind of nothing, no maps, and its integers are floating point numbers.
fn scripted(reply: Tree) -> Tree {
    match reply {
        Tree::NullArray => Tree::Null,
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
    scripted(reply.expect("nobody holds a lock"))
}

/// Whether two replies are the same, as far as a script can call the command.
fn are_same(alone: &Tree, again: &Tree) -> bool {
    let is_refused = |text: &String| REFUSED.iter().any(|start| text.starts_with(start));
    match (alone, again) {
        (Tree::Error(_), Tree::Error(text)) if is_refused(text) => true,
        _ => alone == again,
    }
}

/// The same data in both stores.
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
fn every_command_on_streams_starts_anew_without_a_trace() {
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
        // A script never waits.
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
