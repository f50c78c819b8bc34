//! Tests what a store survives: death, suspension and unusual behavior of the processes that use
//! it, and files that are not stores.
//!
//! The other processes run this test binary with a role ([`child`]).

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

/// The entry point of the child processes, which is not a real test.
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
