//! Writes the state of keys as commands.

use undercroft_engine::ValueType;
use undercroft_engine::keyspace::KeyState;
use undercroft_engine::rdb::dump;
use undercroft_resp::encode::command;

/// The maximum number of items and bytes of a collection that is sent as commands of its type. A
/// larger collection is sent as RESTORE.
const ITEMS_MAX: usize = 256;
const BYTES_MAX: usize = 4096;

/// Appends commands to `out`, and counts them.
#[derive(Debug, Default)]
pub(super) struct Commands {
    pub(super) out: Vec<u8>,
    pub(super) count: usize,
    /// The selected database, or `None` before the first SELECT.
    pub(super) database: Option<usize>,
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
        let Some(state) = state.filter(|state| state.value_type != ValueType::Feed) else {
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
                let payload = dump(state.value_type, state.encoding, items);
                let expiry = expiry.as_deref().unwrap_or("0").as_bytes();
                self.add(&[b"RESTORE", key, expiry, &payload, b"REPLACE", b"ABSTTL"]);
            }
        }
    }
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
