//! What readers over sockets, and beside them, are given that others race: where a test says ([`matrix`]), and in a
//! storm of writers of which some are killed ([`storm`]).

mod matrix;
mod served;
mod storm;

use undercroft_testkit::fresh::Extent;

/// Whether all of it is to be run.
fn is_full() -> bool {
    Extent::asked() == Extent::Full
}
