//! Defines how rules fail, and joins the arguments that form one rule.

use crate::algorithms::words::is_blank;

/// The reason why a rule is refused. The texts are those of Redis 7.0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RuleError {
    Syntax,
    UnknownCommand,
    KeysAreUnlimited,
    ChannelsAreUnlimited,
    NoSuchPassword,
    BadHash,
    FirstArgumentOfSubcommand,
}

impl RuleError {
    /// Returns the text with which Redis explains the error.
    pub(super) fn text(self) -> &'static str {
        match self {
            RuleError::Syntax => "Syntax error",
            RuleError::UnknownCommand => "Unknown command or category name in ACL",
            RuleError::KeysAreUnlimited => {
                "Adding a pattern after the * pattern (or the 'allkeys' flag) is not valid and does not have any effect. \
                 Try 'resetkeys' to start with an empty list of patterns"
            }
            RuleError::ChannelsAreUnlimited => {
                "Adding a pattern after the * pattern (or the 'allchannels' flag) is not valid and does not have any \
                 effect. Try 'resetchannels' to start with an empty list of channels"
            }
            RuleError::NoSuchPassword => {
                "The password you are trying to remove from the user does not exist"
            }
            RuleError::BadHash => {
                "The password hash must be exactly 64 characters and contain only lowercase hexadecimal characters"
            }
            RuleError::FirstArgumentOfSubcommand => {
                "Allowing first-arg of a subcommand is not supported"
            }
        }
    }
}

/// Returns the bytes before the first zero byte, because Redis compares rules as C strings.
pub(super) fn c_text(rule: &[u8]) -> &[u8] {
    let end = rule.iter().position(|byte| *byte == 0);
    &rule[..end.unwrap_or(rule.len())]
}

/// Returns whether a text contains neither blanks nor zero bytes, as the names of users and the
/// patterns of keys and channels must, because files separate rules by blanks.
pub(crate) fn is_word(text: &[u8]) -> bool {
    !text.iter().any(|byte| is_blank(*byte) || *byte == 0)
}

/// Joins the rules of each selector, which can be spread across several arguments, into one rule.
/// O(bytes).
///
/// # Errors
/// Returns the index of an argument with an opening parenthesis that is not closed.
pub(crate) fn join_selectors(arguments: &[&[u8]]) -> Result<Vec<Vec<u8>>, usize> {
    let mut rules = Vec::with_capacity(arguments.len());
    let mut open: Option<(usize, Vec<u8>)> = None;
    for (at, argument) in arguments.iter().enumerate() {
        let ends = argument.last() == Some(&b')');
        if argument.first() == Some(&b'(') && !ends {
            // As in Redis, a second opening parenthesis begins the selector anew.
            open = Some((at, argument.to_vec()));
            continue;
        }
        match &mut open {
            None => rules.push(argument.to_vec()),
            Some((_, rule)) => {
                rule.push(b' ');
                rule.extend_from_slice(argument);
                if ends && let Some((_, rule)) = open.take() {
                    rules.push(rule);
                }
            }
        }
    }
    match open {
        None => Ok(rules),
        Some((at, _)) => Err(at),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn selectors_are_joined() {
        let join = |line: &str| {
            let words: Vec<&[u8]> = line.split(' ').map(str::as_bytes).collect();
            join_selectors(&words).map(|rules| {
                let rules = rules.iter().map(|rule| String::from_utf8_lossy(rule));
                rules.collect::<Vec<_>>().join(",")
            })
        };
        assert_eq!(join("on (~a +get) off"), Ok("on,(~a +get),off".into()));
        assert_eq!(join("(~a) ( ~b )"), Ok("(~a),( ~b )".into()));
        assert_eq!(join("on (~a +get"), Err(1));
        assert_eq!(join("(~a)( on"), Err(0));
    }
}
