//! Tests of what a store survives: death, suspension and unusual behavior of the processes that use
//! it, and files that are not stores.
//!
//! The other processes are this test binary, run again with a role ([`child`]).

mod child;
mod damage;
mod files;
mod forks;
mod image;
mod liveness;
mod locking;
mod pairs;
mod privileges;
mod slots;
mod space;
mod users;

/// Not a test: the entry point of the child processes.
#[test]
fn role() {
    let Some((role, store)) = child::role() else {
        return;
    };
    let roles = [
        damage::ROLES,
        forks::ROLES,
        liveness::ROLES,
        locking::ROLES,
        privileges::ROLES,
        slots::ROLES,
        space::ROLES,
        users::ROLES,
    ]
    .concat();
    let (_, run) = roles
        .iter()
        .find(|(name, _)| *name == role)
        .expect("a known role");
    run(&store);
}
