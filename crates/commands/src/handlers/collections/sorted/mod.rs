//! Implements the sorted set commands. `execute` calls the handlers, and `geo` shares code with
//! them.
//!
//! - `add`: implements the commands that add and remove members: ZADD, ZINCRBY and ZREM.
//! - `bounds`: parses rank ranges, score ranges and lexicographic ranges.
//! - `combine`: computes unions, intersections and differences of sorted sets and plain sets.
//! - `pop`: implements ZPOPMIN, ZPOPMAX and ZMPOP.
//! - `range`: implements ZRANGE and its variants, which read, store or remove a range.
//! - `read`: implements the commands that read and count members.

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

/// Returns the configured size limits of packed sorted sets.
pub(crate) fn limits(context: &Context<'_>) -> PackedLimits {
    context.host.config().limits().sorted
}

/// Writes members, with scores if requested. A reply with scores is a flat list in RESP2, and a
/// list of pairs in RESP3.
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
