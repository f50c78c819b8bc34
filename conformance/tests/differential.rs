//! Runs the differential tester, and proves that it detects faults.

use undercroft_conformance::canary;
use undercroft_conformance::compare::Rules;
use undercroft_conformance::differential::{Plan, run};
use undercroft_conformance::expiry::keys_expire;
use undercroft_conformance::generate::FAMILIES;
use undercroft_conformance::seed::seed;
use undercroft_conformance::servers::{Kind, Server, Settings, start_undercroft};

fn plan(commands: usize) -> Plan {
    Plan {
        commands,
        seed: seed(),
        batch: 100,
        families: FAMILIES.to_vec(),
        rules: Rules::default(),
    }
}

fn redis() -> Server {
    Server::start(Kind::Redis, Settings::default()).expect("redis-server starts")
}

#[test]
fn two_real_servers_agree() {
    let (mut one, mut two) = (redis(), redis());
    let plan = plan(30_000);
    if let Some(failure) = run(&mut one, &mut two, &plan, |_| ()).expect("the run works") {
        panic!("the judge disagrees with itself: {failure}");
    }
}

#[test]
fn every_fault_is_found_and_shrunk() {
    let mut judge = redis();
    let mut plan = plan(50_000);
    // Use few families, because the few commands that expose a string fault would be too rare among
    // all families.
    let few = ["strings", "keys", "expire", "server"];
    plan.families.retain(|family| few.contains(&family.name));
    for fault in canary::FAULTS {
        let behind = redis();
        let mut proxy = canary::start(behind.address(), *fault).expect("the proxy starts");
        let failure = run(&mut judge, &mut proxy, &plan, |_| ())
            .expect("the run works")
            .unwrap_or_else(|| panic!("not found with seed {}: {}", plan.seed, fault.name));
        println!("found: {}\n{failure}\n", fault.name);
        assert!(
            failure.shown.is_some(),
            "found, but not on replay: {}",
            fault.name
        );
        assert!(
            failure.minimal.len() <= 8,
            "not shrunk: {}\n{failure}",
            fault.name
        );
    }
}

#[test]
fn undercroft_agrees_with_redis() {
    let Some(mut ours) = start_undercroft(Settings::default()).expect("undercroft starts") else {
        return;
    };
    let mut judge = redis();
    if let Some(failure) =
        run(&mut judge, &mut ours, &plan(100_000), |_| ()).expect("the run works")
    {
        panic!("{failure}");
    }
}

/// The payload order of sets and hashes differs between servers, and the payload of a list depends
/// on its history. Other runs compare the restored values of these types instead.
#[test]
fn payloads_equal_redis_own_bytes() {
    let Some(mut ours) = start_undercroft(Settings::default()).expect("undercroft starts") else {
        return;
    };
    let mut judge = redis();
    let mut plan = plan(15_000);
    let ordered = ["strings", "expire", "bitmaps", "hyperloglog", "keys"];
    plan.families
        .retain(|family| ordered.contains(&family.name));
    assert_eq!(plan.families.len(), ordered.len());
    plan.rules.dump_bytes = true;
    if let Some(failure) = run(&mut judge, &mut ours, &plan, |_| ()).expect("the run works") {
        panic!("{failure}");
    }
}

#[test]
fn keys_expire_in_real_time() {
    let judge = redis();
    keys_expire(judge.address()).expect("the real Redis");
    let slow = canary::start(judge.address(), canary::SLOW_CLOCK).expect("the proxy starts");
    keys_expire(&slow).expect_err("a slow clock went unnoticed");
    if let Some(ours) = start_undercroft(Settings::default()).expect("undercroft starts") {
        keys_expire(ours.address()).expect("ours");
    }
}
