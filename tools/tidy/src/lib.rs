//! The repository's own rules, run as a test.
//!
//! A rule examines a [`Repo`], a snapshot of the tree and of cargo's metadata, and returns the
//! violations. Each rule carries a *canary*, a small snapshot that violates it. A rule cannot be
//! listed in [`RULES`] without a canary, and the test fails if a canary passes. A rule also reports
//! how many things it examined: zero is a failure, because a rule that checks nothing never fails.
//!
//! - `arrows`: dependencies point down the layers.
//! - `cells`: state that bodies of reads can change has a reason.
//! - `circles`: files of a crate do not use each other in a cycle.
//! - `cited`: every numbered rule that is cited is defined, and the tests that guard it exist.
//! - `commits`: subjects and bodies of commits.
//! - `documents`: links and the changelog.
//! - `folders`: no folder has more source files than a reader can survey.
//! - `maps`: every source file is in a map, and files that comments name exist.
//! - `modules`: which files of a crate use which others.
//! - `prose`: comments and documents avoid wordings that a reader must decode.
//! - `repo`: the snapshot that the rules examine.
//! - `sources`: `unsafe`, lengths, leftovers, ASCII.

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

/// A rule of the repository.
#[derive(Debug, Clone, Copy)]
pub struct Rule {
    /// The rule in a few words, as the test prints it.
    pub name: &'static str,
    /// Checks a snapshot.
    pub check: fn(&Repo) -> Report,
    /// Returns a snapshot that violates this rule.
    pub canary: fn() -> Repo,
}

/// The result of checking a rule.
#[derive(Debug, Default)]
pub struct Report {
    /// The number of things (files, crates, links) examined.
    pub checked: usize,
    /// The violations, one line each, starting with the location.
    pub findings: Vec<String>,
}

impl Report {
    /// Counts one thing that was examined, and adds its violations.
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
