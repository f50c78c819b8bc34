//! Defines the parameter table, with the names, ranges and defaults of Redis 7.0.

use undercroft_numbers::parse_integer;

use super::parse::{
    addresses, file_name, memory, mode, notifications, output_limits, percentiles, save,
};
use super::value::Value;

/// A function that validates and normalizes a new value, given the old value and the new one. On
/// failure, it returns a description of the problem.
pub type Check = fn(&[u8], &[u8]) -> Result<Vec<u8>, &'static str>;

/// The type of a parameter, including its default and its range.
#[derive(Clone, Copy, Debug)]
pub enum Kind {
    /// A `yes`/`no` flag, with its default.
    Boolean(bool),
    /// An integer: its default, minimum and maximum.
    Integer(i64, i64, i64),
    /// A size in bytes: its default, minimum and maximum.
    Memory(u64, u64, u64),
    /// One word from a fixed list: the default, followed by the list.
    Choice(&'static str, &'static [&'static str]),
    /// An arbitrary string, with its default.
    Text(&'static str),
    /// A string that a function validates and normalizes: the default, followed by the function.
    Checked(&'static str, Check),
}

/// A row of the parameter table, which describes one parameter.
#[derive(Debug)]
pub struct Parameter {
    /// The parameter's name in lowercase.
    pub name: &'static str,
    /// An alternative name for the parameter.
    pub alias: Option<&'static str>,
    /// The parameter's type, default and range.
    pub kind: Kind,
    /// Whether the parameter can be set only at startup.
    pub immutable: bool,
    /// Whether a client could misuse the parameter, so that `enable-protected-configs` must allow it
    /// to set it.
    pub protected: bool,
    /// Whether the value must not appear in logs.
    pub secret: bool,
    /// The reason why only the default is supported, or `None` if every value is supported.
    /// Unsupported values are refused, so that the server never reports an ineffective setting as
    /// active.
    pub not_done: Option<&'static str>,
    /// A single unsupported choice, and the reason.
    pub unsupported: Option<(&'static str, &'static str)>,
}

impl Parameter {
    const fn new(name: &'static str, kind: Kind) -> Parameter {
        Parameter {
            name,
            alias: None,
            kind,
            immutable: false,
            protected: false,
            secret: false,
            not_done: None,
            unsupported: None,
        }
    }

    const fn fixed(name: &'static str, kind: Kind) -> Parameter {
        Parameter {
            name,
            alias: None,
            kind,
            immutable: true,
            protected: false,
            secret: false,
            not_done: None,
            unsupported: None,
        }
    }

    const fn protected(mut self) -> Parameter {
        self.protected = true;
        self
    }

    const fn alias(mut self, alias: &'static str) -> Parameter {
        self.alias = Some(alias);
        self
    }

    const fn secret(mut self) -> Parameter {
        self.secret = true;
        self
    }

    const fn not_done(mut self, reason: &'static str) -> Parameter {
        self.not_done = Some(reason);
        self
    }

    const fn without(mut self, choice: &'static str, reason: &'static str) -> Parameter {
        self.unsupported = Some((choice, reason));
        self
    }

    /// Returns a parameter's index in [`PARAMETERS`]. Meant for use in constants.
    ///
    /// # Panics
    /// Panics if no parameter has this name.
    pub const fn place(name: &str) -> usize {
        let mut place = 0;
        while place < PARAMETERS.len() {
            let (this, other) = (PARAMETERS[place].name.as_bytes(), name.as_bytes());
            let mut same = 0;
            while same < this.len() && same < other.len() && this[same] == other[same] {
                same += 1;
            }
            if same == this.len() && same == other.len() {
                return place;
            }
            place += 1;
        }
        panic!("no configuration parameter of this name");
    }

    /// Returns the parameter's name, followed by its alias if one exists.
    pub(super) fn names(&self) -> impl Iterator<Item = &'static str> {
        std::iter::once(self.name).chain(self.alias)
    }

    pub(super) fn default_value(&self) -> Value {
        match self.kind {
            Kind::Boolean(value) => Value::Boolean(value),
            Kind::Integer(value, ..) => Value::Integer(value),
            Kind::Memory(value, ..) => Value::Memory(value),
            Kind::Choice(word, _) => Value::Choice(word),
            Kind::Text(text) | Kind::Checked(text, _) => Value::Text(text.as_bytes().to_vec()),
        }
    }

    /// Returns the reason why a value is unsupported, or `None` if it is supported.
    pub(super) fn refuses(&self, value: &Value) -> Option<&'static str> {
        let is_unsupported = |choice| *value == Value::Choice(choice);
        let unsupported = self
            .unsupported
            .filter(|(choice, _)| is_unsupported(choice));
        self.not_done
            .filter(|_| *value != self.default_value())
            .or(unsupported.map(|(_, reason)| reason))
    }

    /// Parses a value. If the value is invalid, returns Redis' description of the problem.
    pub(super) fn parse(&self, old: &Value, text: &[u8]) -> Result<Value, String> {
        match self.kind {
            Kind::Boolean(_) if text.eq_ignore_ascii_case(b"yes") => Ok(Value::Boolean(true)),
            Kind::Boolean(_) if text.eq_ignore_ascii_case(b"no") => Ok(Value::Boolean(false)),
            Kind::Boolean(_) => Err("argument must be 'yes' or 'no'".into()),
            Kind::Integer(_, least, most) => match parse_integer(text) {
                None => Err("argument couldn't be parsed into an integer".into()),
                Some(number) if (least..=most).contains(&number) => Ok(Value::Integer(number)),
                Some(_) => Err(format!(
                    "argument must be between {least} and {most} inclusive"
                )),
            },
            Kind::Memory(_, least, most) => match memory(text) {
                None => Err("argument must be a memory value".into()),
                Some(bytes) if (least..=most).contains(&bytes) => Ok(Value::Memory(bytes)),
                Some(_) => Err(format!(
                    "argument must be between {least} and {most} inclusive"
                )),
            },
            Kind::Choice(_, words) => {
                let found = words
                    .iter()
                    .find(|word| word.as_bytes().eq_ignore_ascii_case(text));
                let found = found.map(|word| Value::Choice(word));
                found.ok_or_else(|| {
                    format!(
                        "argument(s) must be one of the following: {}",
                        words.join(", ")
                    )
                })
            }
            Kind::Text(_) => Ok(Value::Text(text.to_vec())),
            Kind::Checked(_, check) => Ok(Value::Text(check(&old.text(), text)?)),
        }
    }
}

use Kind::{Boolean, Checked, Choice, Integer, Memory, Text};

const INT: i64 = i32::MAX as i64;
const LONG: u64 = i64::MAX as u64;
const GIB: u64 = 1 << 30;
const MIB: u64 = 1 << 20;

/// Whether an action is allowed to no client, to all, or to those on this machine.
const PERMISSIONS: &[&str] = &["no", "yes", "local"];

/// All parameters. The defaults are those of Redis, except that Undercroft's defaults for the
/// memory limit and the listening addresses are more cautious.
pub const PARAMETERS: &[Parameter] = &[
    Parameter::new("maxmemory", Memory(GIB, 0, u64::MAX)),
    Parameter::new(
        "maxmemory-policy",
        Choice(
            "noeviction",
            &[
                "volatile-lru",
                "volatile-lfu",
                "volatile-random",
                "volatile-ttl",
                "allkeys-lru",
                "allkeys-lfu",
                "allkeys-random",
                "noeviction",
            ],
        ),
    ),
    Parameter::new("maxmemory-samples", Integer(5, 1, INT)),
    Parameter::new("maxmemory-eviction-tenacity", Integer(10, 0, 100)),
    Parameter::new("lfu-log-factor", Integer(10, 0, INT)),
    Parameter::new("lfu-decay-time", Integer(1, 0, INT)),
    Parameter::new("active-expire-effort", Integer(1, 1, 10)),
    Parameter::new("lazyfree-lazy-eviction", Boolean(false)),
    Parameter::new("lazyfree-lazy-expire", Boolean(false)),
    Parameter::new("lazyfree-lazy-server-del", Boolean(false)),
    Parameter::new("lazyfree-lazy-user-del", Boolean(false)),
    Parameter::new("lazyfree-lazy-user-flush", Boolean(false)),
    Parameter::new("busy-reply-threshold", Integer(1000, 0, i64::MAX)).alias("lua-time-limit"),
    // Undercroft never writes snapshots, so no snapshot can fail, and both values have the same
    // effect.
    Parameter::new("stop-writes-on-bgsave-error", Boolean(true)),
    Parameter::new("min-replicas-to-write", Integer(0, 0, INT)).alias("min-slaves-to-write"),
    Parameter::new("min-replicas-max-lag", Integer(10, 0, INT)).alias("min-slaves-max-lag"),
    Parameter::new("repl-backlog-size", Memory(1 << 20, 1, LONG)),
    Parameter::new("repl-backlog-ttl", Integer(3600, 0, i64::MAX)),
    Parameter::new("repl-timeout", Integer(60, 1, INT)),
    Parameter::new("repl-ping-replica-period", Integer(10, 1, INT)).alias("repl-ping-slave-period"),
    // The version of the data set and of the commands that replicas understand.
    Parameter::new("replica-rdb-version", Choice("10", &["9", "10"])),
    Parameter::new("timeout", Integer(0, 0, INT)),
    Parameter::new("tcp-keepalive", Integer(300, 0, INT)),
    Parameter::fixed("tcp-backlog", Integer(511, 0, INT)),
    Parameter::new("maxclients", Integer(10_000, 1, u32::MAX as i64)),
    Parameter::new("masterauth", Text("")).secret(),
    Parameter::new("masteruser", Text("")),
    Parameter::new("requirepass", Text("")).secret(),
    Parameter::new("protected-mode", Boolean(true)),
    // Fixed, because a client must not choose which file the server reads and writes.
    Parameter::fixed("aclfile", Text("")),
    Parameter::new(
        "acl-pubsub-default",
        Choice("resetchannels", &["allchannels", "resetchannels"]),
    ),
    Parameter::new("acllog-max-len", Integer(128, 0, i64::MAX)),
    Parameter::new("bind", Checked("127.0.0.1 -::1", addresses)),
    Parameter::new("port", Integer(6379, 0, 65_535)),
    Parameter::fixed("unixsocket", Text("")),
    // 0 stands for the default: 600, or 660 with a group.
    Parameter::fixed("unixsocketperm", Checked("0", mode)),
    Parameter::fixed("unixsocketgroup", Text("")),
    Parameter::new("tls-port", Integer(0, 0, 65_535)),
    Parameter::new("tls-cert-file", Text("")),
    Parameter::new("tls-key-file", Text("")),
    Parameter::new("tls-key-file-pass", Text("")).secret(),
    Parameter::new("tls-ca-cert-file", Text("")),
    Parameter::new("tls-ca-cert-dir", Text("")),
    Parameter::new(
        "tls-auth-clients",
        Choice("yes", &["no", "yes", "optional"]),
    ),
    Parameter::new(
        "tls-auth-clients-user",
        Choice("off", &["off", "CN", "URI"]),
    ),
    Parameter::new("tls-protocols", Text("")),
    Parameter::new("tls-ciphers", Text("")),
    Parameter::new("tls-ciphersuites", Text("")),
    Parameter::new("tls-prefer-server-ciphers", Boolean(false)),
    Parameter::new("tls-session-caching", Boolean(true)),
    Parameter::new("tls-session-cache-size", Integer(20_480, 0, INT)),
    Parameter::new("proto-max-bulk-len", Memory(512 * MIB, MIB, LONG)),
    Parameter::new("client-query-buffer-limit", Memory(GIB, MIB, LONG)),
    Parameter::new(
        "client-output-buffer-limit",
        Checked(
            "normal 0 0 0 slave 268435456 67108864 60 pubsub 33554432 8388608 60",
            output_limits,
        ),
    ),
    Parameter::new("slowlog-log-slower-than", Integer(10_000, -1, i64::MAX)),
    Parameter::new("slowlog-max-len", Integer(128, 0, i64::MAX)),
    Parameter::new("latency-monitor-threshold", Integer(0, 0, i64::MAX)),
    Parameter::new("latency-tracking", Boolean(true)),
    Parameter::new(
        "latency-tracking-info-percentiles",
        Checked("50 99 99.9", percentiles),
    ),
    Parameter::new("tracking-table-max-keys", Integer(1_000_000, 0, i64::MAX)),
    Parameter::new("notify-keyspace-events", Checked("", notifications)),
    Parameter::new("hz", Integer(10, 0, INT)),
    Parameter::new("dynamic-hz", Boolean(true)),
    Parameter::new("activerehashing", Boolean(true)),
    Parameter::fixed("databases", Integer(16, 1, INT)).not_done("every store has 16"),
    Parameter::new(
        "loglevel",
        Choice("notice", &["debug", "verbose", "notice", "warning"]),
    ),
    Parameter::fixed("logfile", Text("")).not_done("the log goes to standard error"),
    Parameter::fixed("daemonize", Boolean(false))
        .not_done("the server stays in the foreground; run it under a service manager"),
    // Fixed, because a proxy can announce any address.
    Parameter::fixed("proxy-protocol", Boolean(false)),
    Parameter::fixed("proxy-protocol-sources", Text("")),
    Parameter::fixed("sandbox", Choice("auto", &["auto", "yes", "no"])),
    // Redis' default is `no`. Without systemd, `auto` has no effect.
    Parameter::fixed(
        "supervised",
        Choice("auto", &["upstart", "systemd", "auto", "no"]),
    )
    .without("upstart", "upstart is not supported"),
    // Fixed, because a client must not choose which file the server writes, nor end the log.
    Parameter::fixed("audit-log", Text("")),
    Parameter::fixed("audit-log-required", Boolean(false)),
    Parameter::fixed("enable-protected-configs", Choice("no", PERMISSIONS)),
    Parameter::fixed("enable-debug-command", Choice("no", PERMISSIONS)),
    Parameter::fixed("enable-module-command", Choice("no", PERMISSIONS))
        .not_done("modules are not supported"),
    Parameter::new(
        "durability",
        Choice("none", &["none", "everysec", "always"]),
    ),
    Parameter::new("appendonly", Boolean(false)),
    Parameter::new(
        "appendfsync",
        Choice("everysec", &["everysec", "always", "no"]),
    )
    .without(
        "no",
        "not supported: the journal is synced at least once a second; use everysec",
    ),
    Parameter::new("auto-aof-rewrite-percentage", Integer(100, 0, INT)),
    Parameter::new("auto-aof-rewrite-min-size", Memory(64 * MIB, 0, LONG))
        .not_done("not supported: a checkpoint begins once the journal has grown by 64 MiB"),
    Parameter::new("checkpoint-rate", Memory(256 * MIB, 0, LONG)),
    // Protected, because a client must not choose where the server writes files, nor which hosts it
    // connects to.
    Parameter::new("dir", Text("")).protected(),
    Parameter::new("migrate-hosts", Text("")).protected(),
    Parameter::new("dbfilename", Checked("dump.rdb", file_name)).protected(),
    Parameter::new("save", Checked("", save)).not_done(
        "a schedule of snapshots is not supported: 'appendonly yes' keeps every change, and BGSAVE \
         writes a checkpoint",
    ),
    Parameter::new("list-max-listpack-size", Integer(-2, -INT - 1, INT))
        .alias("list-max-ziplist-size"),
    Parameter::new("list-compress-depth", Integer(0, 0, INT)),
    Parameter::new("hash-max-listpack-entries", Integer(512, 0, i64::MAX))
        .alias("hash-max-ziplist-entries"),
    Parameter::new("hash-max-listpack-value", Memory(64, 0, LONG)).alias("hash-max-ziplist-value"),
    Parameter::new("set-max-intset-entries", Integer(512, 0, i64::MAX)),
    Parameter::new("zset-max-listpack-entries", Integer(128, 0, i64::MAX))
        .alias("zset-max-ziplist-entries"),
    Parameter::new("zset-max-listpack-value", Memory(64, 0, LONG)).alias("zset-max-ziplist-value"),
    Parameter::new("hll-sparse-max-bytes", Memory(3000, 0, LONG)),
    Parameter::new("stream-node-max-bytes", Memory(4096, 0, LONG)),
    Parameter::new("stream-node-max-entries", Integer(100, 0, i64::MAX)),
];
