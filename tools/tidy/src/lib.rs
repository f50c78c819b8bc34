//! Checks the repository's own rules in a test.
//!
//! A rule examines a [`Repo`], a snapshot of the tree and of cargo's metadata, and returns the
//! violations. Each rule in [`RULES`] has a *canary*, a small snapshot that violates the rule. The
//! test fails if a canary passes. A rule also reports the number of files, crates or links that it
//! examined. Zero is a failure, because a rule that examines nothing can never fail.
//!
//! - `arrows`: dependencies point only to lower layers.
//! - `cells`: a reason is listed for all state that bodies of reads can change.
//! - `circles`: the files of a crate do not depend on each other in a cycle.
//! - `cited`: every cited rule is defined, and the tests that guard it exist.
//! - `commits`: commit messages are clear.
//! - `documents`: links and the changelog are valid.
//! - `folders`: no folder has more source files than a reader can survey.
//! - `maps`: every source file is listed in a map, and files that comments name exist.
//! - `modules`: finds the dependencies between the files of a crate.
//! - `prose`: comments and documents avoid wordings that a reader must decode.
//! - `repo`: the snapshot that the rules examine.
//! - `sources`: limits `unsafe` and lengths, and finds unfinished work and non-ASCII characters.

mod arrows;
mod cells;
mod circles;
mod cited;
mod commits;
mod documents;
mod folders;
mod maps;
mod modules;
mod prose;
mod repo;
mod sources;

pub use repo::{Commit, Dependency, File, Package, Repo};

/// A rule that the repository must follow.
#[derive(Debug, Clone, Copy)]
pub struct Rule {
    /// The rule in a few words, which the test prints.
    pub name: &'static str,
    /// Checks a snapshot, and returns the violations.
    pub check: fn(&Repo) -> Report,
    /// Returns a snapshot that violates this rule.
    pub canary: fn() -> Repo,
}

/// The result of checking a rule.
#[derive(Debug, Default)]
pub struct Report {
    /// The number of files, crates or links that were examined.
    pub checked: usize,
    /// The violations, one line each, beginning with the location.
    pub findings: Vec<String>,
}

impl Report {
    /// Counts one examined file, crate or link, and adds its violations.
    fn add(&mut self, findings: impl IntoIterator<Item = String>) {
        self.checked += 1;
        self.findings.extend(findings);
    }
}

/// All rules.
pub const RULES: &[Rule] = &[
    arrows::ARROWS,
    circles::CIRCLES,
    folders::FOLDERS,
    sources::UNSAFE,
    sources::FORK_SAFE,
    sources::LOCALS,
    sources::LENGTH,
    sources::FORMATTED,
    sources::LEFTOVERS,
    sources::ASCII,
    cells::CELLS_HAVE_REASONS,
    cited::CITED_RULES,
    cited::GUARDS,
    maps::MAPS,
    maps::PATHS,
    documents::LINKED,
    documents::RESOLVE,
    documents::CHANGELOG,
    prose::PROSE,
    commits::COMMITS,
];
