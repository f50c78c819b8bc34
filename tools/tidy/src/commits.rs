//! Checks the subjects and bodies of commits.
//!
//! The check begins with the commit that added this file. Older commits followed no rule.

use crate::{Commit, Repo, Report, Rule};

/// The maximum length of a subject, in characters, so that `git log --oneline` shows it in full on
/// a terminal of 80 columns.
const SUBJECT: usize = 72;
/// First words that are not imperative verbs.
const NO_VERBS: &[&str] = &[
    "A", "All", "An", "And", "Each", "Every", "For", "If", "In", "It", "More", "New", "No", "On",
    "One", "Some", "That", "The", "This", "What", "When", "Where", "Who",
];

pub(crate) const COMMITS: Rule = Rule {
    name: "commits have an imperative subject, and a body that says why",
    check,
    canary: || Repo {
        commits: vec![commit("Engine: what is long stays.", "")],
        ..Repo::default()
    },
};

fn check(repo: &Repo) -> Report {
    let mut report = Report::default();
    // Count the check itself, because a tree without history has no commits.
    report.add(None);
    for commit in &repo.commits {
        let wrong = wrong(commit);
        report.add(wrong.map(|why| format!("{} {:?}: {why}", commit.hash, commit.subject)));
    }
    report
}

fn wrong(commit: &Commit) -> Option<String> {
    let subject = &commit.subject;
    let first = subject.split(' ').next().unwrap_or_default();
    if subject.chars().count() > SUBJECT {
        return Some(format!("expected {SUBJECT} characters at most"));
    }
    if subject.ends_with('.') {
        return Some("expected no period at its end".to_owned());
    }
    if !first.starts_with(|letter: char| letter.is_ascii_uppercase()) || !is_imperative(first) {
        let form = "expected a verb in the imperative first, such as `Keep`";
        return Some(form.to_owned());
    }
    if commit.body.split_whitespace().count() < 4 {
        return Some("expected a body that says why".to_owned());
    }
    None
}

/// Returns whether a word may be an imperative: only letters, and not a form such as `Adds`,
/// `Added` or `Adding`.
fn is_imperative(word: &str) -> bool {
    let is_word = word.chars().all(|letter| letter.is_ascii_alphabetic());
    let is_third_person = word.ends_with('s') && !word.ends_with("ss");
    let is_participle = (word.ends_with("ed") && !word.ends_with("eed") && word != "Embed")
        || (word.ends_with("ing") && word != "Bring");
    is_word && !is_third_person && !is_participle && !NO_VERBS.contains(&word)
}

fn commit(subject: &str, body: &str) -> Commit {
    Commit {
        hash: "0123456".to_owned(),
        subject: subject.to_owned(),
        body: body.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn subjects_are_imperative_and_short() {
        let body = "Readers need the reason.";
        for subject in [
            "Keep long stream values in their original block",
            "Process replies in order",
            "Speed up SET",
        ] {
            assert_eq!(wrong(&commit(subject, body)), None, "{subject}");
        }
        for subject in [
            "Engine: keep long values",
            "Keeps long values",
            "Fixed the build",
            "Adding tests",
            "What is long stays",
            "keep long values",
            "Keep long values.",
            &format!("Keep {}", "x".repeat(SUBJECT)),
        ] {
            assert!(wrong(&commit(subject, body)).is_some(), "{subject}");
        }
        assert!(wrong(&commit("Keep long values", "")).is_some());
    }
}
