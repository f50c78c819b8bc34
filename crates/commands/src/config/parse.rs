//! Parses parameter values using Redis' rules and error texts.

use undercroft_numbers::parse_integer;

use crate::algorithms::double::parse_double;

/// Parses a size with an optional, case-insensitive unit: `b`, `k` (1000), `kb` (1024), `m`, `mb`,
/// `g` or `gb`.
///
/// As in Redis, a missing number counts as zero, and a number that is too large saturates.
pub(super) fn memory(text: &[u8]) -> Option<u64> {
    let digits = text.iter().take_while(|byte| byte.is_ascii_digit()).count();
    let (number, unit) = text.split_at(digits);
    let factor: u64 = match unit.to_ascii_lowercase().as_slice() {
        b"" | b"b" => 1,
        b"k" => 1000,
        b"kb" => 1 << 10,
        b"m" => 1_000_000,
        b"mb" => 1 << 20,
        b"g" => 1_000_000_000,
        b"gb" => 1 << 30,
        _ => return None,
    };
    let number = number.iter().fold(0u64, |value, digit| {
        value
            .saturating_mul(10)
            .saturating_add(u64::from(digit - b'0'))
    });
    Some(number.saturating_mul(factor))
}

/// Checks the name of a file, which must not be a path.
pub(super) fn file_name(_: &[u8], text: &[u8]) -> Result<Vec<u8>, &'static str> {
    match text.is_empty() || text.contains(&b'/') || matches!(text, b"." | b"..") {
        true => Err("dbfilename can't be a path, just a filename"),
        false => Ok(text.to_vec()),
    }
}

/// Checks the mode of the Unix socket, an octal number.
pub(super) fn mode(_: &[u8], text: &[u8]) -> Result<Vec<u8>, &'static str> {
    let text = std::str::from_utf8(text).ok();
    match text.and_then(|text| u32::from_str_radix(text, 8).ok()) {
        None => Err("argument couldn't be parsed as an octal number"),
        Some(mode) if mode <= 0o777 => Ok(format!("{mode:o}").into_bytes()),
        Some(_) => Err("argument must be between 0 and 777 inclusive"),
    }
}

/// Validates the value of `save`: pairs of seconds and numbers of changes.
pub(super) fn save(_old: &[u8], text: &[u8]) -> Result<Vec<u8>, &'static str> {
    const INVALID: &str = "Invalid save parameters";
    let numbers: Option<Vec<i64>> = words(text).map(parse_integer).collect();
    let numbers = numbers.ok_or(INVALID)?;
    let sound = numbers.len().is_multiple_of(2)
        && numbers.chunks(2).all(|pair| pair[0] >= 1 && pair[1] >= 0);
    if !sound {
        return Err(INVALID);
    }
    let words: Vec<String> = numbers.iter().map(i64::to_string).collect();
    Ok(words.join(" ").into_bytes())
}

/// Validates a list of percentiles separated by spaces. The list can be empty.
pub(super) fn percentiles(_old: &[u8], text: &[u8]) -> Result<Vec<u8>, &'static str> {
    if text.is_empty() {
        return Ok(Vec::new());
    }
    let mut shown = Vec::new();
    for word in text.split(|byte| *byte == b' ') {
        let number = parse_double(word);
        let number = number.ok_or("Invalid latency-tracking-info-percentiles parameters")?;
        if !(0.0..=100.0).contains(&number) {
            return Err(
                "latency-tracking-info-percentiles parameters should sit between [0.0,100.0]",
            );
        }
        shown.push(percentile_text(number));
    }
    Ok(shown.join(" ").into_bytes())
}

/// Formats a percentile, such as `99.9`, the way INFO and CONFIG GET do.
pub(crate) fn percentile_text(percentile: f64) -> String {
    let text = format!("{percentile:.6}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// Validates the letters that select classes of keyspace events, and sorts the letters into Redis'
/// order.
pub(super) fn notifications(_old: &[u8], text: &[u8]) -> Result<Vec<u8>, &'static str> {
    if text
        .iter()
        .any(|letter| !b"Ag$lshzxeKEtmdn".contains(letter))
    {
        return Err("Invalid event class character. Use 'Ag$lshzxeKEtmdn'.");
    }
    let mut letters = normal_letters(&String::from_utf8_lossy(text));
    // Keep an `n` that follows `A`, although Redis does not show it: Redis still publishes events
    // for new keys.
    if letters.starts_with('A') && text.contains(&b'n') {
        letters.push('n');
    }
    Ok(letters.into_bytes())
}

/// Returns the letters in the order in which Redis displays them. `A` replaces the ten letters of
/// `ALL` and hides `n`.
pub(super) fn normal_letters(text: &str) -> String {
    const ALL: &str = "g$lshzxetd";
    let given = |letters: &str| -> String {
        let given = letters.chars().filter(|letter| text.contains(*letter));
        given.collect()
    };
    let first = if text.contains('A') || given(ALL) == ALL {
        "A".to_owned()
    } else {
        given("g$lshzxetdn")
    };
    first + &given("KEm")
}

/// Validates the hard limit, soft limit and soft seconds of each given client class. All other
/// classes keep their old limits.
pub(super) fn output_limits(old: &[u8], text: &[u8]) -> Result<Vec<u8>, &'static str> {
    const CLASSES: [&str; 3] = ["normal", "slave", "pubsub"];
    let given: Vec<&[u8]> = words(text).collect();
    if !given.len().is_multiple_of(4) {
        return Err("Wrong number of arguments in buffer limit configuration.");
    }
    let mut limits: Vec<Vec<u8>> = words(old).map(<[u8]>::to_vec).collect();
    for limit in given.chunks(4) {
        let class = match limit[0].to_ascii_lowercase().as_slice() {
            b"replica" => Some(1),
            name => CLASSES.iter().position(|class| class.as_bytes() == name),
        };
        let class = class.ok_or("Invalid client class specified in buffer limit configuration.")?;
        let seconds = parse_integer(limit[3]).filter(|seconds| *seconds >= 0);
        let (Some(hard), Some(soft), Some(seconds)) = (memory(limit[1]), memory(limit[2]), seconds)
        else {
            return Err(
                "Error in hard, soft or soft_seconds setting in buffer limit configuration.",
            );
        };
        let numbers = [hard.to_string(), soft.to_string(), seconds.to_string()];
        for (slot, number) in limits.iter_mut().skip(class * 4 + 1).zip(numbers) {
            *slot = number.into_bytes();
        }
    }
    Ok(limits.join(&b' '))
}

/// Validates a list of addresses to listen on, and separates the addresses with single spaces.
pub(super) fn addresses(_old: &[u8], text: &[u8]) -> Result<Vec<u8>, &'static str> {
    const MOST: usize = 16;
    let addresses: Vec<&[u8]> = words(text).collect();
    if addresses.len() > MOST {
        return Err("Too many bind addresses specified.");
    }
    Ok(addresses.join(&b' '))
}

fn words(text: &[u8]) -> impl Iterator<Item = &[u8]> {
    text.split(|byte| *byte == b' ')
        .filter(|word| !word.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_may_have_units() {
        assert_eq!(memory(b"1k"), Some(1000));
        assert_eq!(memory(b"2GB"), Some(2 << 30));
        assert_eq!(memory(b"99999999999999999999gb"), Some(u64::MAX));
        for text in ["-1", "1.5mb", "1 mb", "1t", "x"] {
            assert_eq!(memory(text.as_bytes()), None, "{text}");
        }
    }
}
