//! Maps Redis' parameters for append-only files to the durability mode of the store.
//!
//! The mode belongs to the store, so these parameters have no value of their own: `durability` is
//! the mode, `appendonly` is `yes` unless the mode is `none`, and `appendfsync` is the mode of a
//! store with a journal. Only the `appendfsync` of a store without a journal is kept in the
//! process, as the mode that `appendonly yes` begins with.

use undercroft_engine::Durability;

use super::{Change, Config, Parameter, Value};

/// The names of the parameters that select the durability mode of the store.
pub const DURABLE: [&str; 3] = ["durability", "appendonly", "appendfsync"];

/// Returns whether a name, in any case, is that of a parameter that selects the durability mode.
pub(crate) fn is_durable(name: &[u8]) -> bool {
    let mut all = DURABLE.iter();
    all.any(|other| other.as_bytes().eq_ignore_ascii_case(name))
}

/// Returns the value of a parameter in CONFIG GET's format for a store with the given mode, or
/// `None` if the mode does not determine the parameter.
pub fn value_in_mode(mode: Durability, name: &str) -> Option<&'static str> {
    match (name, mode) {
        ("durability", mode) => Some(mode.name()),
        ("appendonly", Durability::None) => Some("no"),
        ("appendonly", _) => Some("yes"),
        ("appendfsync", Durability::EverySecond | Durability::Always) => Some(mode.name()),
        _ => None,
    }
}

/// Returns the mode that changes of parameters select for a store with the given mode, or `None` if
/// they leave the mode as it is.
///
/// # Errors
/// Returns the parameter that contradicts another one, and the reason.
pub fn mode_after(
    mode: Durability,
    config: &Config,
    changes: &[Change],
) -> Result<Option<Durability>, (&'static Parameter, String)> {
    let find = |name: &str| {
        let mut all = changes.iter().rev();
        all.find(|(parameter, _)| parameter.name == name)
    };
    let (on, sync) = (find("appendonly"), find("appendfsync"));
    let wanted = match (find("durability"), on.or(sync)) {
        (Some(_), Some((parameter, _))) => {
            let text = "set either durability, or appendonly and appendfsync, but not both";
            return Err((parameter, text.into()));
        }
        (Some((_, value)), None) => named(value),
        (None, _) => {
            let is_on = match on {
                Some((_, value)) => *value == Value::Boolean(true),
                None => mode != Durability::None,
            };
            match (is_on, sync, mode) {
                (false, ..) => Durability::None,
                (true, Some((_, value)), _) => named(value),
                (true, None, Durability::None) => named(&config.value("appendfsync")),
                (true, None, mode) => mode,
            }
        }
    };
    Ok((wanted != mode).then_some(wanted))
}

/// Returns the mode with the name in a value.
fn named(value: &Value) -> Durability {
    let name = match value {
        Value::Choice(name) => name,
        _ => "",
    };
    Durability::from_name(name).unwrap_or(Durability::EverySecond)
}

#[cfg(test)]
mod tests {
    use super::*;
    use Durability::{Always, EverySecond, None as Never};

    /// Returns the mode after CONFIG SET with the given pairs.
    fn after(mode: Durability, pairs: &[(&str, &str)]) -> Result<Option<Durability>, String> {
        let config = Config::new();
        let pairs: Vec<(&[u8], &[u8])> = pairs
            .iter()
            .map(|(name, value)| (name.as_bytes(), value.as_bytes()))
            .collect();
        let mut found = Ok(None);
        let set = config.set(&pairs, true, |changes| {
            found = mode_after(mode, &config, changes).map_err(|(_, text)| text);
            Ok(())
        });
        set.map_err(|error| error.text().to_owned())?;
        found
    }

    #[test]
    fn parameters_select_the_mode() {
        for (mode, pairs, expected) in [
            (Never, &[("appendonly", "yes")][..], Some(EverySecond)),
            (Never, &[("appendonly", "no")], None),
            (Never, &[("appendfsync", "always")], None),
            (
                Never,
                &[("appendonly", "yes"), ("appendfsync", "always")],
                Some(Always),
            ),
            (Never, &[("durability", "ALWAYS")], Some(Always)),
            (EverySecond, &[("appendonly", "yes")], None),
            (EverySecond, &[("appendonly", "no")], Some(Never)),
            (
                Always,
                &[("appendonly", "no"), ("appendfsync", "always")],
                Some(Never),
            ),
            (EverySecond, &[("appendfsync", "always")], Some(Always)),
            (Always, &[("durability", "everysec")], Some(EverySecond)),
            (Always, &[("durability", "none")], Some(Never)),
            (Always, &[("maxmemory", "1gb")], None),
        ] {
            assert_eq!(after(mode, pairs), Ok(expected), "{mode:?} {pairs:?}");
        }
        let both = after(Never, &[("durability", "always"), ("appendonly", "yes")]);
        assert!(both.is_err_and(|text| text.contains("not both")));
        let less = after(EverySecond, &[("appendfsync", "no")]);
        assert!(less.is_err_and(|text| text.contains("everysec")));
    }

    #[test]
    fn values_show_the_mode_of_the_store() {
        let values = |mode| DURABLE.map(|name| value_in_mode(mode, name));
        assert_eq!(values(Never), [Some("none"), Some("no"), None]);
        let everysec = [Some("everysec"), Some("yes"), Some("everysec")];
        assert_eq!(values(EverySecond), everysec);
        assert_eq!(
            values(Always),
            [Some("always"), Some("yes"), Some("always")]
        );
        assert_eq!(value_in_mode(Always, "maxmemory"), None);
    }
}
