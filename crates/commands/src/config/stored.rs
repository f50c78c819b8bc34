//! The parameters that belong to the store, where all its processes find them.

use undercroft_engine::{Access, Error, EventClasses, Eviction, EvictionPolicy};

use super::Value;
use super::parse::normal_letters;

/// Their names.
pub const STORED: [&str; 6] = [
    "maxmemory",
    "maxmemory-policy",
    "maxmemory-samples",
    "lfu-log-factor",
    "lfu-decay-time",
    "notify-keyspace-events",
];

/// What a parameter's value is in the store, as CONFIG GET shows it; none where it is not one of [`STORED`].
pub fn stored_value(store: &Access<'_>, name: &str) -> Option<String> {
    let eviction = store.eviction();
    Some(match name {
        "maxmemory" => store.max_memory().to_string(),
        "maxmemory-policy" => eviction.policy.name().to_owned(),
        "maxmemory-samples" => eviction.samples.to_string(),
        "lfu-log-factor" => eviction.lfu_log_factor.to_string(),
        "lfu-decay-time" => eviction.lfu_decay_time.to_string(),
        "notify-keyspace-events" => normal_letters(&store.told_events().letters()),
        _ => return None,
    })
}

/// Changes a parameter in the store. Returns whether it is one of [`STORED`].
///
/// # Errors
/// [`Error`] where the store cannot be written to.
pub fn store_value(store: &Access<'_>, name: &str, value: &Value) -> Result<bool, Error> {
    let old = store.eviction();
    let eviction = match (name, value) {
        ("maxmemory", Value::Memory(bytes)) => {
            store.set_max_memory(*bytes)?;
            return Ok(true);
        }
        ("notify-keyspace-events", Value::Text(letters)) => {
            store.tell_events(EventClasses::from_letters(letters))?;
            return Ok(true);
        }
        ("maxmemory-policy", Value::Choice(name)) => Eviction {
            policy: EvictionPolicy::from_name(name).unwrap_or_default(),
            ..old
        },
        ("maxmemory-samples", Value::Integer(samples)) => Eviction {
            samples: samples.unsigned_abs(),
            ..old
        },
        ("lfu-log-factor", Value::Integer(factor)) => Eviction {
            lfu_log_factor: factor.unsigned_abs(),
            ..old
        },
        ("lfu-decay-time", Value::Integer(minutes)) => Eviction {
            lfu_decay_time: minutes.unsigned_abs(),
            ..old
        },
        _ => return Ok(false),
    };
    store.set_eviction(eviction)?;
    Ok(true)
}

#[cfg(test)]
mod tests {
    use undercroft_engine::{Options, Store};

    use super::*;
    use crate::config::{Config, PARAMETERS};

    #[test]
    fn every_stored_parameter_comes_back() {
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
