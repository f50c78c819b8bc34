//! Sorted sets. `execute` calls them, and `geo` what it shares with them.
//!
//! - `add`: ZADD, ZINCRBY, ZREM.
//! - `bounds`: the ends of ranges by score and by text.
//! - `combine`: unions, intersections and differences of sorted sets and sets.
//! - `pop`: ZPOPMIN, ZPOPMAX, ZMPOP.
//! - `range`: ZRANGE in all its forms: what it reads, stores and removes.
//! - `read`: reading single members, and counting them.

pub(crate) mod add;
mod bounds;
pub(crate) mod combine;
pub(crate) mod pop;
pub(crate) mod range;
pub(crate) mod read;

use undercroft_engine::PackedLimits;
use undercroft_engine::sorted_sets::Scored;

use crate::context::Context;
use crate::protocol::Protocol;
use crate::reply::Reply;

/// The configured limits of sorted sets in one piece.
pub(crate) fn limits(context: &Context<'_>) -> PackedLimits {
    context.host.config().limits().sorted
}

/// Writes members: with their scores as a flat list, or, in RESP3, as a list of pairs.
fn write_scored(context: &Context<'_>, scored: &Scored, with_scores: bool, reply: &mut dyn Reply) {
    let pairs = with_scores && context.session.protocol == Protocol::Resp3;
    let flat = with_scores && !pairs;
    reply.array(scored.len() * if flat { 2 } else { 1 });
    for (member, score) in scored.iter() {
        if pairs {
            reply.array(2);
        }
        reply.bulk(member);
        if with_scores {
            reply.double(score);
        }
    }
}
