//! What a reader is given that others race: every call on every pair of states of its keys, where the store goes from
//! the one to the other in the midst of the call's reads (R1, R2, R8). The answer must be that of a call on the second
//! state which nobody interrupted.

#[path = "../support/alone.rs"]
mod alone;
mod long;
mod matrix;
mod runner;
mod stopped;
mod typed;

use undercroft_testkit::fresh::Extent;

/// Whether all of it is to be run.
fn is_full() -> bool {
    Extent::asked() == Extent::Full
}
