//! Glob matching for KEYS, SCAN MATCH, CONFIG GET and COMMAND LIST, compatible with
//! `stringmatchlen` in Redis 7.0.
//!
//! `?` matches any byte, `*` matches any number of bytes, `[ab-c]` matches a byte in the class,
//! `[^ab-c]` matches a byte outside it, and a backslash makes the next byte literal. The part after
//! the last `*` has a fixed length, so it is compared only with the end of the string. Of the
//! earlier stars, only the most recent one is ever retried, without recursion. The number of steps
//! is therefore at most the pattern length times the string length, and a step budget stops a match
//! that takes too many.
//!
//! Redis' corner cases are preserved, because clients depend on them: an empty string matches only
//! the empty pattern (not even `*`), an unterminated class ends with the pattern, and the ends of a
//! range compare as signed bytes.

/// The number of pattern elements that [`matches()`] tries against one string before it gives up.
/// Trying them takes a few milliseconds.
pub const STEP_BUDGET: u64 = 1 << 20;

/// The error that [`matches()`] returns when a match takes too many steps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TooComplex;

/// Whether matching distinguishes upper-case from lower-case ASCII letters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Case {
    /// Case matters, as in key names.
    Sensitive,
    /// Case is ignored, as in the names of commands and parameters.
    Insensitive,
}

impl Case {
    fn fold(self, byte: u8) -> u8 {
        match self {
            Case::Sensitive => byte,
            Case::Insensitive => byte.to_ascii_lowercase(),
        }
    }
}

/// Returns whether `pattern` matches the entire `string`.
///
/// # Errors
/// Returns [`TooComplex`] after [`STEP_BUDGET`] steps plus one step for each byte of the pattern
/// and the string. A single pass over both always fits in this budget.
pub fn matches(pattern: &[u8], string: &[u8], case: Case) -> Result<bool, TooComplex> {
    let mut budget =
        STEP_BUDGET.saturating_add((pattern.len() as u64).saturating_add(string.len() as u64));
    let mut rest = pattern;
    let mut at = 0;
    // The pattern after the most recent star, and the position in the string at which to retry it.
    let mut star: Option<(&[u8], usize)> = None;
    while at < string.len() {
        if let [b'*', behind @ ..] = rest {
            rest = &behind[behind.iter().take_while(|&&byte| byte == b'*').count()..];
            if rest.is_empty() {
                return Ok(true);
            }
            let Some(length) = fixed_length(rest) else {
                star = Some((rest, at + 1));
                continue;
            };
            // If no other star follows, the rest of the pattern has a fixed length, so it can match
            // only the end of the string.
            match string.len().checked_sub(length) {
                Some(end) if end >= at => (at, star) = (end, None),
                _ => return Ok(false),
            }
            continue;
        }
        let (matched, cost, behind) = element(rest, string[at], case);
        budget = budget.checked_sub(cost).ok_or(TooComplex)?;
        if matched {
            rest = behind;
            at += 1;
        } else {
            let Some((retry, next)) = star else {
                return Ok(false);
            };
            rest = retry;
            at = next;
            star = Some((retry, next + 1));
        }
    }
    // The entire string is consumed. Retrying an earlier star would leave fewer bytes for the same
    // elements, so only the rest of the pattern decides. Trailing stars match only if the string is
    // not empty.
    let stars = if string.is_empty() {
        0
    } else {
        rest.iter().take_while(|&&byte| byte == b'*').count()
    };
    Ok(rest.len() == stars)
}

/// Returns the number of bytes that a pattern matches, or `None` if the pattern contains a star.
fn fixed_length(mut pattern: &[u8]) -> Option<usize> {
    let mut length = 0;
    while !pattern.is_empty() {
        if pattern[0] == b'*' {
            return None;
        }
        // The byte and the case are irrelevant to the length of an element.
        pattern = element(pattern, 0, Case::Sensitive).2;
        length += 1;
    }
    Some(length)
}

/// Tries the first element of `pattern`, which must not be a star, on one byte. Returns whether the
/// element matched, its cost in steps, and the rest of the pattern.
fn element(pattern: &[u8], byte: u8, case: Case) -> (bool, u64, &[u8]) {
    match pattern {
        [] => (false, 1, pattern),
        [b'?', behind @ ..] => (true, 1, behind),
        [b'[', class @ ..] => {
            let (matched, behind) = class_matches(class, byte, case);
            (matched, (pattern.len() - behind.len()) as u64, behind)
        }
        [b'\\', literal, behind @ ..] | [literal, behind @ ..] => {
            (case.fold(*literal) == case.fold(byte), 1, behind)
        }
    }
}

/// Tries a class, whose opening bracket is already consumed, on one byte. Returns whether the class
/// matched, and the rest of the pattern.
fn class_matches(class: &[u8], byte: u8, case: Case) -> (bool, &[u8]) {
    let (negated, mut rest) = match class {
        [b'^', rest @ ..] => (true, rest),
        _ => (false, class),
    };
    let mut matched = false;
    loop {
        match rest {
            [] => break,
            [b'\\', literal, behind @ ..] => {
                // Redis compares an escaped byte exactly, even when it ignores case.
                matched |= *literal == byte;
                rest = behind;
            }
            [b']', behind @ ..] => {
                rest = behind;
                break;
            }
            [start, b'-', end, behind @ ..] => {
                matched |= in_range(*start, *end, byte, case);
                rest = behind;
            }
            [literal, behind @ ..] => {
                matched |= case.fold(*literal) == case.fold(byte);
                rest = behind;
            }
        }
    }
    (matched != negated, rest)
}

/// Returns whether a byte lies between two endpoints, given in either order. Bytes compare as a C
/// `signed char` on x86-64.
fn in_range(start: u8, end: u8, byte: u8, case: Case) -> bool {
    let (low, high) = if (start as i8) <= (end as i8) {
        (start, end)
    } else {
        (end, start)
    };
    let [low, high, byte] = [low, high, byte].map(|byte| case.fold(byte) as i8);
    (low..=high).contains(&byte)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(pattern: &str, string: &str) -> bool {
        matches(pattern.as_bytes(), string.as_bytes(), Case::Sensitive).expect("within the budget")
    }

    #[test]
    fn each_pattern_element_matches() {
        assert!(check("h?llo", "hello") && !check("h?llo", "hllo"));
        assert!(check("h*llo", "heeeello") && check("h*llo", "hllo"));
        assert!(check("h[ae]llo", "hallo") && !check("h[ae]llo", "hillo"));
        assert!(check("h[^e]llo", "hallo") && !check("h[^e]llo", "hello"));
        assert!(check("h[a-b]llo", "hbllo") && check("h[b-a]llo", "hallo"));
        assert!(check("\\*", "*") && !check("\\*", "a") && check("\\", "\\"));
        assert!(check("a**", "a") && check("*a*b*", "xxaxxbxx") && !check("*a*b", "xxaxxbxx"));
    }

    #[test]
    fn pattern_after_the_last_star_matches_only_the_end() {
        assert!(check("k*99", "k99") && check("k*99", "k999") && !check("k*99", "k9"));
        assert!(check("a*b[cd]?", "abbcx") && !check("a*b[cd]?", "abbxx"));
        assert!(check("*a*b", "abab") && !check("*a*b", "b") && !check("ab*b", "ab"));
        assert!(check("a*\\*", "ab*") && !check("a*\\*", "abc") && check("a*[b", "axb"));
        // Even a long pattern after the last star is tried only once.
        let pattern = [b"*".to_vec(), vec![b'a'; 50_000], b"b".to_vec()].concat();
        let found = matches(&pattern, &vec![b'a'; 100_000], Case::Sensitive);
        assert_eq!(found, Ok(false));
    }

    #[test]
    fn redis_corner_cases() {
        assert!(check("", "") && !check("*", "") && !check("a", ""));
        assert!(check("[^", "x") && !check("[", "x") && check("[ab", "b"));
        assert!(check("[a-]", "]") && check("[\\]]", "]"));
        let range = matches(b"[a-\xff]", b"\x10", Case::Sensitive);
        assert_eq!(range, Ok(true), "signed: from -1 to 'a'");
    }

    #[test]
    fn case_is_ignored_on_request() {
        assert_eq!(
            matches(b"MAX*[A-C]", b"maxmemory-b", Case::Insensitive),
            Ok(true)
        );
        assert_eq!(matches(b"[\\B]", b"b", Case::Insensitive), Ok(false));
    }

    #[test]
    fn hostile_patterns_exhaust_the_step_budget() {
        // The first star is retried 100,000 times, and each attempt compares 50,000 bytes.
        let pattern = [b"*".to_vec(), vec![b'a'; 50_000], b"b*".to_vec()].concat();
        assert_eq!(
            matches(&pattern, &vec![b'a'; 100_000], Case::Sensitive),
            Err(TooComplex)
        );
        assert_eq!(
            matches(&b"*a".repeat(1_000), &vec![b'a'; 2_000], Case::Sensitive),
            Ok(true)
        );
    }
}
