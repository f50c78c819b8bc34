//! Begins the replication on a new connection.

use undercroft_engine::{AppliedPosition, REPLICATION_ID, Source};

use crate::follow::error::FollowError;
use crate::follow::link::Link;

/// How the source continues.
pub(super) enum Begun {
    /// With the changes after the place that the store has. The id can be another one than before.
    Partial(Source),
    /// With a complete data set.
    Full(Source),
}

/// Tells the source the abilities of this replica, and the port that it shows for it, unless that is
/// 0.
pub(super) fn introduce(link: &mut Link<'_>, listening_port: u16) -> Result<(), FollowError> {
    link.expect_ok(&[b"PING"])?;
    if listening_port != 0 {
        let port = listening_port.to_string();
        link.expect_ok(&[b"REPLCONF", b"listening-port", port.as_bytes()])?;
    }
    link.expect_ok(&[b"REPLCONF", b"capa", b"eof", b"capa", b"psync2"])
}

/// Begins the replication, if possible at the place that the store has.
pub(super) fn begin(link: &mut Link<'_>, known: Option<Source>) -> Result<Begun, FollowError> {
    let reply = match &known {
        Some(source) => {
            let next = (source.position.offset + 1).to_string();
            link.ask(&[b"PSYNC", &source.id, next.as_bytes()])?
        }
        None => link.ask(&[b"PSYNC", b"?", b"-1"])?,
    };
    let words: Vec<&str> = reply.split_ascii_whitespace().collect();
    let wrong = || FollowError::Protocol(format!("{:.100}", reply.escape_debug()));
    match (&words[..], known) {
        ([first, ..], _) if first.starts_with('-') => {
            Err(FollowError::Refused(reply[1..].to_owned()))
        }
        (["+CONTINUE"], Some(source)) => Ok(Begun::Partial(source)),
        (["+CONTINUE", id], Some(source)) => {
            let id = replication_id(id).ok_or_else(wrong)?;
            Ok(Begun::Partial(Source { id, ..source }))
        }
        (["+FULLRESYNC", id, offset], _) => {
            let id = replication_id(id).ok_or_else(wrong)?;
            let offset = offset.parse().ok();
            let offset = offset.filter(|&offset: &u64| offset < 1 << 59);
            let position = AppliedPosition {
                offset: offset.ok_or_else(wrong)?,
                database: 0,
            };
            Ok(Begun::Full(Source { id, position }))
        }
        _ => Err(wrong()),
    }
}

fn replication_id(text: &str) -> Option<[u8; REPLICATION_ID]> {
    let id: [u8; REPLICATION_ID] = text.as_bytes().try_into().ok()?;
    id.iter().all(u8::is_ascii_hexdigit).then_some(id)
}
