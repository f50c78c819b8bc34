//! Writes the state of keys as commands.

use undercroft_engine::ValueType;
use undercroft_engine::keyspace::{Delta, KeyState, ListEnds, StreamDelta};
use undercroft_engine::rdb::{RdbVersion, dump_as};
use undercroft_engine::streams::StreamId;
use undercroft_resp::encode::command;

/// The maximum number of items and bytes of a collection that is sent as commands of its type. A
/// larger collection is sent as RESTORE.
const ITEMS_MAX: usize = 256;
const BYTES_MAX: usize = 4096;
/// The maximum number of items that one command adds or removes.
const GROUP: usize = 1024;

/// Appends commands to `out`, and counts them.
#[derive(Debug, Default)]
pub(super) struct Commands {
    pub(super) out: Vec<u8>,
    pub(super) count: usize,
    /// The selected database, or `None` before the first SELECT.
    pub(super) database: Option<usize>,
    /// Whether Redis 5.0 must understand the commands.
    pub(super) is_old: bool,
    /// Whether feeds were left out.
    pub(super) has_feeds: bool,
}

impl Commands {
    pub(super) fn add<A: AsRef<[u8]>>(&mut self, arguments: &[A]) {
        command(&mut self.out, arguments);
        self.count += 1;
    }

    /// Returns the commands, as one transaction if more than one changes something.
    pub(super) fn into_transaction(self) -> Vec<u8> {
        // The first command selects a database.
        if self.count <= 2 {
            return self.out;
        }
        let mut out = Vec::with_capacity(self.out.len() + 64);
        command(&mut out, &["MULTI"]);
        out.extend_from_slice(&self.out);
        command(&mut out, &["EXEC"]);
        out
    }

    /// Begins a transaction of any length, of which [`end_transaction`](Self::end_transaction) is the end.
    pub(super) fn begin_transaction(&mut self) {
        command(&mut self.out, &["MULTI"]);
    }

    pub(super) fn end_transaction(&mut self) {
        command(&mut self.out, &["EXEC"]);
    }

    /// Adds SELECT, unless the database is already selected.
    pub(super) fn select(&mut self, database: usize) {
        if self.database.replace(database) != Some(database) {
            let number = database.to_string();
            self.add(&["SELECT", &number]);
        }
    }

    /// Adds the commands that give a key its state in a replica, whatever its state was there.
    pub(super) fn set(&mut self, database: usize, key: &[u8], state: Option<&KeyState>) {
        self.select(database);
        let is_feed = state.is_some_and(|state| state.value_type == ValueType::Feed);
        self.has_feeds |= is_feed;
        let Some(state) = state.filter(|_| !is_feed) else {
            return self.add(&[b"DEL", key]);
        };
        let items = &state.items;
        let is_small = items.len() <= ITEMS_MAX && items.byte_length() <= BYTES_MAX;
        let expiry = state.expiry.map(|expiry| expiry.to_string());
        match (state.value_type, collection_command(state.value_type)) {
            (ValueType::String, _) => {
                let value = items.iter().next().unwrap_or_default();
                match &expiry {
                    None => self.add(&[b"SET", key, value]),
                    Some(expiry) if self.is_old => {
                        self.add(&[b"SET", key, value]);
                        self.add(&[b"PEXPIREAT", key, expiry.as_bytes()]);
                    }
                    Some(expiry) => {
                        self.add(&[b"SET", key, value, b"PXAT", expiry.as_bytes()]);
                    }
                }
            }
            (_, Some(name)) if is_small => {
                self.add(&[b"DEL", key]);
                let mut arguments = vec![name, key];
                match state.value_type {
                    ValueType::SortedSet => items.iter().enumerate().for_each(|(index, item)| {
                        // ZADD expects the score in front of the member.
                        let at = if index % 2 == 0 {
                            arguments.len()
                        } else {
                            arguments.len() - 1
                        };
                        arguments.insert(at, item);
                    }),
                    _ => arguments.extend(items.iter()),
                }
                self.add(&arguments);
                if let Some(expiry) = &expiry {
                    self.add(&[b"PEXPIREAT", key, expiry.as_bytes()]);
                }
            }
            _ => {
                let version = match self.is_old {
                    true => RdbVersion::V9,
                    false => RdbVersion::V10,
                };
                let payload = dump_as(version, state.value_type, state.encoding, items);
                let expiry = expiry.as_deref().unwrap_or("0").as_bytes();
                self.add(&[b"RESTORE", key, expiry, &payload, b"REPLACE", b"ABSTTL"]);
            }
        }
    }

    /// Adds the commands that update a key in a replica which has its earlier state.
    pub(super) fn update(&mut self, database: usize, key: &[u8], delta: &Delta) {
        self.select(database);
        for (position, bytes) in &delta.bytes {
            let position = position.to_string();
            self.add(&[b"SETRANGE", key, position.as_bytes(), bytes]);
        }
        self.update_members(key, delta);
        if let Some(ends) = &delta.ends {
            self.update_ends(key, ends);
        }
        if let Some(stream) = &delta.stream {
            self.update_stream(key, stream);
        }
        match delta.expiry {
            None => {}
            Some(None) => self.add(&[b"PERSIST", key]),
            Some(Some(expiry)) => {
                self.add(&[b"PEXPIREAT", key, expiry.to_string().as_bytes()]);
            }
        }
    }

    /// Members are added before others are removed, because removing the last one removes the key.
    fn update_members(&mut self, key: &[u8], delta: &Delta) {
        let (add, remove): (&[u8], &[u8]) = match delta.value_type {
            Some(ValueType::Hash) => (b"HSET", b"HDEL"),
            Some(ValueType::Set) => (b"SADD", b"SREM"),
            _ => (b"ZADD", b"ZREM"),
        };
        for group in delta.members.chunks(GROUP) {
            let (mut added, mut removed) = (vec![add, key], vec![remove, key]);
            for (member, value) in group {
                match (delta.value_type, value) {
                    (_, None) => removed.push(member),
                    (Some(ValueType::Set), Some(_)) => added.push(member),
                    (Some(ValueType::Hash), Some(value)) => added.extend([&member[..], value]),
                    (_, Some(score)) => added.extend([&score[..], member]),
                }
            }
            for arguments in [added, removed] {
                if arguments.len() > 2 {
                    self.add(&arguments);
                }
            }
        }
    }

    fn update_ends(&mut self, key: &[u8], ends: &ListEnds) {
        let [left, right] = ends.removed;
        if self.is_old && left > 0 {
            self.add(&[b"LTRIM", key, left.to_string().as_bytes(), b"-1"]);
        }
        if self.is_old && right > 0 {
            let last = format!("-{}", u128::from(right) + 1);
            self.add(&[b"LTRIM", key, b"0", last.as_bytes()]);
        }
        for (name, count) in [(b"LPOP", left), (b"RPOP", right)] {
            if count > 0 && !self.is_old {
                self.add(&[name, key, count.to_string().as_bytes()]);
            }
        }
        let mut left: Vec<&[u8]> = ends.left.iter().collect();
        // LPUSH adds one item after the other, so the last one ends up first.
        left.reverse();
        for group in left.chunks(GROUP) {
            self.add(&[&[b"LPUSH", key], group].concat());
        }
        let right: Vec<&[u8]> = ends.right.iter().collect();
        for group in right.chunks(GROUP) {
            self.add(&[&[b"RPUSH", key], group].concat());
        }
    }

    fn update_groups(&mut self, key: &[u8], stream: &StreamDelta) {
        for [group, name] in &stream.consumers {
            self.add(&[&b"XGROUP"[..], b"CREATECONSUMER", key, group, name]);
        }
        for (group, last, read) in &stream.groups {
            let (last, read) = (id_text(*last), read.unwrap_or(-1).to_string());
            let id = last.as_bytes();
            self.add(&[
                &b"XGROUP"[..],
                b"SETID",
                key,
                group,
                id,
                b"ENTRIESREAD",
                read.as_bytes(),
            ]);
        }
        for (group, id, entry) in &stream.pending {
            let id = id_text(*id);
            let id = id.as_bytes();
            match entry {
                None => self.add(&[b"XACK", key, group, id]),
                Some(entry) => {
                    let time = entry.time.to_string();
                    let count = entry.deliveries.to_string();
                    self.add(&[
                        b"XCLAIM",
                        key,
                        group,
                        &entry.consumer,
                        b"0",
                        id,
                        b"TIME",
                        time.as_bytes(),
                        b"RETRYCOUNT",
                        count.as_bytes(),
                        b"FORCE",
                        b"JUSTID",
                    ]);
                }
            }
        }
    }

    fn update_stream(&mut self, key: &[u8], stream: &StreamDelta) {
        let text = id_text;
        for (id, fields) in &stream.added {
            let id = text(*id);
            let mut arguments = vec![b"XADD", key, id.as_bytes()];
            arguments.extend(fields.iter());
            self.add(&arguments);
        }
        self.update_groups(key, stream);
        for id in &stream.deleted {
            self.add(&[b"XDEL", key, text(*id).as_bytes()]);
        }
        match stream.trimmed {
            None => {}
            Some(None) => self.add(&[b"XTRIM", key, b"MAXLEN", b"0"]),
            Some(Some(first)) => self.add(&[b"XTRIM", key, b"MINID", text(first).as_bytes()]),
        }
        if !stream.has_entries {
            return;
        }
        let added = stream.entries_added.to_string();
        self.add(&[
            b"XSETID",
            key,
            text(stream.last).as_bytes(),
            b"ENTRIESADDED",
            added.as_bytes(),
            b"MAXDELETEDID",
            text(stream.max_deleted).as_bytes(),
        ]);
    }
}

fn id_text(id: StreamId) -> String {
    format!("{}-{}", id.ms, id.seq)
}

/// Returns the command that adds items to a collection of a type, if one command can add all.
fn collection_command(value_type: ValueType) -> Option<&'static [u8]> {
    match value_type {
        ValueType::List => Some(b"RPUSH"),
        ValueType::Set => Some(b"SADD"),
        ValueType::SortedSet => Some(b"ZADD"),
        ValueType::Hash => Some(b"HSET"),
        _ => None,
    }
}
