//! Implements INFO, which reports statistics about the server and the store in Redis' format. Other
//! files in `server` call this module.
//!
//! All fields of Redis 7.0 are present, because monitoring tools expect them. If a field concerns a
//! feature that Undercroft does not have, its value is that of a Redis server that does not use the
//! feature.
//!
//! - `counted`: writes the sections with statistics for each command and each error code.
//! - `fields`: formats section titles and fields.
//! - `memory`: writes the memory section.
//! - `persistence`: writes the persistence section.
//! - `pins`: writes the section about long values that are being read in place.
//! - `replication`: writes the replication section.

mod counted;
mod fields;
pub(crate) mod memory;
pub(crate) mod persistence;
mod pins;
pub(crate) mod replication;

use undercroft_engine::DATABASES;
use undercroft_engine::messages::Topic;

use self::fields::{line, title, zeros};
use crate::arguments::is_keyword;
use crate::context::{Context, Facts};
use crate::failure::Failure;
use crate::handlers::connections::client::connections;
use crate::session::ClientInfo;
use crate::table::REDIS_VERSION;
use crate::users::Reason;

/// All sections in the order of the output, each with a flag for whether INFO without arguments
/// includes it.
const SECTIONS: [(&str, bool); 13] = [
    ("server", true),
    ("clients", true),
    ("memory", true),
    ("persistence", true),
    ("stats", true),
    ("replication", true),
    ("cpu", true),
    ("modules", true),
    ("commandstats", false),
    ("errorstats", true),
    ("latencystats", false),
    ("cluster", true),
    ("keyspace", true),
];

/// Returns the output of INFO for the given sections, or for the default sections if none are
/// given.
pub(crate) fn text(context: &Context<'_>, wanted: &[&[u8]]) -> Result<String, Failure> {
    let named = |name: &str| wanted.iter().any(|section| is_keyword(section, name));
    let default = wanted.is_empty() || named("default");
    let every = named("all") || named("everything");
    let facts = context.host.control.facts();
    let clients = connections(context, &[]);
    let mut out = String::new();
    for (section, in_default) in SECTIONS {
        let is_wanted = every || default && in_default || named(section);
        if !is_wanted {
            continue;
        }
        if !out.is_empty() {
            out.push_str("\r\n");
        }
        match section {
            "server" => server(context, &facts, &mut out),
            "clients" => client_section(context, &facts, &clients, &mut out),
            "memory" => memory::section(context, &clients, &mut out)?,
            "persistence" => persistence::section(context, &mut out),
            "stats" => statistics(context, &facts, &mut out),
            "replication" => replication::section(context, &mut out),
            "cpu" => cpu(&mut out),
            "modules" => title("Modules", &mut out),
            "commandstats" => counted::commands(context, &mut out),
            "errorstats" => counted::errors(context, &mut out),
            "latencystats" => counted::latencies(context, &mut out),
            "cluster" => {
                title("Cluster", &mut out);
                line("cluster_enabled", 0, &mut out);
            }
            _ => keyspace(context, &mut out)?,
        }
    }
    // Redis does not have this section, so include it only if the client requests it.
    if named("pins") {
        if !out.is_empty() {
            out.push_str("\r\n");
        }
        pins::section(context, &mut out);
    }
    Ok(out)
}

fn server(context: &Context<'_>, facts: &Facts, out: &mut String) {
    let now = context.host.now_microseconds();
    let uptime = (now / 1000 - context.host.process.started).max(0) / 1000;
    let hz = context.host.config().integer("hz");
    title("Server", out);
    line("redis_version", REDIS_VERSION, out);
    line("undercroft_version", env!("CARGO_PKG_VERSION"), out);
    line("redis_git_sha1", "00000000", out);
    line("redis_git_dirty", 0, out);
    line("redis_build_id", "0000000000000000", out);
    line("redis_mode", "standalone", out);
    line("os", system(), out);
    line("arch_bits", usize::BITS, out);
    line("monotonic_clock", "POSIX clock_gettime", out);
    line("multiplexing_api", "epoll", out);
    line("atomicvar_api", "rust", out);
    line("process_id", std::process::id(), out);
    line("process_supervised", "no", out);
    line("run_id", context.host.statistics().run_id(), out);
    line("tcp_port", facts.tcp_port, out);
    if !facts.sandbox.is_empty() {
        line("sandbox", facts.sandbox, out);
    }
    if let Some(seconds) = facts.certificate_seconds_left {
        line("tls_certificate_expires_in_seconds", seconds, out);
    }
    line("server_time_usec", now, out);
    line("uptime_in_seconds", uptime, out);
    line("uptime_in_days", uptime / 86_400, out);
    line("hz", hz, out);
    line("configured_hz", hz, out);
    line("lru_clock", (now / 1_000_000) & 0xff_ffff, out);
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

/// Returns the system's name in the format of `uname`, including the kernel release, which helps to
/// interpret bug reports.
fn system() -> String {
    let release = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    format!("Linux {} {}", release.trim(), std::env::consts::ARCH)
}

fn client_section(context: &Context<'_>, facts: &Facts, clients: &[ClientInfo], out: &mut String) {
    let largest = |size: fn(&ClientInfo) -> usize| clients.iter().map(size).max().unwrap_or(0);
    title("Clients", out);
    line("connected_clients", facts.connected_clients, out);
    line("cluster_connections", 0, out);
    line(
        "maxclients",
        context.host.config().integer("maxclients"),
        out,
    );
    line(
        "client_recent_max_input_buffer",
        largest(|client| client.buffers.input + client.buffers.input_free),
        out,
    );
    line(
        "client_recent_max_output_buffer",
        largest(|client| client.buffers.output.max(client.buffers.output_peak)),
        out,
    );
    line("blocked_clients", facts.blocked_clients, out);
    line("tracking_clients", facts.tracking_clients, out);
    line("clients_in_timeout_table", 0, out);
}

/// Converts bytes per second to KiB per second, which is the unit of Redis' fields.
fn kilobytes(bytes: u64) -> String {
    format!("{:.2}", bytes as f64 / 1024.0)
}

fn statistics(context: &Context<'_>, facts: &Facts, out: &mut String) {
    // The counters of this connection that the server has not collected yet.
    let own = &context.session.activity.counters;
    title("Stats", out);
    line("total_connections_received", facts.connections, out);
    line(
        "total_commands_processed",
        facts.commands + own.commands,
        out,
    );
    line("instantaneous_ops_per_sec", facts.commands_per_second, out);
    traffic(facts, out);
    line("rejected_connections", facts.rejected_connections, out);
    zeros(&["sync_full", "sync_partial_ok", "sync_partial_err"], out);
    removals(context, out);
    line("keyspace_hits", facts.hits + own.hits, out);
    line("keyspace_misses", facts.misses + own.misses, out);
    let [channels, patterns, shards] = Topic::ALL.map(|topic| match topic {
        // The sender of messages to replicas is no subscriber.
        Topic::Pattern => context
            .store
            .topics(topic)
            .map_or(0, |names| names.len() as u64),
        _ => context.store.topic_count(topic),
    });
    line("pubsub_channels", channels, out);
    line("pubsub_patterns", patterns, out);
    line("pubsubshard_channels", shards, out);
    zeros(
        &[
            "latest_fork_usec",
            "total_forks",
            "migrate_cached_sockets",
            "slave_expires_tracked_keys",
            "active_defrag_hits",
            "active_defrag_misses",
            "active_defrag_key_hits",
            "active_defrag_key_misses",
            "total_active_defrag_time",
            "current_active_defrag_time",
        ],
        out,
    );
    line("tracking_total_keys", facts.tracking_keys, out);
    line("tracking_total_items", facts.tracking_items, out);
    line("tracking_total_prefixes", facts.tracking_prefixes, out);
    zeros(&["unexpected_error_replies"], out);
    line("total_error_replies", facts.errors + own.errors, out);
    // Redis has these fields since 7.2.
    for reason in Reason::ALL {
        let count = context.host.process.acl_log.count(reason);
        line(reason.counter_name(), count, out);
    }
    if let Some(log) = context.host.process.audit_log() {
        let facts = log.facts();
        line("audit_log_written", facts.written, out);
        line("audit_log_lost", facts.lost, out);
    }
    zeros(&["dump_payload_sanitizations"], out);
    line("total_reads_processed", facts.reads, out);
    line("total_writes_processed", facts.writes, out);
    zeros(
        &[
            "io_threaded_reads_processed",
            "io_threaded_writes_processed",
            "reply_buffer_shrinks",
            "reply_buffer_expands",
        ],
        out,
    );
}

/// Writes the fields about network traffic.
fn traffic(facts: &Facts, out: &mut String) {
    line("total_net_input_bytes", facts.input_bytes, out);
    line("total_net_output_bytes", facts.output_bytes, out);
    zeros(
        &["total_net_repl_input_bytes", "total_net_repl_output_bytes"],
        out,
    );
    for (name, bytes) in [
        ("instantaneous_input_kbps", facts.input_per_second),
        ("instantaneous_output_kbps", facts.output_per_second),
        ("instantaneous_input_repl_kbps", 0),
        ("instantaneous_output_repl_kbps", 0),
    ] {
        line(name, kilobytes(bytes), out);
    }
}

/// Writes the fields about expired and evicted keys.
fn removals(context: &Context<'_>, out: &mut String) {
    line("expired_keys", context.store.expired_keys(), out);
    line("expired_stale_perc", "0.00", out);
    zeros(
        &[
            "expired_time_cap_reached_count",
            "expire_cycle_cpu_milliseconds",
        ],
        out,
    );
    line("evicted_keys", context.store.evicted_keys(), out);
    zeros(
        &[
            "evicted_clients",
            "total_eviction_exceeded_time",
            "current_eviction_exceeded_time",
        ],
        out,
    );
}

/// Writes the CPU section. The kernel reports processor time in hundredths of a second.
fn cpu(out: &mut String) {
    title("CPU", out);
    let process = Times::read("/proc/self/stat");
    line("used_cpu_sys", process.seconds(12), out);
    line("used_cpu_user", process.seconds(11), out);
    line("used_cpu_sys_children", process.seconds(14), out);
    line("used_cpu_user_children", process.seconds(13), out);
    let id = std::process::id();
    let main = Times::read(&format!("/proc/self/task/{id}/stat"));
    line("used_cpu_sys_main_thread", main.seconds(12), out);
    line("used_cpu_user_main_thread", main.seconds(11), out);
}

/// The fields of a `stat` file in `/proc`, which describes a process or a thread.
struct Times(Vec<String>);

impl Times {
    fn read(path: &str) -> Times {
        let text = std::fs::read_to_string(path).unwrap_or_default();
        // Skip up to the end of the second field, the program's name in parentheses. The name can
        // contain any character, but the last parenthesis in the file ends it.
        let rest = text.rsplit_once(')').map_or("", |(_, rest)| rest);
        Times(rest.split_whitespace().map(str::to_owned).collect())
    }

    /// Returns the time field at `index` in seconds. Indexes start after the program's name, and
    /// the kernel reports time in ticks of 10 ms.
    fn seconds(&self, index: usize) -> String {
        let field = self.0.get(index);
        let ticks = field.and_then(|text| text.parse::<f64>().ok());
        format!("{:.6}", ticks.unwrap_or(0.0) / 100.0)
    }
}

fn keyspace(context: &Context<'_>, out: &mut String) -> Result<(), Failure> {
    title("Keyspace", out);
    for database in 0..DATABASES {
        let keys = context.store.count_keys(database)?;
        if keys > 0 {
            let expires = context.store.expiring_keys(database)?;
            let ttl = average_ttl(context, database)?;
            let figures = format!("keys={keys},expires={expires},avg_ttl={ttl}");
            line(&format!("db{database}"), figures, out);
        }
    }
    Ok(())
}

/// Returns the mean time to live, in milliseconds, of the keys in a database that have a deadline.
/// The estimate is based on a sample. Keys are stored in hash order, so the first keys are a random
/// sample. Returns 0 if the sample contains no key with a deadline. Takes O(1) time.
fn average_ttl(context: &Context<'_>, database: usize) -> Result<u64, Failure> {
    /// The number of keys per scan. Scanning stops after `GOES` scans, or when `ENOUGH` keys with a
    /// deadline have been found.
    const AT_ONCE: u64 = 64;
    const GOES: usize = 32;
    const ENOUGH: u64 = 64;
    if context.store.expiring_keys(database)? == 0 {
        return Ok(0);
    }
    let now = context.store.store().now();
    let (mut cursor, mut seen, mut sum) = (0, 0_u64, 0_u128);
    for _ in 0..GOES {
        cursor = context.store.scan(
            database,
            cursor,
            AT_ONCE,
            |reader, entry| entry.expiry(reader.view()),
            |_, deadline| {
                seen += 1;
                sum += u128::from(deadline.saturating_sub(now));
            },
        )?;
        if cursor == 0 || seen >= ENOUGH {
            break;
        }
    }
    Ok(u64::try_from(sum / u128::from(seen.max(1))).unwrap_or(u64::MAX))
}
