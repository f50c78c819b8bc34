//! Kills a process at each step of a script. Afterward, the store must hold either all of the
//! script's changes or none.

use undercroft_commands::config::Config;
use undercroft_commands::context::{Connections, Control, Host, Inbox, Process};
use undercroft_commands::reply::{Recorder, Tree};
use undercroft_commands::scripts::{ScriptLimits, Sha};
use undercroft_commands::session::{Login, Session};
use undercroft_commands::{Context, execute};
use undercroft_engine::Store;
use undercroft_memory::fault::die_after;
use undercroft_testkit::image::Image;
use undercroft_testkit::scenario::{Scenario, Steps, choose_names};
use undercroft_testkit::state::{self, Expected, Outcome};

/// A script that changes keys of several types and declares all of them.
const SEVERAL: &str = "redis.call('set', KEYS[1], 'new') redis.call('rpush', KEYS[2], 'b', 'c') \
                       redis.call('hset', KEYS[3], 'f', 'v') redis.call('pexpire', KEYS[1], 5000) \
                       return redis.call('del', KEYS[4])";
/// A script that changes undeclared keys, so that it is restarted.
const UNDECLARED: &str =
    "for i = 1, 12 do redis.call('incrby', 'count:' .. i, i) end return redis.call('del', 'text')";
/// A script in which a command fails. The changes of the commands before it remain.
const FAILING: &str = "redis.call('set', KEYS[1], 'new') pcall(redis.call, 'incr', KEYS[1]) \
                       redis.call('rpush', KEYS[2], 'b') redis.call('lpush', KEYS[1], 'x') redis.call('del', KEYS[4])";

/// A library with a function that changes two keys.
const LIBRARY: &str = "#!lua name=lib\n\
                       redis.register_function('f', function(keys, args) redis.call('lpush', keys[2], args[1]) \
                       return redis.call('append', keys[1], args[1]) end)";

const KEYS: [&str; 5] = ["4", "text", "list", "hash", "gone"];

/// A host that has no connections.
struct Alone;

impl Connections for Alone {}
impl Inbox for Alone {}
impl Control for Alone {}

/// Runs a command as a separate process of the store.
fn run(store: &Store, words: &[&str]) -> Tree {
    let process = Process::new(Config::new(), 1).with_interpreter(
        Some(undercroft_scripts::interpreter()),
        ScriptLimits::default(),
    );
    let mut session = Session::new(1, Login::trusted(), 0);
    let mut context = Context::new(&mut session, Host::of(&process, &Alone), store);
    let words: Vec<&[u8]> = words.iter().map(|word| word.as_bytes()).collect();
    let mut recorder = Recorder::new();
    execute(&mut context, &words, &mut recorder).expect("no lock is missing");
    let replies = recorder.finish().expect("whole replies");
    replies.into_iter().next().expect("a reply")
}

/// Calls a script by the digest of its text.
fn call(store: &Store, text: &str) -> Tree {
    let sha = Sha::of(text.as_bytes()).to_string();
    let mut words = vec!["EVALSHA", &sha];
    words.extend(KEYS);
    run(store, &words)
}

/// Creates the keys, and loads all scripts except one.
fn prepare(store: &Store) {
    for command in [
        ["SET", "text", "old"],
        ["RPUSH", "list", "a"],
        ["SET", "gone", "x"],
        ["SET", "other", "x"],
    ] {
        run(store, &command);
    }
    for text in [SEVERAL, UNDECLARED, FAILING] {
        load(store, text);
    }
}

fn load(store: &Store, text: &str) {
    let reply = run(store, &["SCRIPT", "LOAD", text]);
    assert!(matches!(reply, Tree::Bulk(_)), "{reply:?}");
}

const fn scenario(name: &'static str, act: fn(&Store)) -> Scenario {
    Scenario {
        name,
        prepare,
        act,
        steps: Steps::Never,
        gradual: false,
        handed: false,
        first: None,
    }
}

const SCENARIOS: [Scenario; 7] = [
    scenario("a script that declares its keys", |store| {
        assert_eq!(call(store, SEVERAL), Tree::Integer(1));
    }),
    scenario("a script that is started again", |store| {
        assert_eq!(call(store, UNDECLARED), Tree::Integer(1));
    }),
    scenario("a script that an error ends", |store| {
        assert!(matches!(call(store, FAILING), Tree::Error(_)));
    }),
    scenario("SCRIPT LOAD", |store| load(store, "return 'loaded'")),
    scenario("FUNCTION LOAD", |store| {
        let reply = run(store, &["FUNCTION", "LOAD", LIBRARY]);
        assert!(matches!(reply, Tree::Bulk(_)), "{reply:?}");
    }),
    Scenario {
        prepare: |store| {
            prepare(store);
            run(store, &["FUNCTION", "LOAD", LIBRARY]);
        },
        ..scenario("FCALL", |store| {
            let reply = run(store, &["FCALL", "f", "2", "text", "list", "x"]);
            assert_eq!(reply, Tree::Integer(4));
        })
    },
    Scenario {
        first: Some(|store| load(store, "return redis.call('append', 'text', ARGV[1])")),
        ..scenario("EVAL of a text that is new", |store| {
            let text = "return redis.call('append', 'text', ARGV[1])";
            let reply = run(store, &["EVAL", text, "0", "er"]);
            assert_eq!(reply, Tree::Integer(5));
        })
    },
];

/// Kills the process at every step of the scenario. Returns the number of deaths after which the
/// store had its old contents, and the number after which it had its new contents.
fn die_at_every_step(scenario: &Scenario) -> (u64, u64) {
    let directory = tempfile::tempdir_in("/dev/shm").expect("a directory in shared memory");
    let base = directory.path().join("base");
    let store = state::create(&base);
    (scenario.prepare)(&store);
    drop(store);
    let expected = Expected::of(scenario, &base);
    let file = std::fs::File::open(&base).expect("just made");
    let image = Image::read(&file).expect("an image");
    let path = directory.path().join("store");
    let (mut old, mut new) = (0, 0);
    for steps in 0.. {
        image.write_to(&path).expect("room for a copy");
        let store = state::open(&path).expect("a whole store");
        let died = die_after(steps, || (scenario.act)(&store)).is_none();
        if died {
            store.abandon();
        }
        let heir = state::open(&path).expect("a store that opens");
        match state::verify(&heir, &expected, steps) {
            Ok(Outcome::New) => new += 1,
            Ok(_) if died => old += 1,
            outcome => panic!("{}: after {steps} steps: {outcome:?}", scenario.name),
        }
        std::fs::remove_file(&path).expect("just made");
        if !died {
            return (old, new - 1);
        }
    }
    unreachable!("a script ends")
}

#[test]
fn death_at_any_step_of_a_script_leaves_all_or_nothing() {
    choose_names();
    for scenario in &SCENARIOS {
        let (old, new) = die_at_every_step(scenario);
        println!("{}: {old} deaths before it, {new} after", scenario.name);
        assert!(old >= 5 && new >= 1, "{}: {old}, {new}", scenario.name);
    }
}
