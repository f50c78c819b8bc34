//! The scripts of kombu's queues that expire: which queues are bound to an exchange is a set, its table, that is
//! deleted once nobody has refreshed it until its deadline.

use super::Call;
use super::calls::{Calls, number, number_text};
use crate::handler::Failure;
use crate::reply::Tree;

/// KEYS: a table, and the deadlines. ARGV: the binding, the exchange, and milliseconds.
pub(super) fn refresh_binding(calls: &mut Calls<'_, '_>, call: &Call<'_>) -> Result<Tree, Failure> {
    calls.call(2, &[Some(b"SADD"), call.key(1), call.argument(1)])?;
    let Some(time) = number(call.argument(3)) else {
        return Err(calls.own_error("attempt to perform arithmetic on a nil value", 5));
    };
    let deadline = number_text(calls.now() as f64 + time);
    let exchange = call.argument(2);
    calls.call(
        5,
        &[
            Some(b"ZADD"),
            call.key(2),
            Some(b"GT"),
            Some(&deadline),
            exchange,
        ],
    )?;
    Ok(Tree::Null)
}

/// KEYS: the deadlines. ARGV: what the keys of tables begin with, what those of permanent bindings begin with, and how
/// many tables to delete at most. Their keys are known only by then: where they lie in shards that are not locked, the
/// script runs again with all of them.
pub(super) fn sweep_bindings(calls: &mut Calls<'_, '_>, call: &Call<'_>) -> Result<Tree, Failure> {
    let now = number_text(calls.now() as f64);
    let limit = number(call.argument(3)).map(number_text);
    let overdue = calls.call(
        4,
        &[
            Some(b"ZRANGEBYSCORE"),
            call.key(1),
            Some(b"-inf"),
            Some(&now),
            Some(b"LIMIT"),
            Some(b"0"),
            limit.as_deref(),
        ],
    )?;
    let Tree::Array(overdue) = overdue else {
        return Ok(Tree::Integer(0));
    };
    for exchange in &overdue {
        let Tree::Bulk(exchange) = exchange else {
            continue;
        };
        // The limit is there, so these are.
        let permanent = [call.argument(2).unwrap_or_default(), exchange].concat();
        if calls.integer(7, &[Some(b"EXISTS"), Some(&permanent)])? == 0 {
            let table = [call.argument(1).unwrap_or_default(), exchange].concat();
            calls.call(8, &[Some(b"DEL"), Some(&table)])?;
        }
        calls.call(10, &[Some(b"ZREM"), call.key(1), Some(exchange)])?;
    }
    Ok(Tree::Integer(overdue.len() as i64))
}
