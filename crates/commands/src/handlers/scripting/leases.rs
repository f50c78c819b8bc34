//! The script of this project's own clients, [`LEASE_SCRIPT`](undercroft_engine::LEASE_SCRIPT).

use super::Call;
use super::calls::Calls;
use crate::handler::Failure;
use crate::reply::Tree;

/// KEYS: a key, and that of its lease. ARGV: the lease; the value, and the milliseconds until it expires, or 0.
pub(super) fn run(calls: &mut Calls<'_, '_>, call: &Call<'_>) -> Result<Tree, Failure> {
    let held = calls.text(1, &[Some(b"get"), call.key(2)])?;
    if held.as_deref() != call.argument(1) {
        return Ok(Tree::Integer(0));
    }
    let (key, value, time) = (call.key(1), call.argument(2), call.argument(3));
    if time == Some(b"0") {
        calls.call(5, &[Some(b"set"), key, value])?;
    } else if value.is_some() {
        calls.call(7, &[Some(b"set"), key, value, Some(b"px"), time])?;
    }
    calls.call(9, &[Some(b"del"), call.key(2)])?;
    Ok(Tree::Integer(1))
}
