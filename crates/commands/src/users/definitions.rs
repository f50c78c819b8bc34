//! Parses the lines that define users in files.

use super::rule::{is_word, join_selectors};
use super::user::User;

/// A line of a configuration file that defines a user.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UserDefinition {
    name: Vec<u8>,
    rules: Vec<Vec<u8>>,
}

impl UserDefinition {
    /// Parses the words of a line after `user`: the name and the rules.
    ///
    /// # Errors
    /// Returns a message if the line is invalid, regardless of the values of the configuration.
    pub fn parse(words: &[&[u8]]) -> Result<UserDefinition, String> {
        let (name, rules) = words.split_first().ok_or("expected the name of a user")?;
        if !is_word(name) {
            return Err(format!(
                "the name of a user contains spaces: '{}'",
                String::from_utf8_lossy(name)
            ));
        }
        let rules = join_selectors(rules).map_err(|at| {
            let rule = String::from_utf8_lossy(rules[at]);
            format!("expected a closing parenthesis after '{rule}'")
        })?;
        let definition = UserDefinition {
            name: name.to_vec(),
            rules,
        };
        definition.user(false)?;
        Ok(definition)
    }

    /// Returns the name of the user.
    pub fn name(&self) -> &[u8] {
        &self.name
    }

    /// Returns the defined user.
    pub(super) fn user(&self, all_channels: bool) -> Result<User, String> {
        let mut user = User::new(&self.name, all_channels);
        for rule in &self.rules {
            user.apply(rule, all_channels).map_err(|error| {
                // The rule may contain a password.
                let shown = match rule.first() {
                    Some(b'>' | b'<' | b'#' | b'!') => "with a password".into(),
                    _ => format!("'{}'", String::from_utf8_lossy(rule)),
                };
                let name = String::from_utf8_lossy(&self.name);
                format!("the rule {shown} of the user '{name}' is not valid: {error}")
            })?;
        }
        Ok(user)
    }
}

/// Returns the users that an ACL file defines.
///
/// # Errors
/// Returns Redis' description of all errors in the file, which is called `name` there.
pub fn definitions_of_file(name: &str, text: &[u8]) -> Result<Vec<UserDefinition>, String> {
    let (mut found, mut errors) = (Vec::<UserDefinition>::new(), String::new());
    for (number, line) in (1..).zip(text.split(|byte| *byte == b'\n')) {
        let line = trim(line, b" \t\r\n");
        if line.is_empty() {
            continue;
        }
        let words: Vec<&[u8]> = line.split(|byte| *byte == b' ').collect();
        let [b"user", user, rules @ ..] = &words[..] else {
            errors += &format!(
                "{name}:{number} should start with user keyword followed by the username. "
            );
            continue;
        };
        let shown = String::from_utf8_lossy(user);
        if !is_word(user) {
            errors +=
                &format!("'{name}:{number}: username '{shown}' contains invalid characters. ");
            continue;
        }
        if found.iter().any(|known| known.name == *user) {
            errors += &format!("WARNING: Duplicate user '{shown}' found on line {number}. ");
            continue;
        }
        let Ok(rules) = join_selectors(rules) else {
            errors += &format!("{name}:{number}: Unmatched parenthesis in selector definition.");
            continue;
        };
        let rules: Vec<Vec<u8>> = rules
            .iter()
            .map(|rule| trim(rule, b"\t\r\n").to_vec())
            .collect();
        let mut probe = User::new(user, false);
        let mut has_error = false;
        for rule in &rules {
            match probe.apply(rule, false) {
                Ok(()) => {}
                Err(error) if User::is_unknown_command(error) => {
                    let rule = String::from_utf8_lossy(rule);
                    errors += &format!(
                        "{name}:{number}: Error in applying operation '{rule}': {error}. "
                    );
                }
                // Later rules may fail because of the first one.
                Err(_) if has_error => {}
                Err(error) => {
                    has_error = true;
                    errors += &format!("{name}:{number}: {error}. ");
                }
            }
        }
        found.push(UserDefinition {
            name: user.to_vec(),
            rules,
        });
    }
    match errors.is_empty() {
        true => Ok(found),
        false => Err(errors
            + "WARNING: ACL errors detected, no change to the previously active ACL rules was performed"),
    }
}

/// Returns the users that an ACL file defines, for ACL LOAD.
pub(crate) fn users_of_file(
    name: &str,
    text: &[u8],
    all_channels: bool,
) -> Result<Vec<User>, String> {
    let definitions = definitions_of_file(name, text)?;
    let users = definitions.iter().map(|one| one.user(all_channels));
    users.collect()
}

fn trim<'t>(mut text: &'t [u8], blanks: &[u8]) -> &'t [u8] {
    while let [first, rest @ ..] = text
        && blanks.contains(first)
    {
        text = rest;
    }
    while let [rest @ .., last] = text
        && blanks.contains(last)
    {
        text = rest;
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_of_files_are_those_of_redis() {
        let errors = |text: &str| definitions_of_file("f", text.as_bytes()).err();
        assert_eq!(errors("user a on nopass\n\n  user b ~x (+get ~y) \n"), None);
        for (text, expected) in [
            (
                "usr a",
                "f:1 should start with user keyword followed by the username. ",
            ),
            (
                "user a\nuser a",
                "WARNING: Duplicate user 'a' found on line 2. ",
            ),
            (
                "\nuser a +foo bar baz -get|x",
                "f:2: Error in applying operation '+foo': Unknown command or category name in ACL. f:2: Syntax error. \
                 f:2: Error in applying operation '-get|x': Unknown command or category name in ACL. ",
            ),
        ] {
            let all = format!(
                "{expected}WARNING: ACL errors detected, no change to the previously active ACL rules was performed"
            );
            assert_eq!(errors(text), Some(all), "{text}");
        }
    }

    #[test]
    fn messages_about_definitions_hide_passwords() {
        let parse = |line: &str| {
            let words: Vec<&[u8]> = line.split(' ').map(str::as_bytes).collect();
            UserDefinition::parse(&words).map(|definition| definition.name)
        };
        assert_eq!(parse("a on >secret (+get ~x)"), Ok(b"a".to_vec()));
        for (line, expected) in [
            (
                "a #secret",
                "the rule with a password of the user 'a' is not valid: The password hash must be exactly 64 characters \
                 and contain only lowercase hexadecimal characters",
            ),
            (
                "a +nosuch",
                "the rule '+nosuch' of the user 'a' is not valid: Unknown command or category name in ACL",
            ),
            ("a (+get", "expected a closing parenthesis after '(+get'"),
        ] {
            assert_eq!(parse(line), Err(expected.to_owned()), "{line}");
        }
    }
}
