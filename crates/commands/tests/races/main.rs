//! Tests races between readers and writers. Every call runs on every pair of states of its keys,
//! and the store switches from the first state to the second while the call is reading (R1, R2,
//! R8). The reply must equal the reply to an undisturbed call on the second state.

#[path = "../support/alone.rs"]
mod alone;
mod long;
mod matrix;
mod runner;
mod stopped;
mod typed;

use undercroft_testkit::fresh::Extent;

/// Returns whether a full run was requested.
fn is_full() -> bool {
    Extent::asked() == Extent::Full
}
