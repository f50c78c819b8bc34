//! Parses and formats sizes in bytes.

/// Parses a size such as `64gb` with the rules of the configuration: `k` is 1000 and `kb` is 1024,
/// ignoring case.
pub(crate) fn parse_bytes(text: &str) -> Result<u64, String> {
    let config = undercroft_commands::config::Config::new();
    let wrong = || format!("expected a size such as 512mb or 64gb, got '{text}'");
    // The configuration parses a missing number as 0, which is never what the user intended.
    if !text.starts_with(|first: char| first.is_ascii_digit()) {
        return Err(wrong());
    }
    config
        .set_at_start("maxmemory", text)
        .map_err(|_| wrong())?;
    match config.value("maxmemory") {
        undercroft_commands::config::Value::Memory(bytes) => Ok(bytes),
        _ => Err(wrong()),
    }
}

/// Formats a size in human-readable form, with three digits and a binary unit: `1.50 GiB`.
pub(crate) fn human(bytes: u64) -> String {
    const UNITS: [&str; 5] = ["B", "KiB", "MiB", "GiB", "TiB"];
    let mut value = bytes as f64;
    let mut unit = 0;
    // Switch to the next unit if rounding would yield 1000.
    while value >= 999.5 && unit + 1 < UNITS.len() {
        value /= 1024.0;
        unit += 1;
    }
    let digits = match (unit, value) {
        (0, _) => 0,
        (_, value) if value < 9.995 => 2,
        (_, value) if value < 99.95 => 1,
        _ => 0,
    };
    format!("{value:.digits$} {}", UNITS[unit])
}

/// Formats a number with thousands separators: `1,234,567`.
pub(crate) fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// Formats a number and a noun, in the plural if necessary: `1 key`, `2 keys`.
pub(crate) fn counted(number: u64, name: &str) -> String {
    let plural = match number {
        1 => "",
        _ if name.ends_with("ss") => "es",
        _ if name.ends_with("ry") => {
            return format!("{} {}ies", grouped(number), &name[..name.len() - 1]);
        }
        _ => "s",
    };
    format!("{} {name}{plural}", grouped(number))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_parse_with_units() {
        assert_eq!(parse_bytes("64gb"), Ok(64 << 30));
        assert_eq!(parse_bytes("1K"), Ok(1000));
        for wrong in ["", "gb", "-1", "1.5gb", "ten"] {
            assert!(parse_bytes(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn sizes_format_with_three_digits() {
        for (bytes, text) in [
            (0, "0 B"),
            (999, "999 B"),
            (1000, "0.98 KiB"),
            (1536, "1.50 KiB"),
            (10 << 20, "10.0 MiB"),
            (64 << 30, "64.0 GiB"),
            (600 << 30, "600 GiB"),
            (1023 << 20, "1.00 GiB"),
            (u64::MAX, "16777216 TiB"),
        ] {
            assert_eq!(human(bytes), text);
        }
        assert_eq!(
            (grouped(999), grouped(1_234_567)),
            ("999".into(), "1,234,567".into())
        );
        assert_eq!(
            (counted(1, "key"), counted(2, "process")),
            ("1 key".into(), "2 processes".into())
        );
        assert_eq!(
            (counted(2, "key"), counted(2, "library")),
            ("2 keys".into(), "2 libraries".into())
        );
    }
}
