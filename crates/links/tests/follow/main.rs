//! Tests the follower of a source with sources that this test plays itself: broken, hostile, and with
//! connections that are cut at every byte.

#[expect(dead_code, reason = "the follower makes its own session")]
#[path = "../../../commands/tests/support/alone.rs"]
mod alone;
mod hostile;
mod place;
mod played;
mod space;
