//! Runs the judge, which checks the commands against all written test cases, and compares the
//! replies to random commands with those of a real Redis server.

mod server;
mod wire;

use server::Served;
use undercroft_conformance::cases::{Report, directory, own_directory, read_all};
use undercroft_conformance::compare::Rules;
use undercroft_conformance::differential::{Plan, run};
use undercroft_conformance::expiry::keys_expire;
use undercroft_conformance::generate::FAMILIES;
use undercroft_conformance::servers::{Kind, Server, Settings};

/// Case files that require a real server or the script interpreter, which is in a higher layer.
const LEFT_TO_THE_SERVER: [&str; 10] = [
    "messages",
    "notify",
    "blocking",
    "paused",
    "scripting-celery",
    "scripting-filled",
    "scripting-functions",
    "scripting-kombu",
    "scripting-lua",
    "scripting-replicas",
];

#[test]
fn every_written_case_passes() {
    let served = Served::start();
    let mut report = Report::default();
    // Skip the cases that this minimal server cannot run: it cannot push messages to connections,
    // and it cannot suspend connections that wait or are paused. The real server runs all cases.
    let mut files = read_all(&directory()).expect("the case files read");
    files.extend(read_all(&own_directory()).expect("the case files read"));
    for file in files
        .into_iter()
        .filter(|file| !LEFT_TO_THE_SERVER.contains(&file.name()))
    {
        file.run(&served.address, &mut report)
            .expect("the cases run");
    }
    println!("{} cases", report.cases);
    assert!(report.cases >= 150, "{} cases", report.cases);
    assert!(
        report.failures.is_empty(),
        "{}",
        report.failures.join("\n\n")
    );
    served.check();
}

#[test]
fn random_commands_get_the_replies_of_redis() {
    let mut redis = match Server::start(Kind::Redis, Settings::default()) {
        Ok(redis) => redis,
        Err(error) => {
            println!("skipped: comparison with a real Redis: {error:#}");
            return;
        }
    };
    let number = |name: &str| {
        let given = std::env::var(name).ok()?;
        Some(
            given
                .parse()
                .unwrap_or_else(|_| panic!("{name}: expected a number, got {given:?}")),
        )
    };
    let seed = number("UNDERCROFT_SEED").unwrap_or_else(|| fastrand::u64(..1 << 40));
    println!("seed {seed} (replay with UNDERCROFT_SEED={seed})");
    // Lua scripts are tested with the real server, which has an interpreter.
    let needs_lua = |name| matches!(name, "lua" | "scripting");
    let families = FAMILIES.iter().copied();
    let plan = Plan {
        commands: number("UNDERCROFT_COMMANDS").unwrap_or(30_000) as usize,
        seed,
        batch: 100,
        families: families.filter(|family| !needs_lua(family.name)).collect(),
        rules: Rules {
            dump_bytes: false,
            encodings: true,
        },
    };
    let served = Served::start();
    let mut ours = served.address.clone();
    if let Some(failure) = run(&mut redis, &mut ours, &plan, |_| ()).expect("the run works") {
        panic!("{failure}");
    }
    served.check();
}

#[test]
fn keys_expire_in_real_time() {
    let served = Served::start();
    keys_expire(&served.address).expect("keys expire when they should");
}
