//! Reads and writes the parameters that are kept in the store and shared by all its processes.

use undercroft_engine::events::EventClasses;
use undercroft_engine::eviction::{EvictionChange, EvictionPolicy};
use undercroft_engine::{Access, Error};

use super::Value;
use super::parse::normal_letters;

/// The names of the parameters that are kept in the store.
pub const STORED: [&str; 8] = [
    "maxmemory",
    "maxmemory-policy",
    "maxmemory-samples",
    "lfu-log-factor",
    "lfu-decay-time",
    "notify-keyspace-events",
    "auto-aof-rewrite-percentage",
    "checkpoint-rate",
];

/// Returns the value of a parameter from the store in CONFIG GET's format, or `None` if the
/// parameter is not in [`STORED`].
pub fn stored_value(store: &Access<'_>, name: &str) -> Option<String> {
    let eviction = store.eviction();
    Some(match name {
        "maxmemory" => store.max_memory().to_string(),
        "maxmemory-policy" => eviction.policy.name().to_owned(),
        "maxmemory-samples" => eviction.samples.to_string(),
        "lfu-log-factor" => eviction.lfu_log_factor.to_string(),
        "lfu-decay-time" => eviction.lfu_decay_time.to_string(),
        "auto-aof-rewrite-percentage" => store.checkpoint_growth().to_string(),
        "checkpoint-rate" => store.checkpoint_rate().to_string(),
        "notify-keyspace-events" => normal_letters(&store.told_events().letters()),
        _ => return None,
    })
}

/// Changes a parameter in the store. Returns `false` if the parameter is not in [`STORED`].
///
/// # Errors
/// Returns an [`Error`] if writing to the store fails.
pub fn store_value(store: &Access<'_>, name: &str, value: &Value) -> Result<bool, Error> {
    let change = match (name, value) {
        ("maxmemory", Value::Memory(bytes)) => {
            store.set_max_memory(*bytes)?;
            return Ok(true);
        }
        ("checkpoint-rate", Value::Memory(bytes)) => {
            store.set_checkpoint_rate(*bytes)?;
            return Ok(true);
        }
        ("auto-aof-rewrite-percentage", Value::Integer(percent)) => {
            store.set_checkpoint_growth(percent.unsigned_abs())?;
            return Ok(true);
        }
        ("notify-keyspace-events", Value::Text(letters)) => {
            store.tell_events(EventClasses::from_letters(letters))?;
            return Ok(true);
        }
        ("maxmemory-policy", Value::Choice(name)) => {
            EvictionChange::Policy(EvictionPolicy::from_name(name).unwrap_or_default())
        }
        ("maxmemory-samples", Value::Integer(samples)) => {
            EvictionChange::Samples(samples.unsigned_abs())
        }
        ("lfu-log-factor", Value::Integer(factor)) => {
            EvictionChange::LfuLogFactor(factor.unsigned_abs())
        }
        ("lfu-decay-time", Value::Integer(minutes)) => {
            EvictionChange::LfuDecayTime(minutes.unsigned_abs())
        }
        _ => return Ok(false),
    };
    store.change_eviction(change)?;
    Ok(true)
}

#[cfg(test)]
mod tests {
    use undercroft_engine::{Options, Store};

    use super::*;
    use crate::config::{Config, PARAMETERS};

    #[test]
    fn changing_one_parameter_leaves_the_others_alone() {
        let directory = tempfile::tempdir_in("/dev/shm").expect("a directory in shared memory");
        let path = directory.path().join("store");
        let store = Store::create(&path, &Options::default()).expect("a new store");
        let change_often = |name: &str| {
            let store = store.access();
            for number in 1..20_000 {
                let stored = store_value(&store, name, &Value::Integer(number));
                assert!(stored.expect("writable"));
                assert_eq!(stored_value(&store, name), Some(number.to_string()));
            }
        };
        std::thread::scope(|scope| {
            scope.spawn(|| change_often("maxmemory-samples"));
            change_often("lfu-log-factor");
        });
    }

    #[test]
    fn stored_parameters_read_back_as_written() {
        let directory = tempfile::tempdir_in("/dev/shm").expect("a directory in shared memory");
        let path = directory.path().join("store");
        let store = Store::create(&path, &Options::default()).expect("a new store");
        let store = store.access();
        let config = Config::new();
        for name in STORED {
            let default = String::from_utf8(config.value(name).text()).expect("ASCII");
            assert_eq!(stored_value(&store, name), Some(default), "{name}");
            let text = match name {
                "maxmemory-policy" => "volatile-lfu",
                "notify-keyspace-events" => "g$nKE",
                _ => "7",
            };
            config.set_at_start(name, text).expect("a sound value");
            let stored = store_value(&store, name, &config.value(name));
            assert!(stored.expect("writable"), "{name}");
            assert_eq!(stored_value(&store, name).as_deref(), Some(text), "{name}");
        }
        let others = PARAMETERS
            .iter()
            .filter(|other| !STORED.contains(&other.name));
        for parameter in others {
            assert_eq!(stored_value(&store, parameter.name), None);
            let stored = store_value(&store, parameter.name, &config.value(parameter.name));
            assert!(!stored.expect("writable"), "{}", parameter.name);
        }
    }
}
