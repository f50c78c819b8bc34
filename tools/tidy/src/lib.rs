//! The repository's own rules, run as a test.
//!
//! A rule looks at a [`Repo`] (a snapshot of the tree and of cargo's metadata)
//! and returns what breaks it. Each rule carries a *canary*, a small snapshot
//! that breaks it; a rule cannot be listed in [`RULES`] without one, and the
//! test fails if a canary passes. A rule also says how many things it looked
//! at: zero is a failure, because a rule that checks nothing never fails.
//!
//! - `arrows`: dependencies point down the layers.
//! - `cells`: what bodies of reads could change has a reason.
//! - `circles`: files of a crate use one another in one direction.
//! - `cited`: every numbered rule that is cited is defined, and the tests that guard it are there.
//! - `documents`: links, the changelog.
//! - `folders`: no folder has more source files than a reader takes in.
//! - `maps`: every source file is named where a reader looks for it; files that are named are there.
//! - `modules`: which file of a crate uses which others.
//! - `repo`: the snapshot that the rules look at.
//! - `sources`: `unsafe`, lengths, leftovers, ASCII.

mod arrows;
mod cells;
mod circles;
mod cited;
mod documents;
mod folders;
mod maps;
mod modules;
mod repo;
mod sources;

pub use repo::{Dependency, File, Package, Repo};

/// One rule of the repository.
#[derive(Debug, Clone, Copy)]
pub struct Rule {
    /// The rule in a few words, as the test prints it.
    pub name: &'static str,
    /// Looks at the snapshot.
    pub check: fn(&Repo) -> Report,
    /// A snapshot that breaks this rule.
    pub canary: fn() -> Repo,
}

/// What a rule found.
#[derive(Debug, Default)]
pub struct Report {
    /// How many things (files, crates, links) were looked at.
    pub checked: usize,
    /// What breaks the rule, one line each, beginning with the place.
    pub findings: Vec<String>,
}

impl Report {
    /// Counts one thing that was looked at, and what was wrong with it.
    fn add(&mut self, findings: impl IntoIterator<Item = String>) {
        self.checked += 1;
        self.findings.extend(findings);
    }
}

/// Every rule there is.
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
];
