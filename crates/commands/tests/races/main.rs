//! Races between readers and writers: every call on every pair of states of its keys, where the
//! store switches from the first to the second in the middle of the call's reads (R1, R2, R8). The
//! reply must equal that of an undisturbed call on the second state.

#[path = "../support/alone.rs"]
mod alone;
mod long;
mod matrix;
mod runner;
mod stopped;
mod typed;

use undercroft_testkit::fresh::Extent;

/// Whether a full run was requested.
fn is_full() -> bool {
    Extent::asked() == Extent::Full
}
