//! Tests of reads that race with writes, by typed calls and by commands over sockets.
//!
//! - `matrix`: writes are injected at chosen points of a read.
//! - `served`: a server in this process, and a connection to it.
//! - `storm`: many writers run at the same time, and some of them are killed.

mod matrix;
mod served;
mod storm;

use undercroft_testkit::fresh::Extent;

/// Returns whether a full run is requested.
fn is_full() -> bool {
    Extent::asked() == Extent::Full
}
