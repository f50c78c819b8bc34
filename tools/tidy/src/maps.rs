//! Checks the maps, the lists in which readers find every source file and its purpose.
//!
//! The map of a folder is in its *door*: `mod.rs`, `lib.rs`, `main.rs`, `__init__.py`, or the Rust
//! file that has the folder's name and is next to the folder. The door's documentation contains a
//! list with an item for each file and each subfolder:
//!
//! ```text
//! //! - `log`: old contents, saved before they are changed.
//! //! - `lock`, `wait`: lock words, and waiting for them.
//! ```
//!
//! The door of a higher folder can also list a file, together with the file's folder (`bin/child`).
//! If no door lists a file, the architecture page must name its full path.

use std::collections::HashSet;

use crate::{File, Repo, Report, Rule};

/// Folders with source files, in addition to the `src` folder of every crate.
const FOLDERS: &[&str] = &["bench", "clients/python/undercroft", "examples", "scripts"];

/// The page that lists the files without a door.
const PAGE: &str = "docs/architecture.md";

const SOURCES: &[&str] = &["rs", "py", "pyi", "sh"];

/// The file names of doors, in order of preference.
const DOORS: &[&str] = &["mod.rs", "lib.rs", "main.rs", "__init__.py"];

/// The top-level folders. Every path that documents and comments name starts with one of them.
const ROOMS: &[&str] = &[
    "bench",
    "clients",
    "conformance",
    "crates",
    "docs",
    "examples",
    "fuzz",
    "scripts",
    "tools",
];

pub(crate) const MAPS: Rule = Rule {
    name: "every source file is named by a map",
    check: maps,
    canary: || Repo::with_file("scripts/lost.sh", "true\n"),
};

pub(crate) const PATHS: Rule = Rule {
    name: "files that documents and comments name exist",
    check: paths,
    canary: || Repo::with_file("README.md", "See `crates/gone/src`.\n"),
};

fn maps(repo: &Repo) -> Report {
    let mut report = Report::default();
    for file in repo.files.iter().filter(|file| is_mapped(repo, file)) {
        let folder = folder_of(&file.path);
        let listed = if has_folder(repo, folder) {
            list(file)
        } else {
            Vec::new()
        };
        let lost = listed.into_iter().filter(|name| {
            let path = format!("{folder}/{name}");
            !has_folder(repo, &path) && !has_source(repo, &path)
        });
        let stale = lost.map(|name| format!("{}: names `{name}`, which does not exist", file.path));
        report.add(missing(repo, file).into_iter().chain(stale));
    }
    report
}

/// Returns whether a file is a source file that a map must list.
fn is_mapped(repo: &Repo, file: &File) -> bool {
    let within = |folder: &str| {
        file.path
            .strip_prefix(folder)
            .is_some_and(|rest| rest.starts_with('/'))
    };
    let name = stem(split(&file.path).1);
    // A file of unit tests need not be listed: it is named after the file that it tests.
    let tests = name == "tests" || name.ends_with("_tests");
    let crates = repo.packages.iter();
    let mut folders = crates.map(|package| format!("{}/src", package.directory));
    SOURCES.contains(&file.extension())
        && !tests
        && (FOLDERS.iter().any(|folder| within(folder)) || folders.any(|folder| within(&folder)))
}

/// Returns a violation if no map lists the file.
fn missing(repo: &Repo, file: &File) -> Option<String> {
    let (folder, name) = split(&file.path);
    // A door represents its folder, which the map of the parent folder must list. The door of a
    // crate need not be listed.
    let subject = match name {
        "mod.rs" | "__init__.py" => folder,
        "lib.rs" => return None,
        "main.rs" if repo.file(&format!("{folder}/lib.rs")).is_none() => return None,
        _ => &file.path,
    };
    if FOLDERS.contains(&subject) {
        return None;
    }
    let mut wanted = None;
    let mut above = split(subject).0;
    while !above.is_empty() {
        if let Some(door) = door(repo, above) {
            let name = stem(subject.strip_prefix(above)?.trim_start_matches('/'));
            if list(door).iter().any(|listed| listed == name) {
                return None;
            }
            wanted.get_or_insert_with(|| format!("an item `{name}` in {}", door.path));
        }
        above = split(above).0;
    }
    let page = repo.file(PAGE).map_or("", |page| page.text.as_str());
    if page.contains(&format!("`{subject}`")) {
        return None;
    }
    let wanted = wanted.unwrap_or_else(|| format!("`{subject}` in {PAGE}"));
    Some(format!("{}: is on no map; expected {wanted}", file.path))
}

/// Returns the file that contains the map of a folder.
fn door<'a>(repo: &'a Repo, folder: &str) -> Option<&'a File> {
    let mut doors = DOORS.iter();
    let within = doors.find_map(|name| repo.file(&format!("{folder}/{name}")));
    within.or_else(|| repo.file(&format!("{folder}.rs")))
}

/// Returns the names listed in a file's documentation.
fn list(file: &File) -> Vec<String> {
    let lines: Vec<&str> = match file.extension() {
        "rs" => {
            let lines = file.text.lines();
            lines.map_while(|line| line.strip_prefix("//!")).collect()
        }
        "py" => match file.text.split("\"\"\"").nth(1) {
            Some(text) if file.text.starts_with("\"\"\"") => text.lines().collect(),
            _ => Vec::new(),
        },
        _ => Vec::new(),
    };
    let items = items(&lines);
    items.iter().flat_map(|item| names(item)).collect()
}

/// Joins the lines of each paragraph and of each list item.
fn items(lines: &[&str]) -> Vec<String> {
    let mut items: Vec<String> = Vec::new();
    for line in lines.iter().map(|line| line.trim()) {
        match items.last_mut() {
            Some(item) if !item.is_empty() && !line.is_empty() && !line.starts_with("- ") => {
                item.push(' ');
                item.push_str(line);
            }
            _ => items.push(line.to_owned()),
        }
    }
    items
}

/// Returns the names at the start of a list item, which has the form ``- `a`, `b`: purpose``.
fn names(item: &str) -> Vec<String> {
    let names = item
        .strip_prefix("- `")
        .and_then(|item| item.split_once("`: "));
    let Some((names, _)) = names else {
        return Vec::new();
    };
    let names: Vec<String> = names.split("`, `").map(str::to_owned).collect();
    let is_name = |name: &String| {
        let letter = |c: char| c == '_' || c == '/' || c == '-' || c.is_ascii_alphanumeric();
        !name.is_empty() && name.chars().all(letter)
    };
    if names.iter().all(is_name) {
        names
    } else {
        Vec::new()
    }
}

/// Returns the folder whose map a file contains if the file is a door.
fn folder_of(path: &str) -> &str {
    match split(path) {
        (folder, name) if DOORS.contains(&name) => folder,
        _ => path.strip_suffix(".rs").unwrap_or(path),
    }
}

fn has_folder(repo: &Repo, path: &str) -> bool {
    let start = format!("{path}/");
    let mut files = repo.files.iter();
    files.any(|file| file.path.starts_with(&start))
}

/// Returns whether a source file with this path and any extension exists.
fn has_source(repo: &Repo, path: &str) -> bool {
    let mut files = repo.files.iter();
    files.any(|file| SOURCES.contains(&file.extension()) && stem(&file.path) == path)
}

/// Returns a path without its extension.
fn stem(path: &str) -> &str {
    match path.rsplit_once('.') {
        Some((stem, extension)) if !extension.contains('/') => stem,
        _ => path,
    }
}

/// Splits a path into its folder and its name.
fn split(path: &str) -> (&str, &str) {
    path.rsplit_once('/').unwrap_or(("", path))
}

fn paths(repo: &Repo) -> Report {
    let known: HashSet<&str> = repo.files.iter().map(|file| file.path.as_str()).collect();
    let names: HashSet<&str> = known.iter().map(|path| split(path).1).collect();
    let mut folders = HashSet::new();
    for path in &known {
        folders.extend(path.match_indices('/').map(|(end, _)| &path[..end]));
    }
    let mut report = Report::default();
    for file in &repo.files {
        for (number, line) in file.text.lines().enumerate() {
            for path in named(file, line) {
                let there = known.contains(path) || folders.contains(path) || names.contains(path);
                let place = format!("{}:{}", file.path, number + 1);
                report.add((!there).then(|| format!("{place}: {path} does not exist")));
            }
        }
    }
    report
}

/// Returns the paths in this repository that a line of a document or comment names in backticks.
/// Documents can name a Rust file without its folder.
fn named<'a>(file: &File, line: &'a str) -> Vec<&'a str> {
    let start = line.trim_start();
    let told = match file.extension() {
        "md" => true,
        "rs" => start.starts_with("//"),
        "py" | "sh" | "toml" => start.starts_with('#'),
        _ => false,
    };
    if !told {
        return Vec::new();
    }
    let quoted = line.split('`').skip(1).step_by(2);
    let words = quoted.map(|text| text.trim_end_matches('/'));
    let is_path = |word: &&str| {
        let letter = |c: char| "_-./".contains(c) || c.is_ascii_alphanumeric();
        let ours = match word.split_once('/') {
            Some((room, _)) => ROOMS.contains(&room),
            None => file.extension() == "md" && word.len() > 3 && word.ends_with(".rs"),
        };
        ours && word.chars().all(letter)
    };
    words.filter(is_path).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Package;

    fn repo(files: &[(&str, &str)]) -> Repo {
        let mut repo = Repo::default();
        for (path, text) in files {
            repo.files.extend(Repo::with_file(path, *text).files);
        }
        repo.packages.push(Package {
            directory: "crates/a".to_owned(),
            dependencies: Vec::new(),
        });
        repo
    }

    #[test]
    fn list_items_name_files() {
        let documentation = "//! A crate. `it`: no item.\n//!\n//! - `log`: old contents.\n//! - `lock`,\n\
            //!   `wait`: lock words.\n//! - `bin/child`: a process.\n//! - `Log::push` appends.\n\
            //! - `GET key`: a command.\n\n//! - `late`: not its documentation.\n";
        let file = &Repo::with_file("crates/a/src/lib.rs", documentation).files[0];
        assert_eq!(list(file), ["log", "lock", "wait", "bin/child"]);
    }

    #[test]
    fn each_file_is_named_by_its_door() {
        let lib = "//! A crate.\n//!\n//! - `one`: the first.\n//! - `two`, `bin/run`: others.\n\nmod one;\n";
        let files = [
            ("crates/a/src/lib.rs", lib),
            ("crates/a/src/one.rs", "//! - `part`: a part.\n"),
            ("crates/a/src/one/part.rs", ""),
            ("crates/a/src/one/part_tests.rs", ""),
            ("crates/a/src/two/mod.rs", "//! - `deep`: below.\n"),
            ("crates/a/src/two/deep.rs", ""),
            ("crates/a/src/two/tests.rs", ""),
            ("crates/a/src/bin/run.rs", ""),
            ("crates/a/tests/any.rs", ""),
            (
                "bench/core/__init__.py",
                "\"\"\"Rows.\n\n- `rows`: them.\n\"\"\"\n",
            ),
            ("bench/core/rows.py", ""),
            ("bench/run.py", ""),
            (PAGE, "`bench/core`, `bench/run.py`"),
        ];
        let report = maps(&repo(&files));
        assert!(report.findings.is_empty(), "{:?}", report.findings);
        assert_eq!(report.checked, 9);
        for gone in [1, 2, 5, 7, 10] {
            let mut fewer = files.to_vec();
            fewer.remove(gone);
            let findings = maps(&repo(&fewer)).findings.len();
            assert!(findings > 0, "{} is named and not there", files[gone].0);
        }
        for (place, lost) in [
            (0, "crates/a/src/three.rs"),
            (0, "crates/a/src/one/lost.rs"),
            (0, "crates/a/src/two/lost.rs"),
            (0, "crates/a/src/bin/lost.rs"),
            (9, "bench/core/lost.py"),
            (9, "bench/lost.py"),
        ] {
            let mut more = files.to_vec();
            more.insert(place, (lost, ""));
            assert_eq!(maps(&repo(&more)).findings.len(), 1, "{lost}");
        }
    }

    #[test]
    fn paths_are_found_in_documents_and_comments_only() {
        let gone = "`crates/gone.rs`";
        for (path, text, findings) in [
            ("docs/a.md", format!("a {gone} b"), 1),
            ("docs/a.md", "`gone.rs`, `.rs`, `a.md`".to_owned(), 1),
            ("crates/gone.rs", "// `gone.rs`, `lost.rs`".to_owned(), 0),
            ("crates/a.rs", format!("    /// {gone}"), 1),
            ("crates/a.rs", format!("let a = \"{gone}\";"), 0),
            ("scripts/a.sh", format!("# {gone}"), 1),
            (
                "docs/a.md",
                "`docs/a.md`, `docs/`, `crates/*/x`, `a/b`".to_owned(),
                0,
            ),
        ] {
            let report = paths(&Repo::with_file(path, text.clone()));
            assert_eq!(report.findings.len(), findings, "{text}");
        }
    }
}
