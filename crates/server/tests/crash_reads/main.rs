//! Tests reads that race with writes, through typed calls and through commands over sockets.
//!
//! - `matrix`: injects writes at chosen points of a read.
//! - `served`: a server in the test's process, and a connection to it.
//! - `storm`: runs many writers concurrently, and kills some of them.

mod matrix;
mod served;
mod storm;

use undercroft_testkit::fresh::Extent;

/// Returns whether a full test run was requested.
fn is_full() -> bool {
    Extent::asked() == Extent::Full
}
