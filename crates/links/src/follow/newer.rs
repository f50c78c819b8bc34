//! Commands of Redis 8 and Valkey 9 that a source sends and a store does not have, as commands that
//! it has.
//!
//! A source sends a command only after it has run, so that conditions are met. Redis 8 sends
//! HINCRBYFLOAT as HSETEX with KEEPTTL.

/// How a store applies a command.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Known<'a> {
    /// As it is.
    Same,
    /// As this command.
    As(Vec<&'a [u8]>),
    /// Not at all, because it only changes expiries of fields, which are dropped.
    Dropped,
}

/// Returns how a store applies a command. `drops_expiry` says whether fields lose their expiries.
pub(super) fn known<'a>(words: &[&'a [u8]], drops_expiry: bool) -> Known<'a> {
    let name = words[0].to_ascii_uppercase();
    match &name[..] {
        b"HSETEX" => set_fields(words, drops_expiry).map_or(Known::Same, Known::As),
        b"HGETDEL" => match words {
            [_, key, _, _, fields @ ..] if !fields.is_empty() => {
                let mut deleted: Vec<&[u8]> = vec![b"HDEL", key];
                deleted.extend(fields);
                Known::As(deleted)
            }
            _ => Known::Same,
        },
        b"HEXPIRE" | b"HPEXPIRE" | b"HEXPIREAT" | b"HPEXPIREAT" | b"HPERSIST" if drops_expiry => {
            Known::Dropped
        }
        b"DELIFEQ" if words.len() == 3 => Known::As(vec![b"DEL", words[1]]),
        b"SET" => {
            let is_condition = |word: &&[u8]| word.eq_ignore_ascii_case(b"IFEQ");
            let place = words.iter().skip(3).position(is_condition);
            place.map_or(Known::Same, |place| {
                let (before, after) = words.split_at(3 + place);
                let after = after.get(2..).unwrap_or_default();
                Known::As([before, after].concat())
            })
        }
        _ => Known::Same,
    }
}

/// Returns HSETEX as HSET. Returns `None` for fields with an expiry, unless it is dropped.
fn set_fields<'a>(words: &[&'a [u8]], drops_expiry: bool) -> Option<Vec<&'a [u8]>> {
    let is_fields = |word: &&[u8]| word.eq_ignore_ascii_case(b"FIELDS");
    let place = 2 + words.iter().skip(2).position(is_fields)?;
    let is_harmless = |word: &&[u8]| {
        [&b"KEEPTTL"[..], b"FNX", b"FXX"]
            .iter()
            .any(|option| word.eq_ignore_ascii_case(option))
    };
    if !drops_expiry && !words[2..place].iter().all(is_harmless) {
        return None;
    }
    let pairs = words.get(place + 2..).filter(|pairs| !pairs.is_empty())?;
    let mut set: Vec<&[u8]> = vec![b"HSET", words[1]];
    set.extend(pairs);
    Some(set)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_of_later_versions_are_known() {
        for (line, drops_expiry, expected) in [
            ("HSETEX h KEEPTTL FIELDS 1 f 1.5", false, "HSET h f 1.5"),
            ("hsetex h fnx fields 2 f 1 g 2", false, "HSET h f 1 g 2"),
            ("HSETEX h PXAT 1 FIELDS 1 f 1", false, "same"),
            ("HSETEX h PXAT 1 FIELDS 1 f 1", true, "HSET h f 1"),
            ("HSETEX h KEEPTTL", true, "same"),
            ("HSETEX h FIELDS 1", true, "same"),
            ("HGETDEL h FIELDS 2 f g", false, "HDEL h f g"),
            ("HPEXPIREAT h 5 FIELDS 1 f", false, "same"),
            ("HPEXPIREAT h 5 FIELDS 1 f", true, "dropped"),
            ("HPERSIST h FIELDS 1 f", true, "dropped"),
            ("DELIFEQ k v", false, "DEL k"),
            ("SET k IFEQ", false, "same"),
            ("SET k v IFEQ old PXAT 5", false, "SET k v PXAT 5"),
            ("SET k v PXAT 5", false, "same"),
            ("HSET h f 1", true, "same"),
        ] {
            let words: Vec<&[u8]> = line.split(' ').map(str::as_bytes).collect();
            let found = match known(&words, drops_expiry) {
                Known::Same => "same".into(),
                Known::Dropped => "dropped".into(),
                Known::As(words) => String::from_utf8_lossy(&words.join(&b' ')).into_owned(),
            };
            assert_eq!(found, expected, "{line} {drops_expiry}");
        }
    }
}
