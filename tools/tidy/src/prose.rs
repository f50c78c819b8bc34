//! Checks that comments and documents avoid wordings that a reader must decode.
//!
//! Only patterns that a regular expression can match are here. A finding is a sentence to rewrite
//! with a subject, an active verb and an object. Strings and identifiers are not checked, because
//! many of them belong to Redis.

use std::sync::LazyLock;

use regex::Regex;

use crate::{File, Repo, Report, Rule};

/// A wording that is refused, and its replacement.
struct Wording {
    /// Matches the wording in a line without its comment marker.
    pattern: &'static str,
    /// Whether to search only the first line of a comment, and no Markdown.
    first_line_only: bool,
    instead: &'static str,
}

const WORDINGS: &[Wording] = &[
    Wording {
        pattern: r"(?i)(?-u:\b)(nobody|somebody|whoever|whomever|whosoever)(?-u:\b)",
        first_line_only: false,
        instead: "name the process, thread, client or caller",
    },
    Wording {
        pattern: r"(?i)(?-u:\b)behind(?-u:\b)",
        first_line_only: false,
        instead: "after, following, at the end of, lagging",
    },
    Wording {
        pattern: r"(?i)(?-u:\b)beside(?-u:\b)",
        first_line_only: false,
        instead: "next to, in addition to, compared with, together with",
    },
    Wording {
        pattern: r"(?i)(?-u:\b)so many(?-u:\b)",
        first_line_only: false,
        instead: "the number, or `so many NOUNS that`",
    },
    Wording {
        pattern: r"^Of (such|which|whom)(?-u:\b)",
        first_line_only: true,
        instead: "the noun itself",
    },
    Wording {
        pattern: r"(?i)(?-u:\b)(is|are) none of (it|them|these|those)(?-u:\b)",
        first_line_only: false,
        instead: "any other NOUN",
    },
    Wording {
        pattern: r"(?i)(?-u:\b)shall(?-u:\b)",
        first_line_only: false,
        instead: "must, or the present tense",
    },
    Wording {
        pattern: r"^(Who|What|Whose|Whom) [^?]*$",
        first_line_only: true,
        instead: "a noun as the subject",
    },
    Wording {
        pattern: r"^(They|It|Those|That|Others) [^`]{0,40}\.$",
        first_line_only: true,
        instead: "the noun that the pronoun stands for",
    },
];

/// Idioms that contain a refused word, and inline code.
const IDIOMS: &str = concat!(
    r"`[^`]*`",
    r"|(?i)(?-u:\b)so many(?: [a-z-]+){0,4} that(?-u:\b)",
    r"|(?i)(?-u:\b)(?:fall|falls|fell|lag|lags|lagged|lagging|left-?) ?behind(?-u:\b)",
    r"|(?i)(?-u:\b)(?:leave|leaves|leaving|left)(?-u:\b)[^.]{0,40} behind(?-u:\b)",
    r"|(?i)(?-u:\b)behind (?:nginx|a (?:reverse )?proxy|a load balancer|a firewall)(?-u:\b)",
);

/// Comment markers by file extension.
const SLASHES: &[&str] = &["c", "h", "inc", "php", "rs"];
const HASHES: &[&str] = &["case", "py", "pyi", "sh", "toml"];

static COMPILED_IDIOMS: LazyLock<Regex> =
    LazyLock::new(|| Regex::new(IDIOMS).expect("the pattern is a literal"));
static COMPILED: LazyLock<Vec<(Regex, &Wording)>> = LazyLock::new(|| {
    let compile = |wording: &'static Wording| {
        let pattern = Regex::new(wording.pattern).expect("the pattern is a literal");
        (pattern, wording)
    };
    WORDINGS.iter().map(compile).collect()
});

pub(crate) const PROSE: Rule = Rule {
    name: "comments and documents are plain English",
    check,
    canary: || Repo::with_file("crates/engine/src/a.rs", "/// Who waits behind it.\n"),
};

fn check(repo: &Repo) -> Report {
    let mut report = Report::default();
    for file in &repo.files {
        if is_checked(file) {
            report.add(findings(file));
        }
    }
    report
}

fn is_checked(file: &File) -> bool {
    let extension = file.extension();
    extension == "md" || SLASHES.contains(&extension) || HASHES.contains(&extension)
}

fn findings(file: &File) -> Vec<String> {
    let mut found = Vec::new();
    for line in texts(file) {
        let text = COMPILED_IDIOMS.replace_all(line.text, "");
        for (pattern, wording) in COMPILED.iter() {
            if wording.first_line_only && !line.begins_comment {
                continue;
            }
            if let Some(found_text) = pattern.find(&text) {
                let words: String = found_text.as_str().chars().take(40).collect();
                let Wording { instead, .. } = wording;
                let (path, number) = (&file.path, line.number);
                found.push(format!("{path}:{number}: {words:?}; write {instead}"));
            }
        }
    }
    found
}

/// A line of prose.
struct Line<'a> {
    number: usize,
    /// The line without the comment marker.
    text: &'a str,
    /// Whether the line is the first one of a comment or a docstring.
    begins_comment: bool,
}

/// Returns the lines of prose in a file: comments, docstrings and Markdown. Omits code samples.
fn texts(file: &File) -> Vec<Line<'_>> {
    let extension = file.extension();
    let (mut in_sample, mut in_docstring, mut in_block) = (false, false, false);
    let (mut last, mut has_begun) = (None, false);
    let mut found = Vec::new();
    for (index, line) in file.text.lines().enumerate() {
        let number = index + 1;
        let trimmed = line.trim();
        let text = if extension == "md" {
            Some(trimmed)
        } else if SLASHES.contains(&extension) {
            let was_in_block = in_block;
            if trimmed.starts_with("/*") {
                in_block = true;
            }
            let is_block = in_block;
            if trimmed.ends_with("*/") {
                in_block = false;
            }
            if is_block {
                let marker: &[char] = if was_in_block { &['*'] } else { &['/', '*'] };
                Some(
                    trimmed
                        .trim_start_matches(marker)
                        .trim_end_matches("*/")
                        .trim(),
                )
            } else {
                slashes(trimmed)
            }
        } else {
            let quotes = trimmed.matches("\"\"\"").count();
            let is_docstring = extension.starts_with("py") && (in_docstring || quotes > 0);
            in_docstring ^= extension.starts_with("py") && quotes % 2 == 1;
            if is_docstring {
                let is_docs = in_docstring || trimmed.starts_with("\"\"\"") || quotes % 2 == 1;
                is_docs.then(|| trimmed.trim_matches('"').trim())
            } else {
                trimmed.strip_prefix('#').map(str::trim)
            }
        };
        let Some(text) = text else { continue };
        if last.is_none_or(|last| last + 1 != number) {
            has_begun = extension == "md";
        }
        last = Some(number);
        if text.starts_with("```") {
            in_sample = !in_sample;
        } else if !in_sample && !text.is_empty() {
            found.push(Line {
                number,
                text,
                begins_comment: !has_begun,
            });
            has_begun = true;
        }
    }
    found
}

/// Returns the text of a `//` comment, which is alone on its line or follows code.
fn slashes(line: &str) -> Option<&str> {
    if let Some(text) = line.strip_prefix("//") {
        return Some(text.trim_start_matches(['/', '!']).trim());
    }
    let (code, comment) = line.split_once(" // ")?;
    (code.matches('"').count() % 2 == 0).then_some(comment)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(path: &str, text: &str) -> usize {
        (PROSE.check)(&Repo::with_file(path, text)).findings.len()
    }

    #[test]
    fn each_kind_of_prose_is_checked() {
        for (path, text) in [
            ("a.rs", "/// Bytes behind the end.\n"),
            ("a.rs", "fn f() {} // nobody\n"),
            ("a.py", "# so many\n"),
            (
                "a.py",
                "def f():\n    \"\"\"Return the next.\n\n    Nobody waits.\n    \"\"\"\n",
            ),
            ("a.php", "/**\n * What it does.\n */\n"),
            ("a.c", "/* Whoever asks. */\n"),
            ("a.md", "Keys shall be sorted.\n"),
        ] {
            assert_eq!(found(path, text), 1, "{text}");
        }
    }

    #[test]
    fn code_samples_and_strings_are_not_checked() {
        for (path, text) in [
            ("a.rs", concat!("g(\"behind /", "/ behind\");\n")),
            ("a.rs", "let behind = 1;\n"),
            ("a.rs", "/// Sample:\n/// ```\n/// behind();\n/// ```\n"),
            ("a.md", "The blocks that it leaves behind\n"),
            ("a.md", "Runs behind nginx, `behind`, lagging behind\n"),
            ("a.md", "So many small keys that it grows\n"),
            ("a.rs", "/// Keys.\n///\n/// They are sorted.\n"),
            ("a.md", "Text\n```\nbehind\n```\n"),
            ("a.py", "behind = 1\n"),
        ] {
            assert_eq!(found(path, text), 0, "{text}");
        }
    }

    #[test]
    fn pronouns_are_refused_as_a_whole_summary() {
        assert_eq!(found("a.rs", "/// They are.\n"), 1);
        assert_eq!(found("a.rs", "/// Keys.\n/// They are sorted.\n"), 0);
        assert_eq!(found("a.rs", "/// What does this test?\n"), 0);
    }
}
