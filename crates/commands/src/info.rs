//! INFO: figures about the server and the store, in Redis' form.

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
