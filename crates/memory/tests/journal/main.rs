//! Tests the journal: a store that is recovered from it equals the store that survived (J3), after
//! deaths, power cuts and errors of the disk.

mod backup;
#[expect(dead_code, reason = "the tests of survival use more of it")]
#[path = "../survival/child.rs"]
mod child;
mod damage;
mod deaths;
mod deferral;
mod equality;
mod errors;
mod history;
mod hostile;
mod lag;
mod moments;
mod opening;
mod point_in_time;
mod power;
mod recording_disk;
mod stopped;
mod store;
mod watched;

/// The entry point of the child processes, which is not a real test.
#[test]
fn role() {
    let Some((role, store)) = child::role() else {
        return;
    };
    let (_, run) = stopped::ROLES
        .iter()
        .find(|(name, _)| *name == role)
        .expect("a known role");
    run(&store);
}
