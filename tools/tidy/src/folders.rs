//! Checks that no folder has more source files than a reader can survey.

use std::collections::BTreeMap;

use crate::{File, Repo, Report, Rule};

/// The maximum number of source files in a folder, without its subfolders.
const MOST: usize = 20;
/// The extensions of source files.
const SOURCES: &[&str] = &["c", "h", "lua", "php", "py", "rs", "sh"];

pub(crate) const FOLDERS: Rule = Rule {
    name: "no folder has too many source files for a reader",
    check,
    canary: || Repo {
        files: (0..=MOST)
            .map(|number| File {
                path: format!("examples/crowd/file{number}.py"),
                text: String::new(),
            })
            .collect(),
        ..Repo::default()
    },
};

fn check(repo: &Repo) -> Report {
    let mut report = Report::default();
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    for file in &repo.files {
        if SOURCES.contains(&file.extension()) {
            let folder = file.path.rsplit_once('/').map_or("", |(folder, _)| folder);
            *counts.entry(folder).or_default() += 1;
        }
    }
    for (folder, count) in counts {
        report.add((count > MOST).then(|| {
            format!(
                "{folder}: {count} source files, expected at most {MOST} without subfolders; group some in a folder"
            )
        }));
    }
    report
}
