//! Implements REPLICA.WAIT, which Redis does not have: it waits until a replica has the changes of its
//! source.

use std::time::{Duration, Instant};

use undercroft_engine::key_slot;
use undercroft_numbers::parse_integer;

use crate::arguments::CommandError;
use crate::context::{Context, HandlerEntry};
use crate::failure::Outcome;
use crate::handlers::server::persistence::take_own_thread;
use crate::reply::Reply;
use crate::session::retried::RetriedWait;

/// Maps each command in this file to its handler.
pub(crate) const HANDLERS: &[HandlerEntry] = &[("replica.wait", wait)];

/// The interval at which a waiting command checks whether the process must exit.
const TURN: Duration = Duration::from_millis(100);

/// Handles REPLICA.WAIT.
fn wait(context: &mut Context<'_>, arguments: &[&[u8]], reply: &mut dyn Reply) -> Outcome {
    if arguments.len() > 4 {
        return Err(CommandError::SYNTAX.into());
    }
    let offset = parse_integer(arguments[1]).and_then(|offset| u64::try_from(offset).ok());
    let offset = offset.ok_or(CommandError::NOT_AN_INTEGER)?;
    let timeout = parse_integer(arguments[2]).ok_or(CommandError::fixed(
        "ERR timeout is not an integer or out of range",
    ))?;
    let timeout =
        u64::try_from(timeout).map_err(|_| CommandError::fixed("ERR timeout is negative"))?;
    let store = context.store.store();
    // Each master of a cluster has its own positions.
    let cluster = match arguments.get(3) {
        Some(_) => store.cluster_source()?,
        None => None,
    };
    let owner = |key: &[u8]| cluster.as_ref()?.owners.get(key_slot(key));
    let lane = arguments.get(3).and_then(|key| owner(key));
    // As for other commands that wait, a call within EXEC does not.
    let is_within = context.session.transaction.queue.is_some();
    if timeout == 0 || is_within || store.has_applied_in(lane, offset)? {
        reply.integer(store.has_applied_in(lane, offset)?.into());
        return Ok(());
    }
    if !context.session.is_embedded() {
        let retried = &mut context.session.retried;
        let wait = retried
            .get_or_insert_with(|| RetriedWait::new(Some(Duration::from_millis(timeout)), None));
        if !context.host.control.is_stopping() {
            wait.pause()?;
        }
        reply.integer(0);
        return Ok(());
    }
    take_own_thread(context)?;
    let (start, timeout) = (Instant::now(), Duration::from_millis(timeout));
    loop {
        let left = timeout.saturating_sub(start.elapsed());
        if store.wait_until_applied_in(lane, offset, left.min(TURN))? {
            reply.integer(1);
            return Ok(());
        }
        if start.elapsed() >= timeout || context.host.control.is_stopping() {
            reply.integer(0);
            return Ok(());
        }
    }
}
