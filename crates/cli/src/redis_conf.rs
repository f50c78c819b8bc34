//! Decides how to treat redis.conf directives that are not parameters of Undercroft.

/// How a directive is treated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Meaning {
    /// The directive has no effect in Undercroft. It is reported once and skipped.
    Skipped,
    /// Ignoring the directive would be unsafe, so the server refuses to start for the given reason.
    Refused(&'static str),
    /// The directive is neither skipped nor refused: it is either a parameter of Undercroft or an
    /// unknown name.
    Unknown,
}

/// Directives for things that Undercroft does not have: other servers, and Redis' files, allocator
/// and processes.
const SKIPPED: &str = "
    active-defrag-cycle-max active-defrag-cycle-min active-defrag-ignore-bytes
    active-defrag-max-scan-fields active-defrag-threshold-lower active-defrag-threshold-upper activedefrag
    always-show-logo aof-disable-auto-gc aof-load-truncated aof-rewrite-incremental-fsync aof-timestamp-enabled
    aof-use-rdb-preamble aof_rewrite_cpulist appenddirname appendfilename bgsave_cpulist bio_cpulist busy-reply-threshold
    cluster-allow-pubsubshard-when-down cluster-allow-reads-when-down cluster-allow-replica-migration
    cluster-announce-bus-port cluster-announce-hostname cluster-announce-ip cluster-announce-port
    cluster-announce-tls-port cluster-config-file cluster-link-sendbuf-limit cluster-migration-barrier
    cluster-node-timeout cluster-port cluster-preferred-endpoint-type cluster-replica-no-failover
    cluster-replica-validity-factor cluster-require-full-coverage cluster-slave-no-failover
    cluster-slave-validity-factor crash-log-enabled crash-memcheck-enabled disable-thp
    ignore-warnings io-threads io-threads-do-reads
    jemalloc-bg-thread latency-tracking latency-tracking-info-percentiles lua-time-limit
    maxmemory-clients no-appendfsync-on-rewrite oom-score-adj oom-score-adj-values pidfile proc-title-template
    propagation-error-behavior rdb-del-sync-files rdb-save-incremental-fsync rdbchecksum rdbcompression
    repl-disable-tcp-nodelay repl-diskless-load repl-diskless-sync
    repl-diskless-sync-delay repl-diskless-sync-max-replicas
    replica-announce-ip replica-announce-port replica-announced replica-ignore-disk-write-errors
    replica-ignore-maxmemory replica-lazy-flush replica-priority replica-read-only replica-serve-stale-data
    sanitize-dump-payload server_cpulist set-proc-title shutdown-on-sigint shutdown-on-sigterm shutdown-timeout
    slave-announce-ip slave-announce-port slave-ignore-maxmemory slave-lazy-flush slave-priority slave-read-only
    slave-serve-stale-data socket-mark-id syslog-enabled syslog-facility
    syslog-ident tls-dh-params-file tls-session-cache-timeout
";

const NO_TLS_TO_SOURCE: &str =
    "REPLICAOF does not encrypt; follow the source with 'undercroft follow rediss://HOST:PORT'";

/// Directives that affect permissions or the source of the data. Each is listed with the values
/// that have no effect, and the reason for refusing all other values.
const REFUSED: &[(&str, &[&str], &str)] = &[
    (
        "bind-source-addr",
        &[""],
        "the server opens no outgoing connections",
    ),
    ("cluster-enabled", &["no"], "one server serves a store"),
    (
        "include",
        &[],
        "included files are not read; copy their lines here",
    ),
    ("loadmodule", &[], "modules are not supported"),
    ("tls-client-cert-file", &[""], NO_TLS_TO_SOURCE),
    ("tls-client-key-file", &[""], NO_TLS_TO_SOURCE),
    ("tls-client-key-file-pass", &[""], NO_TLS_TO_SOURCE),
    ("tls-cluster", &["no"], "one server serves a store"),
    ("tls-replication", &["no"], NO_TLS_TO_SOURCE),
];

/// Returns how to treat a directive, given its name in lowercase and its value.
pub(crate) fn meaning(name: &str, value: &str) -> Meaning {
    if let Some((_, harmless, reason)) = REFUSED.iter().find(|(other, ..)| *other == name) {
        return match harmless.contains(&value) {
            true => Meaning::Skipped,
            false => Meaning::Refused(reason),
        };
    }
    match SKIPPED.split_ascii_whitespace().any(|other| other == name) {
        true => Meaning::Skipped,
        false => Meaning::Unknown,
    }
}
