//! Runs every rule on this repository, which must follow it, and on the rule's canary, which must
//! violate it.

use std::path::Path;

use undercroft_tidy::{RULES, Repo};

#[test]
fn every_rule_can_fail() {
    for rule in RULES {
        let report = (rule.check)(&(rule.canary)());
        assert!(
            !report.findings.is_empty(),
            "{}: its canary passed",
            rule.name
        );
    }
}

#[test]
fn the_repository_keeps_its_rules() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let repo = Repo::read(&root).expect("reading the repository");
    let mut wrong = Vec::new();
    for rule in RULES {
        let report = (rule.check)(&repo);
        if report.checked == 0 {
            wrong.push(format!("{}: found nothing to check", rule.name));
        }
        let lines = report
            .findings
            .iter()
            .map(|finding| format!("{}: {finding}", rule.name));
        wrong.extend(lines);
    }
    assert!(wrong.is_empty(), "\n{}", wrong.join("\n"));
    println!(
        "tidy: {} rules kept by {} files and {} crates",
        RULES.len(),
        repo.files.len(),
        repo.packages.len()
    );
}
