//! Formats the section titles and fields of INFO.

use std::fmt::{Display, Write as _};

pub(super) fn title(name: &str, out: &mut String) {
    out.push_str("# ");
    out.push_str(name);
    out.push_str("\r\n");
}

pub(super) fn line(name: &str, value: impl Display, out: &mut String) {
    // Writing to a `String` cannot fail.
    let _ = write!(out, "{name}:{value}\r\n");
}

/// Writes fields that are always zero because this server does not have the feature.
pub(super) fn zeros(names: &[&str], out: &mut String) {
    names.iter().for_each(|name| line(name, 0, out));
}
