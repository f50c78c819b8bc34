//! Hides passwords in the arguments that are logged.

use crate::arguments::is_keyword;
use crate::config::PARAMETERS;
use crate::table::Command;

/// Returns a command's arguments for the slow log and MONITOR, with passwords hidden.
pub(super) fn redacted<'a>(command: &'static Command, arguments: &[&'a [u8]]) -> Vec<&'a [u8]> {
    const HIDDEN: &[u8] = b"(redacted)";
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
