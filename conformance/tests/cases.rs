//! Runs the written cases against a real Redis and against `undercroft serve`.

use std::path::Path;

use undercroft_conformance::canary;
use undercroft_conformance::cases::{Report, directory, own_directory, read_all};
use undercroft_conformance::client::Address;
use undercroft_conformance::servers::{Kind, Server, Settings, start_undercroft};

fn run_all(address: &Address) -> Report {
    let mut report = Report::default();
    run_in(&directory(), address, &mut report);
    report
}

fn run_in(directory: &Path, address: &Address, report: &mut Report) {
    for file in read_all(directory).expect("the case files read") {
        file.run(address, report).expect("the cases run");
    }
}

fn assert_green(who: &str, report: &Report) {
    println!(
        "{who}: {} cases, {} failed",
        report.cases,
        report.failures.len()
    );
    assert!(
        report.cases >= 150,
        "expected 150 cases or more, ran {}",
        report.cases
    );
    assert!(
        report.failures.is_empty(),
        "{who}:\n\n{}",
        report.failures.join("\n\n")
    );
}

#[test]
fn a_real_redis_passes() {
    let redis = Server::start(Kind::Redis, Settings::default()).expect("redis-server starts");
    assert_green("redis", &run_all(redis.address()));
}

#[test]
fn undercroft_passes() {
    if let Some(ours) = start_undercroft(Settings::default()).expect("undercroft starts") {
        let mut report = run_all(ours.address());
        run_in(&own_directory(), ours.address(), &mut report);
        assert_green("undercroft", &report);
    }
}

#[test]
fn a_faulty_server_fails() {
    let redis = Server::start(Kind::Redis, Settings::default()).expect("redis-server starts");
    for name in [
        "GETEX PERSIST keeps the expiry",
        "an error text is misspelt",
        "EXPIRE ignores GT",
    ] {
        let fault = canary::FAULTS
            .iter()
            .find(|f| f.name == name)
            .expect("the fault exists");
        let proxy = canary::start(redis.address(), *fault).expect("the proxy starts");
        // Start with the last files: the string cases detect a fault in a reply, while other cases
        // may wait a minute for an event that the fault suppresses.
        let files = read_all(&directory()).expect("the case files read");
        let mut report = Report::default();
        let noticed = files.iter().rev().any(|file| {
            file.run(&proxy, &mut report).expect("the cases run");
            !report.failures.is_empty()
        });
        assert!(noticed, "no case notices: {name}");
    }
}
