//! Hides passwords in the arguments that are logged.

use crate::arguments::is_keyword;
use crate::config::PARAMETERS;
use crate::table::Command;

/// The text that replaces a password.
const HIDDEN: &[u8] = b"(redacted)";
/// The number of arguments that an event of the audit log contains, at most.
const ARGUMENTS_MAX: usize = 32;
/// The number of bytes of an argument that an event of the audit log contains, at most.
const ARGUMENT_MAX: usize = 128;

/// Rules of ACL SETUSER that consist of a word only.
const WORD_RULES: [&str; 14] = [
    "on",
    "off",
    "nopass",
    "resetpass",
    "reset",
    "allkeys",
    "resetkeys",
    "allchannels",
    "resetchannels",
    "allcommands",
    "nocommands",
    "clearselectors",
    "sanitize-payload",
    "skip-sanitize-payload",
];

/// Returns a command's arguments for the slow log and MONITOR, with passwords hidden.
pub(super) fn redacted<'a>(command: &'static Command, arguments: &[&'a [u8]]) -> Vec<&'a [u8]> {
    let mut shown = arguments.to_vec();
    match command.name {
        "auth" => shown.iter_mut().skip(1).for_each(|word| *word = HIDDEN),
        "hello" => {
            let login = arguments.iter().position(|word| is_keyword(word, "AUTH"));
            let secrets = shown.iter_mut().skip(login.map_or(usize::MAX, |at| at + 1));
            secrets.take(2).for_each(|word| *word = HIDDEN);
        }
        "acl|setuser" => shown.iter_mut().skip(2).for_each(|word| *word = HIDDEN),
        "config|set" => {
            for pair in shown[2..].chunks_mut(2) {
                let secret = PARAMETERS
                    .iter()
                    .any(|parameter| parameter.secret && is_keyword(pair[0], parameter.name));
                if let (true, [_, value]) = (secret, pair) {
                    *value = HIDDEN;
                }
            }
        }
        "migrate" => {
            let mut at = 6;
            while let Some(word) = arguments.get(at) {
                let secrets = match () {
                    () if is_keyword(word, "AUTH") => 1,
                    () if is_keyword(word, "AUTH2") => 2,
                    () if is_keyword(word, "COPY") || is_keyword(word, "REPLACE") => 0,
                    // The options end here: keys or an unknown word follow.
                    () => break,
                };
                let hidden = shown.iter_mut().skip(at + 1).take(secrets);
                hidden.for_each(|word| *word = HIDDEN);
                at += 1 + secrets;
            }
        }
        _ => {}
    }
    shown
}

/// Returns a command's arguments after its name, and the text of its error, for the audit log. Unlike
/// in [`redacted`], the rules of ACL SETUSER are shown, except for passwords and for words that may be
/// mistyped passwords.
pub(super) fn audited(
    command: &'static Command,
    arguments: &[&[u8]],
    reason: &str,
) -> (Vec<Vec<u8>>, String) {
    let is_rule = |word: &[u8]| {
        word.first().is_some_and(|first| b"+-~%&(".contains(first))
            || WORD_RULES.iter().any(|rule| is_keyword(word, rule))
    };
    let name_words = 1 + usize::from(command.name.contains('|'));
    let mut shown = redacted(command, arguments);
    if command.name == "acl|setuser" {
        for (shown, word) in shown.iter_mut().zip(arguments).skip(3) {
            if is_rule(word) {
                *shown = word;
            }
        }
        if let (Some(shown), Some(name)) = (shown.get_mut(2), arguments.get(2)) {
            *shown = name;
        }
    }
    let hides = shown.contains(&HIDDEN);
    let left_out = shown.len().saturating_sub(name_words + ARGUMENTS_MAX);
    let kept = shown.into_iter().skip(name_words).take(ARGUMENTS_MAX);
    let mut kept: Vec<Vec<u8>> = kept.map(cut).collect();
    if left_out > 0 {
        kept.push(format!("... ({left_out} more arguments)").into_bytes());
    }
    // An error can quote the argument that is hidden.
    let reason = match (hides, reason.find('\''), reason.rfind('\'')) {
        (true, Some(from), Some(to)) => {
            format!("{}'(redacted)'{}", &reason[..from], &reason[to + 1..])
        }
        _ => reason.to_owned(),
    };
    (kept, reason)
}

fn cut(argument: &[u8]) -> Vec<u8> {
    match argument.split_at_checked(ARGUMENT_MAX) {
        Some((start, rest)) if !rest.is_empty() => {
            let more = format!("... ({} more bytes)", rest.len());
            [start, more.as_bytes()].concat()
        }
        _ => argument.to_vec(),
    }
}
