//! The limits of a client library: the cases that it cannot run, with the reasons.
//!
//! A file in `conformance/clients` has these lines, and comments that begin with `#`:
//!
//! ```text
//! loses types                      replies are values of the language (see `Limits::loses_types`)
//! command NAME -- reason           skips the cases that send a command with this name
//! answer WORD -- reason            skips the cases that expect this word instead of a reply, or `<`
//! file NAME -- reason              skips the cases of a file
//! case FILE: TITLE -- reason       skips one case
//! ```

use std::cell::Cell;
use std::path::Path;

use anyhow::{Context, Result, ensure};

/// The limits of one client library.
#[derive(Debug, Default)]
pub struct Limits {
    loses_types: bool,
    rules: Vec<Rule>,
}

#[derive(Debug)]
struct Rule {
    skips: Skips,
    reason: String,
    is_used: Cell<bool>,
}

#[derive(Debug, PartialEq, Eq)]
enum Skips {
    Command(String),
    Answer(String),
    File(String),
    Case(String),
}

/// The parts of a case that decide whether a client can run it.
#[derive(Clone, Copy, Debug)]
pub struct CaseParts<'a> {
    /// The name of the file.
    pub file: &'a str,
    /// The title.
    pub title: &'a str,
    /// The commands without the numbers of their connections, and their expected replies.
    pub steps: &'a [(&'a str, &'a [String])],
}

impl Limits {
    /// Reads the limits of a client.
    ///
    /// # Errors
    /// Returns an error that names the line if the file is malformed.
    pub fn read(path: &Path) -> Result<Limits> {
        let text =
            std::fs::read_to_string(path).with_context(|| format!("reading {}", path.display()))?;
        parse(&text).with_context(|| path.display().to_string())
    }

    /// Returns whether replies are values of the client's language, which have fewer types than the
    /// protocol: a status is a string, all nulls are equal, sets and maps are lists, a number has no
    /// notation, and an error may lack the code `ERR`.
    pub fn loses_types(&self) -> bool {
        self.loses_types
    }

    /// Returns why the client cannot run a case, or `None` if it can.
    pub fn reason(&self, case: CaseParts<'_>) -> Option<&str> {
        let mut found = None;
        for rule in &self.rules {
            if rule.skips.applies(case) {
                rule.is_used.set(true);
                found = found.or(Some(rule.reason.as_str()));
            }
        }
        found
    }

    /// Returns the lines that apply to no case that was asked for.
    pub fn unused(&self) -> Vec<String> {
        let unused = self.rules.iter().filter(|rule| !rule.is_used.get());
        unused
            .map(|rule| format!("{:?} applies to no case: {}", rule.skips, rule.reason))
            .collect()
    }
}

impl Skips {
    fn applies(&self, case: CaseParts<'_>) -> bool {
        let CaseParts { file, title, steps } = case;
        match self {
            Skips::Command(name) => steps.iter().any(|(command, _)| {
                let start = command.get(..name.len()).unwrap_or_default();
                let rest = command.get(name.len()..).unwrap_or_default();
                start.eq_ignore_ascii_case(name) && (rest.is_empty() || rest.starts_with(' '))
            }),
            Skips::Answer(word) => steps.iter().any(|(command, expected)| {
                command == word || expected.iter().any(|line| line == word)
            }),
            Skips::File(name) => file == name,
            Skips::Case(name) => name.split_once(": ") == Some((file, title)),
        }
    }
}

fn parse(text: &str) -> Result<Limits> {
    let mut limits = Limits::default();
    for (index, line) in text.lines().enumerate() {
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        if line == "loses types" {
            limits.loses_types = true;
            continue;
        }
        let rule = rule(line);
        let number = index + 1;
        ensure!(
            rule.is_some(),
            "line {number}: expected 'command', 'answer', 'file' or 'case', a name, ' -- ' and a \
             reason, got '{line}'"
        );
        limits.rules.extend(rule);
    }
    Ok(limits)
}

fn rule(line: &str) -> Option<Rule> {
    let (what, reason) = line.split_once(" -- ")?;
    let (kind, name) = what.split_once(' ')?;
    let name = name.to_owned();
    let skips = match kind {
        "command" => Skips::Command(name),
        "answer" => Skips::Answer(name),
        "file" => Skips::File(name),
        "case" => Skips::Case(name),
        _ => return None,
    };
    Some(Rule {
        skips,
        reason: reason.to_owned(),
        is_used: Cell::new(false),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_apply_to_the_cases_that_they_name() {
        let limits = parse(
            "# comment\n\nloses types\ncommand CLIENT LIST -- a\nanswer waits -- b\nfile geo -- c\n\
             case sets: one: two -- d\ncommand NONE -- e\n",
        )
        .unwrap();
        assert!(limits.loses_types());
        let reason = |file, title, command, expected: &str| {
            let expected = [expected.to_owned()];
            let steps = [(command, &expected[..])];
            let parts = CaseParts {
                file,
                title,
                steps: &steps,
            };
            limits.reason(parts).map(str::to_owned)
        };
        for (file, title, command, expected, wanted) in [
            ("x", "y", "client list ID 1", "+OK", Some("a")),
            ("x", "y", "CLIENT LISTS", "+OK", None),
            ("x", "y", "CLIENT", "+OK", None),
            ("x", "y", "BLPOP a 0", "waits", Some("b")),
            ("geo", "y", "GET k", "+OK", Some("c")),
            ("sets", "one: two", "GET k", "+OK", Some("d")),
            ("sets", "one", "GET k", "+OK", None),
        ] {
            let found = reason(file, title, command, expected);
            assert_eq!(found.as_deref(), wanted, "{file}: {title}: {command}");
        }
        assert_eq!(limits.unused().len(), 1);
        for bad in ["command -- a", "file geo", "other x -- a"] {
            assert!(parse(bad).is_err(), "{bad}");
        }
    }
}
