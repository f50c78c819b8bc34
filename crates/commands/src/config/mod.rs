//! Manages the configuration: a table of typed parameters and their current values.
//!
//! The names, ranges and error texts are those of Redis 7.0. This module only stores values. The
//! server applies them: when [`Config::generation`] has changed, the server rereads the parameters
//! that it needs.
//!
//! All folders of this crate except `algorithms`, `reply` and `table` can call this module, as can
//! programs that serve or embed a store.
//!
//! - `durability`: maps Redis' parameters for append-only files to the store's durability mode.
//! - `parameters`: defines the parameters, with the names, ranges and defaults of Redis 7.0.
//! - `parse`: parses values using Redis' rules and error texts.
//! - `stored`: reads and writes the parameters that are kept in the store and shared by all its
//!   processes.
//! - `value`: defines the types of values.

mod durability;
mod parameters;
mod parse;
mod stored;
mod value;

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};

use arc_swap::{ArcSwap, Guard};
pub(crate) use durability::is_durable;
pub use durability::{DURABLE, mode_after, value_in_mode};
pub use parameters::{Check, Kind, PARAMETERS, Parameter};
pub(crate) use parse::percentile_text;
pub use stored::{STORED, store_value, stored_value};
use undercroft_engine::glob::{Case, matches};
use undercroft_engine::streams::StreamLimits;
use undercroft_engine::{ForkMutex, Limits, PackedLimits};
pub use value::Value;

use crate::arguments::CommandError;

/// A parameter and its new value.
pub type Change = (&'static Parameter, Value);

/// The current values of all parameters. Threads can share a `Config`.
#[derive(Debug)]
pub struct Config {
    /// The values in the order of [`PARAMETERS`]. The vector is replaced, never modified, so that a
    /// forked child always sees a complete vector.
    values: ArcSwap<Vec<Value>>,
    /// Copies of the numeric and `yes`/`no` values, for commands that read a parameter on each
    /// call.
    numbers: [AtomicI64; PARAMETERS.len()],
    /// The lock that is held while a change is parsed, applied and stored, so that concurrent
    /// changes do not interleave.
    changing: ForkMutex<()>,
    generation: AtomicU64,
}

impl Default for Config {
    fn default() -> Config {
        Config::new()
    }
}

impl Config {
    /// Returns a configuration in which every parameter has its default value.
    pub fn new() -> Config {
        let values: Vec<Value> = PARAMETERS.iter().map(Parameter::default_value).collect();
        Config {
            numbers: std::array::from_fn(|place| AtomicI64::new(values[place].number())),
            values: ArcSwap::from_pointee(values),
            changing: ForkMutex::default(),
            generation: AtomicU64::new(0),
        }
    }

    /// Returns a counter that every successful [`Config::set`] increments.
    pub fn generation(&self) -> u64 {
        self.generation.load(Ordering::Acquire)
    }

    /// Returns whether a thread is changing parameters, so that another change has to wait for it.
    pub(crate) fn is_changing(&self) -> bool {
        self.changing.try_lock().is_none()
    }

    /// Returns the value of a parameter.
    ///
    /// # Panics
    /// Panics if no parameter has this name.
    pub fn value(&self, name: &str) -> Value {
        let position = PARAMETERS
            .iter()
            .position(|parameter| parameter.name == name);
        let position = position.unwrap_or_else(|| panic!("no configuration parameter {name:?}"));
        self.read()[position].clone()
    }

    /// Returns the value of a numeric or size parameter. Sizes saturate at `i64::MAX`.
    ///
    /// # Panics
    /// Panics if no parameter has this name, or if its value is neither a number nor a size.
    pub fn integer(&self, name: &str) -> i64 {
        match self.value(name) {
            Value::Integer(number) => number,
            Value::Memory(bytes) => i64::try_from(bytes).unwrap_or(i64::MAX),
            other => panic!("configuration parameter {name:?} is no number: {other:?}"),
        }
    }

    /// Returns the value of a number, size or flag parameter (`yes` is 1, `no` is 0), given the
    /// parameter's index from [`Parameter::place`]. Takes about a nanosecond.
    #[inline]
    pub fn number_at(&self, place: usize) -> i64 {
        self.numbers[place].load(Ordering::Relaxed)
    }

    /// Returns whether writes must be refused while too few replicas are connected. As in Redis,
    /// replicas are required only if both parameters are greater than 0.
    #[inline]
    pub fn requires_replicas(&self) -> bool {
        let (count, lag) = self.required_replicas();
        count > 0 && lag > 0
    }

    /// Returns the number of replicas that writes require, and the age in seconds that the last
    /// acknowledgement of each can have.
    #[inline]
    pub fn required_replicas(&self) -> (usize, u64) {
        const COUNT: usize = Parameter::place("min-replicas-to-write");
        const LAG: usize = Parameter::place("min-replicas-max-lag");
        let [count, lag] = [COUNT, LAG].map(|place| self.number_at(place).max(0) as u64);
        (count as usize, lag)
    }

    /// Returns the size limits above which a stream's leaf node accepts no further entries.
    #[inline]
    pub fn stream_limits(&self) -> StreamLimits {
        const ENTRIES: usize = Parameter::place("stream-node-max-entries");
        const BYTES: usize = Parameter::place("stream-node-max-bytes");
        StreamLimits {
            entries: self.number_at(ENTRIES).unsigned_abs(),
            bytes: self.number_at(BYTES).unsigned_abs(),
        }
    }

    /// Returns the size limits up to which collections stay packed in a single block.
    #[inline]
    pub fn limits(&self) -> Limits {
        const FIELDS: usize = Parameter::place("hash-max-listpack-entries");
        const LENGTH: usize = Parameter::place("hash-max-listpack-value");
        const MEMBERS: usize = Parameter::place("zset-max-listpack-entries");
        const MEMBER: usize = Parameter::place("zset-max-listpack-value");
        const INTEGERS: usize = Parameter::place("set-max-intset-entries");
        // Redis limits the number of entries in integer sets.
        const INTEGERS_MAX: u64 = 1 << 30;
        let number = |place| self.number_at(place).unsigned_abs();
        Limits {
            hash: PackedLimits {
                entries: number(FIELDS),
                value: number(LENGTH),
            },
            integers: number(INTEGERS).min(INTEGERS_MAX),
            sorted: PackedLimits {
                entries: number(MEMBERS),
                value: number(MEMBER),
            },
        }
    }

    /// Returns the value of a `yes`/`no` parameter.
    ///
    /// # Panics
    /// Panics if no parameter has this name, or if its value is neither `yes` nor `no`.
    pub fn boolean(&self, name: &str) -> bool {
        match self.value(name) {
            Value::Boolean(value) => value,
            other => panic!("configuration parameter {name:?} is not yes or no: {other:?}"),
        }
    }

    /// Implements CONFIG GET: returns the names and values of all parameters that match any of the
    /// patterns, ignoring case. If a pattern has no wildcards, the name is returned in the caller's
    /// spelling. Takes O(patterns * parameters) time.
    pub fn get(&self, patterns: &[&[u8]]) -> Vec<(Vec<u8>, Vec<u8>)> {
        let values = self.read();
        let mut found: Vec<(Vec<u8>, Vec<u8>)> = Vec::new();
        let mut add = |name: &[u8], value: &Value| {
            if !found
                .iter()
                .any(|(other, _)| other.eq_ignore_ascii_case(name))
            {
                found.push((name.to_vec(), value.text()));
            }
        };
        for pattern in patterns {
            let plain = !pattern.iter().any(|byte| b"[*?".contains(byte));
            for (parameter, value) in PARAMETERS.iter().zip(values.iter()) {
                for name in parameter.names() {
                    if plain && pattern.eq_ignore_ascii_case(name.as_bytes()) {
                        add(pattern, value);
                    } else if !plain
                        && matches(pattern, name.as_bytes(), Case::Insensitive) == Ok(true)
                    {
                        add(name.as_bytes(), value);
                    }
                }
            }
        }
        found
    }

    /// Returns whether a parameter that is `yes`, `no` or `local` allows an action to a client.
    ///
    /// # Panics
    /// Panics if no parameter has this name.
    pub(crate) fn allows(&self, name: &str, is_local: bool) -> bool {
        match self.value(name) {
            Value::Choice("yes") => true,
            Value::Choice("local") => is_local,
            _ => false,
        }
    }

    /// Implements CONFIG SET: sets all pairs of names and values, or none of them. `is_local` is
    /// whether the client is on this machine, which `enable-protected-configs` can require. `apply`
    /// puts the changes into effect before they are stored, and can refuse them.
    ///
    /// # Errors
    /// Returns Redis' error reply, which names the first invalid argument.
    pub fn set(
        &self,
        pairs: &[(&[u8], &[u8])],
        is_local: bool,
        apply: impl FnOnce(&[Change]) -> Result<(), (&'static Parameter, String)>,
    ) -> Result<(), CommandError> {
        let mut chosen: Vec<NamedParameter> = Vec::with_capacity(pairs.len());
        for (name, _) in pairs {
            let found = find(name).ok_or_else(|| {
                let before = "ERR Unknown option or number of arguments for CONFIG SET - ";
                CommandError::quoting(before, name, "")
            })?;
            if found.parameter.immutable {
                return Err(failure(name, "can't set immutable config"));
            }
            if found.parameter.protected && !self.allows("enable-protected-configs", is_local) {
                return Err(failure(name, "can't set protected config"));
            }
            // As in Redis, one command can set a parameter under both its name and its alias. The
            // last value applies.
            if chosen.iter().any(|other| other.name == found.name) {
                return Err(failure(name, "duplicate parameter"));
            }
            chosen.push(found);
        }
        let _changing = self.changing.lock();
        let mut changes: Vec<Change> = Vec::with_capacity(pairs.len());
        for (found, (_, text)) in chosen.iter().zip(pairs) {
            let old = self.read()[found.index].clone();
            let value = found.parameter.parse(&old, text);
            let value = value.map_err(|reason| failure(found.name.as_bytes(), &reason))?;
            if let Some(reason) = found.parameter.refuses(&value) {
                return Err(failure(found.name.as_bytes(), reason));
            }
            changes.push((found.parameter, value));
        }
        apply(&changes)
            .map_err(|(parameter, reason)| failure(parameter.name.as_bytes(), &reason))?;
        let mut values = Vec::clone(&self.read());
        for (found, (_, value)) in chosen.iter().zip(changes) {
            self.numbers[found.index].store(value.number(), Ordering::Relaxed);
            values[found.index] = value;
        }
        self.values.store(Arc::new(values));
        self.generation.fetch_add(1, Ordering::Release);
        Ok(())
    }

    /// Sets a parameter at startup, from the command line or a file. Immutable parameters can also
    /// be set. If the value is valid but unsupported, keeps the default and returns the reason.
    ///
    /// # Errors
    /// Returns a readable message if the name is unknown or the value is invalid.
    pub fn set_at_start(&self, name: &str, text: &str) -> Result<Option<&'static str>, String> {
        let found = find(name.as_bytes())
            .ok_or_else(|| format!("there is no configuration parameter '{name}'"))?;
        let _changing = self.changing.lock();
        let mut values = Vec::clone(&self.read());
        let value = found.parameter.parse(&values[found.index], text.as_bytes());
        let value = value.map_err(|reason| format!("{name} '{text}': {reason}"))?;
        let refused = found.parameter.refuses(&value);
        if refused.is_none() {
            self.numbers[found.index].store(value.number(), Ordering::Relaxed);
            values[found.index] = value;
            self.values.store(Arc::new(values));
        }
        Ok(refused)
    }

    fn read(&self) -> Guard<Arc<Vec<Value>>> {
        self.values.load()
    }
}

/// A parameter, its index in the table, and the name or alias by which it was found.
struct NamedParameter {
    index: usize,
    parameter: &'static Parameter,
    name: &'static str,
}

fn find(name: &[u8]) -> Option<NamedParameter> {
    PARAMETERS
        .iter()
        .enumerate()
        .find_map(|(index, parameter)| {
            let name = parameter
                .names()
                .find(|other| other.as_bytes().eq_ignore_ascii_case(name))?;
            Some(NamedParameter {
                index,
                parameter,
                name,
            })
        })
}

fn failure(name: &[u8], reason: &str) -> CommandError {
    CommandError::quoting(
        "ERR CONFIG SET failed (possibly related to argument ",
        name,
        &format!(") - {reason}"),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn several_parameters_change_together_or_not_at_all() {
        let config = Config::new();
        let set = |pairs: &[(&[u8], &[u8])]| config.set(pairs, true, |_| Ok(()));
        assert!(set(&[(b"maxmemory", b"1mb"), (b"TIMEOUT", b"5")]).is_ok());
        assert_eq!(
            (config.integer("maxmemory"), config.integer("timeout")),
            (1 << 20, 5)
        );
        const TIMEOUT: usize = Parameter::place("timeout");
        assert_eq!(config.number_at(TIMEOUT), 5);
        let before = config.generation();
        assert!(set(&[(b"maxmemory", b"2mb"), (b"timeout", b"x")]).is_err());
        let refused = config.set(&[(b"maxmemory", b"2mb")], true, |changes| {
            Err((changes[0].0, "no".into()))
        });
        assert_eq!(
            refused.map_err(|error| error.text().to_owned()),
            Err("ERR CONFIG SET failed (possibly related to argument 'maxmemory') - no".into())
        );
        assert_eq!(
            (config.integer("maxmemory"), config.generation()),
            (1 << 20, before)
        );
    }

    #[test]
    fn immutable_parameters_can_be_set_at_start_only() {
        let config = Config::new();
        assert!(
            config
                .set(&[(b"tcp-backlog", b"4")], true, |_| Ok(()))
                .is_err()
        );
        assert_eq!(config.set_at_start("tcp-backlog", "4"), Ok(None));
        assert_eq!(config.integer("tcp-backlog"), 4);
        assert!(
            config
                .set_at_start("tcp-backlog", "-1")
                .is_err_and(|text| text.contains("between 0 and"))
        );
    }

    #[test]
    fn protected_parameters_need_permission() {
        let config = Config::new();
        let set = |is_local| {
            config
                .set(&[(b"dbfilename", b"x")], is_local, |_| Ok(()))
                .is_ok()
        };
        for (permission, remote, local) in [
            ("no", false, false),
            ("local", false, true),
            ("yes", true, true),
        ] {
            let given = config.set_at_start("enable-protected-configs", permission);
            assert_eq!(given, Ok(None));
            assert_eq!((set(false), set(true)), (remote, local), "{permission}");
        }
    }

    #[test]
    fn unsupported_values_are_refused() {
        let config = Config::new();
        for (name, value) in [
            ("appendfsync", "no"),
            ("auto-aof-rewrite-min-size", "50"),
            ("save", "900 1"),
        ] {
            let before = config.value(name);
            let refused = config.set(&[(name.as_bytes(), value.as_bytes())], true, |_| Ok(()));
            let text = refused.expect_err("refused").text().to_owned();
            assert!(
                text.contains(name) && text.contains("not supported"),
                "{text}"
            );
            let reason = config.set_at_start(name, value).expect("a known name");
            assert!(reason.is_some_and(|reason| reason.contains("not supported")));
            assert_eq!(config.value(name), before);
            let default = before.text();
            assert!(
                config
                    .set(&[(name.as_bytes(), &default)], true, |_| Ok(()))
                    .is_ok()
            );
        }
    }

    #[test]
    fn every_default_is_accepted_by_its_own_parser() {
        for parameter in PARAMETERS {
            let value = parameter.default_value();
            assert_eq!(
                parameter.parse(&value, &value.text()).as_ref(),
                Ok(&value),
                "{}",
                parameter.name
            );
        }
    }
}
