//! Asks Sentinels for the address of a source.

use crate::follow::error::FollowError;
use crate::follow::link::Link;
use crate::follow::source_url::{Address, SourceUrl};

/// Returns the address of the source: the one in the URL, or the one that the first Sentinel with an
/// answer names.
pub(super) fn find(url: &SourceUrl, stops: &dyn Fn() -> bool) -> Result<Address, FollowError> {
    let Some(name) = &url.master else {
        return url
            .addresses
            .first()
            .cloned()
            .ok_or_else(|| FollowError::Url("expected the address of a source, got none".into()));
    };
    let mut failed = None;
    for sentinel in &url.addresses {
        match ask(sentinel, name, url, stops) {
            Ok(address) => return Ok(address),
            Err(FollowError::Stopped) => return Err(FollowError::Stopped),
            Err(error) => failed = Some(error),
        }
    }
    Err(failed.unwrap_or_else(|| FollowError::Url("expected Sentinels, got none".into())))
}

fn ask(
    sentinel: &Address,
    name: &str,
    url: &SourceUrl,
    stops: &dyn Fn() -> bool,
) -> Result<Address, FollowError> {
    let mut link = Link::connect(sentinel, url, stops)?;
    let words = [
        &b"SENTINEL"[..],
        b"get-master-addr-by-name",
        name.as_bytes(),
    ];
    let header = link.ask(&words)?;
    if let Some(error) = header.strip_prefix('-') {
        return Err(FollowError::Refused(error.to_owned()));
    }
    if header != "*2" {
        return Err(FollowError::Refused(format!(
            "the Sentinel {sentinel} knows no master named {name}"
        )));
    }
    let mut word = || {
        let _length = link.line()?;
        link.line()
    };
    let (host, port) = (word()?, word()?);
    match port.parse() {
        Ok(port) => Ok(Address::Tcp { host, port }),
        Err(_) => Err(FollowError::Protocol(format!(
            "expected a port from the Sentinel {sentinel}, got {port}"
        ))),
    }
}
