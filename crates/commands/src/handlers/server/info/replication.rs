//! Writes the replication section of INFO, which describes the source of a replica.

use undercroft_engine::{LinkStatus, SourceLink};

use super::fields::{line, title};
use crate::context::{Context, ReplicaFacts, Replicas};

/// Returns the connection to the source, if the store is a replica.
pub(crate) fn link_of(context: &Context<'_>) -> Option<SourceLink> {
    let store = context.store.store();
    let link = || store.source_link().ok().flatten().unwrap_or_default();
    store.is_replica().then(link)
}

/// Returns the position in the source's stream up to which changes are applied, or the sum of those of
/// all masters of a cluster.
pub(crate) fn applied(context: &Context<'_>) -> Option<u64> {
    if let Some(cluster) = context.store.store().cluster_source().ok().flatten() {
        return Some(cluster.lanes.iter().map(|lane| lane.position.offset).sum());
    }
    let source = context.store.store().source().ok().flatten();
    source.map(|source| source.position.offset)
}

/// Writes the section.
pub(super) fn section(context: &Context<'_>, out: &mut String) {
    title("Replication", out);
    let link = link_of(context);
    line("role", if link.is_some() { "slave" } else { "master" }, out);
    if let Some(link) = &link {
        write_link(context, link, out);
    }
    let replicas = context.host.control.replicas();
    let stream = replicas.map(Replicas::facts).unwrap_or_default();
    line("connected_slaves", stream.replicas.len(), out);
    let config = context.host.config();
    if config.requires_replicas() {
        let (_, lag) = config.required_replicas();
        let count = replicas.map_or(0, |replicas| replicas.count_recent(lag));
        line("min_slaves_good_slaves", count, out);
    }
    for (index, replica) in stream.replicas.iter().enumerate() {
        let ReplicaFacts {
            address,
            port,
            state,
            offset,
            lag,
        } = replica;
        let text = format!("ip={address},port={port},state={state},offset={offset},lag={lag}");
        line(&format!("slave{index}"), text, out);
    }
    line("master_failover_state", "no-failover", out);
    let source = context.store.store().source().ok().flatten();
    let followed = source.filter(|_| link.is_some());
    let id = followed.map(|source| String::from_utf8_lossy(&source.id).into_owned());
    let own = || stream.id.as_deref();
    let run_id = context.host.statistics().run_id();
    line(
        "master_replid",
        id.as_deref().or_else(own).unwrap_or(run_id),
        out,
    );
    let none = || ("0".repeat(40), -1);
    let (earlier, end) = stream
        .earlier
        .map_or_else(none, |(id, end)| (id, end as i64 + 1));
    line("master_replid2", earlier, out);
    let offset = match &link {
        Some(_) => applied(context).unwrap_or(0),
        None => stream.offset,
    };
    line("master_repl_offset", offset, out);
    line("second_repl_offset", end, out);
    let length = stream.offset - stream.start;
    line("repl_backlog_active", u8::from(stream.id.is_some()), out);
    line(
        "repl_backlog_size",
        config.integer("repl-backlog-size"),
        out,
    );
    let first = if stream.id.is_some() {
        stream.start + 1
    } else {
        0
    };
    line("repl_backlog_first_byte_offset", first, out);
    line("repl_backlog_histlen", length, out);
}

fn write_link(context: &Context<'_>, link: &SourceLink, out: &mut String) {
    let now = context.store.now();
    let seconds_since = |time: u64| match time {
        0 => -1,
        time => (now.saturating_sub(time) / 1000) as i64,
    };
    let is_up = link.status == LinkStatus::Up;
    line("master_host", &link.host, out);
    line("master_port", link.port, out);
    line("master_link_status", if is_up { "up" } else { "down" }, out);
    line("master_last_io_seconds_ago", seconds_since(link.heard), out);
    let is_loading = link.status == LinkStatus::Loading;
    line("master_sync_in_progress", u8::from(is_loading), out);
    let offset = applied(context).map_or(-1, |offset| offset as i64);
    line(
        "slave_read_repl_offset",
        link.offset.max(offset.max(0) as u64),
        out,
    );
    line("slave_repl_offset", offset, out);
    // Redis does not report the lag of a replica.
    if let Some(lag) = context.store.store().lag().ok().flatten() {
        line("master_lag_bytes", lag.bytes, out);
        match lag.milliseconds {
            Some(time) => line(
                "master_lag_sec",
                format_args!("{:.3}", time as f64 / 1000.0),
                out,
            ),
            None => line("master_lag_sec", -1, out),
        }
    }
    write_lanes(context, out);
    if is_loading {
        line("master_sync_total_bytes", 0, out);
        line("master_sync_read_bytes", link.loaded_bytes, out);
        line("master_sync_left_bytes", 0, out);
        line("master_sync_perc", "0.00", out);
        line(
            "master_sync_last_io_seconds_ago",
            seconds_since(link.heard),
            out,
        );
    }
    if !is_up {
        line(
            "master_link_down_since_seconds",
            seconds_since(link.since),
            out,
        );
    }
    if !link.error.is_empty() {
        // Redis has no such line.
        let error = link.error.replace(['\r', '\n'], " ");
        line("master_link_error", error, out);
    }
    line("slave_priority", 100, out);
    line("slave_read_only", 1, out);
    line("replica_announced", 1, out);
}

/// Writes a line for each master of a cluster. Redis has no such lines.
fn write_lanes(context: &Context<'_>, out: &mut String) {
    let store = context.store.store();
    let Some(cluster) = store.cluster_source().ok().flatten() else {
        return;
    };
    for lane in &cluster.lanes {
        let link = store.lane_link(lane.number).ok().flatten();
        let link = link.unwrap_or_default();
        let status = match link.status {
            LinkStatus::Up => "up",
            LinkStatus::Down | LinkStatus::Loading => "down",
        };
        let text = format!(
            "ip={},port={},state={status},slots={},offset={},lag_bytes={}",
            lane.host,
            lane.port,
            cluster.owners.of(lane.number).count(),
            lane.position.offset,
            link.bytes_after(lane.position.offset)
        );
        line(&format!("cluster_master{}", lane.number), text, out);
    }
}
