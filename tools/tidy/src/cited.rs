//! Checks the numbered rules of the store, such as W4: every cited rule must be defined in exactly
//! one place, and the tests that documents name as guards of the rules must exist.

use std::collections::HashSet;

use crate::{File, Repo, Report, Rule};

/// The document that defines the rules. A definition is a paragraph that starts with the rule's
/// number in bold and a period.
const DEFINED_IN: &str = "docs/rules.md";

pub(crate) const CITED_RULES: Rule = Rule {
    name: "every rule that is cited is defined",
    check,
    canary: || Repo::with_file("crates/memory/src/log.rs", "//! The undo log (W4)."),
};

/// Documents that name tests as guards of their statements.
const NAME_TESTS: &[&str] = &[DEFINED_IN, "docs/security.md"];

pub(crate) const GUARDS: Rule = Rule {
    name: "every test that documents name exists",
    check: guards,
    canary: || Repo::with_file(DEFINED_IN, "Guarded by `who_is_gone_is_gone`.\n"),
};

fn check(repo: &Repo) -> Report {
    let page = repo.file(DEFINED_IN).into_iter();
    let defined: HashSet<&str> = page.flat_map(definitions).collect();
    let mut report = Report::default();
    for file in &repo.files {
        for (number, line) in file.text.lines().enumerate() {
            for rule in citations(line) {
                let place = format!("{}:{}", file.path, number + 1);
                let known = defined.contains(rule);
                report.add(
                    (!known).then(|| format!("{place}: {rule} is not defined in {DEFINED_IN}")),
                );
            }
        }
    }
    report
}

fn guards(repo: &Repo) -> Report {
    let sources = repo.files.iter().filter(|file| file.extension() == "rs");
    let functions: HashSet<&str> = sources.flat_map(tests).collect();
    let mut report = Report::default();
    for page in NAME_TESTS.iter().filter_map(|page| repo.file(page)) {
        for (number, line) in page.text.lines().enumerate() {
            let quoted = line.split('`').skip(1).step_by(2);
            for name in quoted.filter(|text| is_test(text)) {
                let place = format!("{}:{}", page.path, number + 1);
                let there = functions.contains(name);
                report.add((!there).then(|| format!("{place}: no test has the name {name}")));
            }
        }
    }
    report
}

/// Returns the names of a file's functions that could be tests because they have no arguments and
/// no result.
fn tests(file: &File) -> impl Iterator<Item = &str> {
    file.text.lines().filter_map(|line| {
        let name = line.trim_start().strip_prefix("fn ")?;
        name.strip_suffix("() {")
    })
}

/// Returns whether a text has the form of a test's name.
fn is_test(text: &str) -> bool {
    let letters = |c: char| c == '_' || c.is_ascii_lowercase();
    text.chars().all(letters) && text.matches('_').count() >= 3
}

/// Returns the numbers of the rules that the document defines.
fn definitions(file: &File) -> impl Iterator<Item = &str> {
    file.text.lines().filter_map(|line| {
        let (rule, _) = line
            .trim_start_matches("- ")
            .strip_prefix("**")?
            .split_once(".**")?;
        is_rule(rule).then_some(rule)
    })
}

/// Returns the numbers of the rules that a line cites: in parentheses that contain only rules, or
/// after the word "rule".
fn citations(line: &str) -> Vec<&str> {
    let mut cited = Vec::new();
    for part in line.split('(').skip(1) {
        if let Some((inside, _)) = part.split_once(')') {
            cited.extend(all_rules(inside).unwrap_or_default());
        }
    }
    let words: Vec<&str> = line.split([' ', ',', '.', ';', ':', '(', ')']).collect();
    for pair in words.windows(2) {
        if ["rule", "rules"].contains(&pair[0]) && is_rule(pair[1]) && !cited.contains(&pair[1]) {
            cited.push(pair[1]);
        }
    }
    cited
}

/// Returns the rules in a text, or `None` if the text contains words other than rules, "rule", "to"
/// and "and".
fn all_rules(text: &str) -> Option<Vec<&str>> {
    let words = text.split([' ', ',']).filter(|word| !word.is_empty());
    let rules: Vec<&str> = words
        .filter(|word| !["rule", "rules", "to", "and"].contains(word))
        .collect();
    (!rules.is_empty() && rules.iter().all(|word| is_rule(word))).then_some(rules)
}

/// Returns whether a word consists of a rule group's letter and a number.
fn is_rule(word: &str) -> bool {
    let mut letters = word.chars();
    let group = letters
        .next()
        .is_some_and(|letter| "DHLMRSW".contains(letter));
    let number = letters.as_str();
    group && (1..=2).contains(&number.len()) && number.bytes().all(|byte| byte.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn citations_are_found_and_nothing_else() {
        for (line, rules) in [
            ("//! The undo log (W4, W5): old contents", &["W4", "W5"][..]),
            (
                "/// What of a store is on the disk (D1 to D3).",
                &["D1", "D3"],
            ),
            (
                "// as rule M8 says, and (rules R1, R2 and R8)",
                &["R1", "R2", "R8", "M8"],
            ),
            ("let S3 = f(W1 + 2); (see W1 there) SHA1 (H)", &[]),
        ] {
            assert_eq!(citations(line), rules, "{line}");
        }
    }

    #[test]
    fn tests_named_by_documents_must_exist() {
        let page = "Guarded by `a_test_that_is_there`, `tests/room.rs`, `a_test_that_is_gone`.\n";
        let test = "    #[test]\n    fn a_test_that_is_there() {\n";
        let mut repo = Repo::with_file("docs/security.md", page);
        repo.files
            .extend(Repo::with_file("crates/a.rs", test).files);
        let report = guards(&repo);
        assert_eq!(report.checked, 2);
        assert_eq!(
            report.findings,
            ["docs/security.md:1: no test has the name a_test_that_is_gone"]
        );
    }

    #[test]
    fn a_paragraph_that_starts_with_a_rule_defines_it() {
        let files = [
            (DEFINED_IN, "**W4.** No byte changes.\n"),
            ("docs/other.md", "**W5.** Not here.\n"),
            ("crates/a.rs", "// (W4)\n// (W5)\n"),
        ];
        let mut repo = Repo::default();
        for (path, text) in files {
            repo.files.extend(Repo::with_file(path, text).files);
        }
        let report = check(&repo);
        assert_eq!(report.checked, 2);
        assert_eq!(report.findings.len(), 1);
        assert!(report.findings[0].starts_with("crates/a.rs:2: W5"));
    }
}
