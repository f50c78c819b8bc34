//! Implements REPLICAOF, SLAVEOF and ROLE.

use undercroft_engine::LinkStatus;
use undercroft_numbers::parse_integer;

use crate::arguments::{CommandError, is_keyword};
use crate::context::{Context, HandlerEntry, ReplicaFacts, Replicas};
use crate::failure::Outcome;
use crate::handlers::server::info::replication::{applied, link_of};
use crate::handlers::server::persistence::take_own_thread;
use crate::reply::Reply;

/// Maps each command in this file to its handler.
pub(crate) const HANDLERS: &[HandlerEntry] =
    &[("replicaof", follow), ("slaveof", follow), ("role", role)];

/// Handles REPLICAOF and SLAVEOF.
fn follow(context: &mut Context<'_>, arguments: &[&[u8]], reply: &mut dyn Reply) -> Outcome {
    // The end of the last connection is awaited, so that it changes nothing any more.
    take_own_thread(context)?;
    let control = context.host.control;
    if is_keyword(arguments[1], "NO") && is_keyword(arguments[2], "ONE") {
        // A store that is no replica stays as it is, in an embedding process too.
        if context.store.store().is_replica() {
            control.follow(None).map_err(CommandError::new)?;
        }
        reply.ok();
        return Ok(());
    }
    let port = parse_integer(arguments[2]).and_then(|port| u16::try_from(port).ok());
    let port = port.ok_or(CommandError::fixed("ERR Invalid master port"))?;
    let host = std::str::from_utf8(arguments[1])
        .map_err(|_| CommandError::fixed("ERR Invalid master host"))?;
    match control
        .follow(Some((host, port)))
        .map_err(CommandError::new)?
    {
        true => reply.ok(),
        false => reply.simple("OK Already connected to specified master"),
    }
    Ok(())
}

/// Handles ROLE.
fn role(context: &mut Context<'_>, _: &[&[u8]], reply: &mut dyn Reply) -> Outcome {
    let Some(link) = link_of(context) else {
        let replicas = context.host.control.replicas();
        let stream = replicas.map(Replicas::facts).unwrap_or_default();
        reply.array(3);
        reply.bulk(b"master");
        reply.integer(stream.offset as i64);
        // As in Redis, a replica that still loads its data set is not shown.
        let is_online = |replica: &&ReplicaFacts| replica.state == "online";
        let online: Vec<&ReplicaFacts> = stream.replicas.iter().filter(is_online).collect();
        reply.array(online.len());
        for replica in online {
            reply.array(3);
            reply.bulk(replica.address.as_bytes());
            reply.bulk(replica.port.to_string().as_bytes());
            reply.bulk(replica.offset.to_string().as_bytes());
        }
        return Ok(());
    };
    reply.array(5);
    reply.bulk(b"slave");
    reply.bulk(link.host.as_bytes());
    reply.integer(link.port.into());
    reply.bulk(match link.status {
        LinkStatus::Down => b"connect",
        LinkStatus::Loading => b"sync",
        LinkStatus::Up => b"connected",
    });
    let offset = applied(context).filter(|_| link.status == LinkStatus::Up);
    reply.integer(offset.map_or(-1, |offset| offset as i64));
    Ok(())
}
