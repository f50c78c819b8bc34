//! Parses and formats times, in UTC or with an offset, as in RFC 3339.

/// The number of milliseconds in a day.
const DAY: i64 = 86_400_000;

/// Returns the number of days from 1970-01-01 to a date.
fn days(year: i64, month: i64, day: i64) -> i64 {
    // The year begins in March, so that a leap day is its last day.
    let year = if month <= 2 { year - 1 } else { year };
    let era = year.div_euclid(400);
    let of_era = year.rem_euclid(400);
    let of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    era * 146_097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719_468
}

/// Returns the date that is a number of days after 1970-01-01.
fn date(days: i64) -> (i64, i64, i64) {
    let days = days + 719_468;
    let era = days.div_euclid(146_097);
    let of_era = days.rem_euclid(146_097);
    let year = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year + year / 4 - year / 100);
    let month = (5 * of_year + 2) / 153;
    let day = of_year - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    let year = year + era * 400;
    (if month <= 2 { year + 1 } else { year }, month, day)
}

/// Formats a time in Unix milliseconds: `2026-11-30T14:05:00.123Z`.
pub(crate) fn text(time: u64) -> String {
    let time = i64::try_from(time).unwrap_or(i64::MAX);
    let (year, month, day) = date(time.div_euclid(DAY));
    let rest = time.rem_euclid(DAY);
    let (hour, minute) = (rest / 3_600_000, rest / 60_000 % 60);
    let (second, millisecond) = (rest / 1000 % 60, rest % 1000);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{millisecond:03}Z")
}

/// Parses a time such as `2026-11-30T14:05:00Z`, `2026-11-30 14:05:00.123+01:00` or
/// `2026-11-30T14:05Z`. Returns Unix milliseconds, or `None` if the text is not a time.
pub(crate) fn parse(text: &str) -> Option<u64> {
    let (clock, offset) = split_offset(text)?;
    let (day, clock) = clock.split_once(['T', 't', ' '])?;
    let mut parts = day.split('-');
    let (year, month) = (number(parts.next()?, 4)?, number(parts.next()?, 2)?);
    let day = number(parts.next()?, 2)?;
    if parts.next().is_some() || !(1970..=9999).contains(&year) {
        return None;
    }
    let at = days(year, month, day);
    if date(at) != (year, month, day) {
        return None;
    }
    let mut parts = clock.split(':');
    let (hour, minute) = (number(parts.next()?, 2)?, number(parts.next()?, 2)?);
    let milliseconds = match parts.next() {
        Some(seconds) => seconds_to_milliseconds(seconds)?,
        None => 0,
    };
    if parts.next().is_some() || hour > 23 || minute > 59 {
        return None;
    }
    let time = at * DAY + (hour * 60 + minute - offset) * 60_000 + milliseconds;
    u64::try_from(time).ok()
}

/// Splits a text into a time and the offset of its clock from UTC, in minutes.
fn split_offset(text: &str) -> Option<(&str, i64)> {
    if let Some(clock) = text.strip_suffix(['Z', 'z']) {
        return Some((clock, 0));
    }
    let (clock, offset) = text.split_at_checked(text.len().checked_sub(6)?)?;
    let (hours, minutes) = offset[1..].split_once(':')?;
    let (hours, minutes) = (number(hours, 2)?, number(minutes, 2)?);
    let minutes = (hours <= 23 && minutes <= 59).then_some(hours * 60 + minutes)?;
    match offset.as_bytes()[0] {
        b'+' => Some((clock, minutes)),
        b'-' => Some((clock, -minutes)),
        _ => None,
    }
}

/// Parses seconds with up to three decimals.
fn seconds_to_milliseconds(text: &str) -> Option<i64> {
    let (seconds, decimals) = text.split_once('.').unwrap_or((text, "0"));
    let seconds = number(seconds, 2).filter(|&seconds| seconds <= 59)?;
    let count = decimals.len();
    let decimals = (1..=3)
        .contains(&count)
        .then(|| number(decimals, count))??;
    Some(seconds * 1000 + decimals * [100, 10, 1][count - 1])
}

/// Parses a number of exactly `digits` digits.
fn number(text: &str, digits: usize) -> Option<i64> {
    let is_number = text.len() == digits && text.bytes().all(|byte| byte.is_ascii_digit());
    is_number.then(|| text.parse().ok()).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_parsed_as_they_are_formatted() {
        // Every day from 1970 to 2400, and some milliseconds of it.
        for day in 0..157_000u64 {
            let time = day * 86_400_000 + day * 7919 % 86_400_000;
            assert_eq!(parse(&text(time)), Some(time), "{}", text(time));
        }
        assert_eq!(text(0), "1970-01-01T00:00:00.000Z");
        assert_eq!(text(951_782_400_000), "2000-02-29T00:00:00.000Z");
    }

    #[test]
    fn forms_of_times() {
        let expected = Some(1_796_047_500_000);
        for text in [
            "2026-11-30T14:05:00Z",
            "2026-11-30 14:05:00z",
            "2026-11-30T14:05Z",
            "2026-11-30T14:05:00.0Z",
            "2026-11-30T15:05:00+01:00",
            "2026-11-30T08:35:00-05:30",
        ] {
            assert_eq!(parse(text), expected, "{text}");
        }
        assert_eq!(parse("2026-11-30T14:05:00.25Z"), Some(1_796_047_500_250));
        for text in [
            "",
            "now",
            "2026-11-30",
            "2026-11-30T14:05:00",
            "2026-02-29T14:05:00Z",
            "2026-13-01T14:05:00Z",
            "2026-11-30T24:05:00Z",
            "2026-11-30T14:60:00Z",
            "2026-11-30T14:05:60Z",
            "2026-11-30T14:05:00.1234Z",
            "2026-11-30T14:05:00*01:00",
            "1960-11-30T14:05:00Z",
            "\u{e9}-11-30T14:05:00\u{e9}",
        ] {
            assert_eq!(parse(text), None, "{text}");
        }
    }
}
