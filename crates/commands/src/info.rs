//! INFO: figures about the server and the store, in Redis' form.

use std::fmt::{Display, Write as _};

use undercroft_engine::{DATABASES, Topic};

use crate::arguments::is_keyword;
use crate::handler::{Context, Failure};

/// What a server, or an embedding process, tells of itself. Counters count since the start or CONFIG RESETSTAT.
#[derive(Clone, Debug, Default)]
pub struct Facts {
    /// Its TCP port; 0 where there is none.
    pub tcp_port: u16,
    /// Threads that run commands.
    pub threads: usize,
    /// When it started, Unix milliseconds.
    pub started: i64,
    /// The configuration file, empty where there is none.
    pub config_file: String,
    /// Connections now.
    pub connected_clients: u64,
    /// Connections that wait for a lock now.
    pub blocked_clients: u64,
    /// The largest input buffer of a connection now, in bytes.
    pub largest_input: u64,
    /// The largest output buffer of a connection now, in bytes.
    pub largest_output: u64,
    /// Connections accepted.
    pub connections: u64,
    /// Connections refused, because there were too many.
    pub rejected_connections: u64,
    /// Commands run.
    pub commands: u64,
    /// Commands run in the last second.
    pub commands_per_second: u64,
    /// Bytes read from sockets.
    pub input_bytes: u64,
    /// Bytes written to sockets.
    pub output_bytes: u64,
    /// Keys that reading commands found.
    pub hits: u64,
    /// Keys that reading commands did not find.
    pub misses: u64,
    /// Keys removed because they had expired.
    pub expired_keys: u64,
    /// Replies that were errors.
    pub errors: u64,
}

/// The version of Redis whose commands these are.
pub const REDIS_VERSION: &str = "7.0.15";

/// The sections that INFO answers when none is named, in order.
const SECTIONS: [&str; 10] = [
    "server",
    "clients",
    "memory",
    "persistence",
    "stats",
    "replication",
    "cpu",
    "modules",
    "errorstats",
    "cluster",
];
/// The last of them.
const KEYSPACE: &str = "keyspace";

/// INFO's text for these sections: the default ones where none is named.
pub(crate) fn text(context: &Context<'_>, wanted: &[&[u8]]) -> Result<String, Failure> {
    let named = |name: &str| wanted.iter().any(|section| is_keyword(section, name));
    let every = wanted.is_empty() || named("default") || named("all") || named("everything");
    let facts = context.host.facts();
    let mut out = String::new();
    for section in SECTIONS.into_iter().chain([KEYSPACE]) {
        if !every && !named(section) {
            continue;
        }
        if !out.is_empty() {
            out.push_str("\r\n");
        }
        match section {
            "server" => server(context, &facts, &mut out),
            "clients" => clients(context, &facts, &mut out),
            "memory" => memory(context, &mut out),
            "persistence" => persistence(&mut out),
            "stats" => statistics(context, &facts, &mut out),
            "replication" => replication(&mut out),
            "cpu" => cpu(&mut out),
            "modules" => title("Modules", &mut out),
            "errorstats" => title("Errorstats", &mut out),
            "cluster" => {
                title("Cluster", &mut out);
                line("cluster_enabled", 0, &mut out);
            }
            _ => keyspace(context, &mut out)?,
        }
    }
    Ok(out)
}

fn title(name: &str, out: &mut String) {
    out.push_str("# ");
    out.push_str(name);
    out.push_str("\r\n");
}

fn line(name: &str, value: impl Display, out: &mut String) {
    // Writing to a String cannot fail.
    let _ = write!(out, "{name}:{value}\r\n");
}

fn server(context: &Context<'_>, facts: &Facts, out: &mut String) {
    let now = context.host.now_microseconds();
    let uptime = (now / 1000 - facts.started).max(0) / 1000;
    let hz = context.host.config().integer("hz");
    title("Server", out);
    line("redis_version", REDIS_VERSION, out);
    line("undercroft_version", env!("CARGO_PKG_VERSION"), out);
    line("redis_git_sha1", "00000000", out);
    line("redis_git_dirty", 0, out);
    line("redis_mode", "standalone", out);
    line("os", format_args!("Linux {}", std::env::consts::ARCH), out);
    line("arch_bits", usize::BITS, out);
    line("multiplexing_api", "epoll", out);
    line("process_id", std::process::id(), out);
    line("tcp_port", facts.tcp_port, out);
    line("server_time_usec", now, out);
    line("uptime_in_seconds", uptime, out);
    line("uptime_in_days", uptime / 86_400, out);
    line("hz", hz, out);
    line("configured_hz", hz, out);
    line("io_threads_active", u8::from(facts.threads > 1), out);
    line("threads", facts.threads, out);
    line(
        "executable",
        std::env::current_exe().unwrap_or_default().display(),
        out,
    );
    line("config_file", &facts.config_file, out);
    line("store", context.store.path().display(), out);
    line("store_shards", context.store.shards(), out);
}

fn clients(context: &Context<'_>, facts: &Facts, out: &mut String) {
    title("Clients", out);
    line("connected_clients", facts.connected_clients, out);
    line("cluster_connections", 0, out);
    line(
        "maxclients",
        context.host.config().integer("maxclients"),
        out,
    );
    line("client_recent_max_input_buffer", facts.largest_input, out);
    line("client_recent_max_output_buffer", facts.largest_output, out);
    line("blocked_clients", facts.blocked_clients, out);
    line("tracking_clients", 0, out);
    line("clients_in_timeout_table", 0, out);
}

/// A size as people read it: `1.46M`.
fn human(bytes: u64) -> String {
    const UNITS: [&str; 5] = ["K", "M", "G", "T", "P"];
    if bytes < 1024 {
        return format!("{bytes}B");
    }
    let power = (bytes.ilog2() / 10).min(UNITS.len() as u32);
    let value = bytes as f64 / (1u64 << (10 * power)) as f64;
    format!("{value:.2}{}", UNITS[power as usize - 1])
}

fn memory(context: &Context<'_>, out: &mut String) {
    let statistics = context.store.statistics();
    let used = context.store.used_memory();
    let backed = statistics.reserved + statistics.logs;
    let limit = context.store.max_memory();
    title("Memory", out);
    for (name, bytes) in [
        ("used_memory", used),
        ("used_memory_rss", backed),
        ("maxmemory", limit),
    ] {
        line(name, bytes, out);
        line(&format!("{name}_human"), human(bytes), out);
    }
    // What a lock keeps from being measured now is told the next time.
    let waiting = context.store.used_by_waiting().unwrap_or(0);
    line("used_memory_waiting", waiting, out);
    let policy = context.store.eviction().policy;
    line("maxmemory_policy", policy.name(), out);
    line(
        "mem_fragmentation_ratio",
        format_args!("{:.2}", backed as f64 / used.max(1) as f64),
        out,
    );
    line("mem_fragmentation_bytes", backed.saturating_sub(used), out);
    line("mem_allocator", "undercroft", out);
    line("store_capacity", statistics.capacity, out);
    line("store_free", statistics.free, out);
    line("lazyfree_pending_objects", statistics.left_objects, out);
    line("mem_lazyfree_pending", statistics.left, out);
}

fn persistence(out: &mut String) {
    title("Persistence", out);
    line("loading", 0, out);
    line("async_loading", 0, out);
    line("rdb_changes_since_last_save", 0, out);
    line("rdb_bgsave_in_progress", 0, out);
    line("rdb_last_save_time", 0, out);
    line("rdb_last_bgsave_status", "ok", out);
    line("aof_enabled", 0, out);
    line("aof_rewrite_in_progress", 0, out);
    line("aof_rewrite_scheduled", 0, out);
    line("aof_last_bgrewrite_status", "ok", out);
    line("aof_last_write_status", "ok", out);
}

fn statistics(context: &Context<'_>, facts: &Facts, out: &mut String) {
    // What this connection did since its figures were last collected.
    let own = &context.session.counters;
    title("Stats", out);
    line("total_connections_received", facts.connections, out);
    line(
        "total_commands_processed",
        facts.commands + own.commands,
        out,
    );
    line("instantaneous_ops_per_sec", facts.commands_per_second, out);
    line("total_net_input_bytes", facts.input_bytes, out);
    line("total_net_output_bytes", facts.output_bytes, out);
    line("rejected_connections", facts.rejected_connections, out);
    line("expired_keys", facts.expired_keys + own.expired, out);
    line("evicted_keys", context.store.evicted_keys(), out);
    line("evicted_clients", 0, out);
    line("keyspace_hits", facts.hits + own.hits, out);
    line("keyspace_misses", facts.misses + own.misses, out);
    let [channels, patterns, shards] = Topic::ALL.map(|topic| context.store.topic_count(topic));
    line("pubsub_channels", channels, out);
    line("pubsub_patterns", patterns, out);
    line("pubsubshard_channels", shards, out);
    line("latest_fork_usec", 0, out);
    line("total_forks", 0, out);
    line("tracking_total_keys", 0, out);
    line("total_error_replies", facts.errors + own.errors, out);
}

fn replication(out: &mut String) {
    title("Replication", out);
    line("role", "master", out);
    line("connected_slaves", 0, out);
    line("master_failover_state", "no-failover", out);
    line("master_replid", "0".repeat(40), out);
    line("master_replid2", "0".repeat(40), out);
    line("master_repl_offset", 0, out);
    line("second_repl_offset", -1, out);
    line("repl_backlog_active", 0, out);
}

/// Processor time as the kernel counts it, in hundredths of a second.
fn cpu(out: &mut String) {
    let times = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    // The second field is the program's name, which may hold anything but ends with the last parenthesis.
    let fields: Vec<&str> = times
        .rsplit_once(')')
        .map_or("", |(_, rest)| rest)
        .split_whitespace()
        .collect();
    let seconds = |index: usize| {
        let ticks = fields.get(index).and_then(|text| text.parse::<f64>().ok());
        format!("{:.6}", ticks.unwrap_or(0.0) / 100.0)
    };
    title("CPU", out);
    line("used_cpu_sys", seconds(12), out);
    line("used_cpu_user", seconds(11), out);
    line("used_cpu_sys_children", seconds(14), out);
    line("used_cpu_user_children", seconds(13), out);
}

fn keyspace(context: &Context<'_>, out: &mut String) -> Result<(), Failure> {
    title("Keyspace", out);
    for database in 0..DATABASES {
        let keys = context.store.count_keys(database)?;
        if keys > 0 {
            let expires = context.store.expiring_keys(database)?;
            let figures = format!("keys={keys},expires={expires},avg_ttl=0");
            line(&format!("db{database}"), figures, out);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::human;

    #[test]
    fn sizes_are_readable() {
        for (bytes, text) in [
            (0, "0B"),
            (1023, "1023B"),
            (1024, "1.00K"),
            (1_535_968, "1.46M"),
            (1 << 30, "1.00G"),
            (u64::MAX, "16384.00P"),
        ] {
            assert_eq!(human(bytes), text);
        }
    }
}
