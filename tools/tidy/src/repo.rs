//! Takes a snapshot of the repository: its text files, its crates and its commits.

use std::error::Error;
use std::path::Path;
use std::process::Command;

use cargo_metadata::{DependencyKind, MetadataCommand};
use ignore::WalkBuilder;

/// A snapshot of the repository, which the rules examine.
#[derive(Debug, Default)]
pub struct Repo {
    /// All text files that git does not ignore, sorted by path.
    pub files: Vec<File>,
    /// All crates of the workspace.
    pub packages: Vec<Package>,
    /// The commits since the rule for commits was added, newest first.
    pub commits: Vec<Commit>,
}

/// The message and the hash of a commit.
#[derive(Debug)]
pub struct Commit {
    /// The abbreviated hash of the commit.
    pub hash: String,
    /// The first line of the message.
    pub subject: String,
    /// The message after the subject.
    pub body: String,
}

/// A text file in the repository.
#[derive(Debug)]
pub struct File {
    /// The path relative to the repository, with `/` as the separator.
    pub path: String,
    /// The complete contents of the file.
    pub text: String,
}

/// A crate of the workspace.
#[derive(Debug)]
pub struct Package {
    /// The crate's directory, relative to the repository.
    pub directory: String,
    /// The crates of this repository on which the crate depends.
    pub dependencies: Vec<Dependency>,
}

/// A dependency on a crate of this repository.
#[derive(Debug)]
pub struct Dependency {
    /// The directory of the used crate, relative to the repository.
    pub directory: String,
    /// Whether only tests, benchmarks and examples use the dependency.
    pub dev: bool,
}

impl Repo {
    /// Takes a snapshot of the repository at `root`. Ignores files that are not UTF-8, and files
    /// that another process deletes in the meantime.
    ///
    /// # Errors
    /// If a directory cannot be read, or if `cargo metadata` fails.
    pub fn read(root: &Path) -> Result<Repo, Box<dyn Error>> {
        let root = root.canonicalize()?;
        Ok(Repo {
            files: read_files(&root)?,
            packages: read_packages(&root)?,
            commits: read_commits(&root),
        })
    }

    /// Returns the file at `path`, or `None` if it does not exist.
    #[must_use]
    pub fn file(&self, path: &str) -> Option<&File> {
        self.files.iter().find(|file| file.path == path)
    }

    /// Returns a snapshot that consists of a single file, for canaries.
    pub(crate) fn with_file(path: &str, text: impl Into<String>) -> Repo {
        Repo {
            files: vec![File {
                path: path.to_owned(),
                text: text.into(),
            }],
            ..Repo::default()
        }
    }
}

impl File {
    /// Returns the extension of the file's name, or an empty string if it has none.
    #[must_use]
    pub fn extension(&self) -> &str {
        let name = self.path.rsplit('/').next().unwrap_or_default();
        name.rsplit_once('.').map_or("", |(_, extension)| extension)
    }
}

fn read_files(root: &Path) -> Result<Vec<File>, Box<dyn Error>> {
    let walk = WalkBuilder::new(root)
        .hidden(false)
        .require_git(false)
        .parents(false)
        .git_global(false)
        .git_exclude(false)
        .filter_entry(|entry| entry.file_name() != ".git")
        .sort_by_file_path(Path::cmp)
        .build();
    let mut files = Vec::new();
    for entry in walk {
        let entry = entry?;
        if !entry.file_type().is_some_and(|kind| kind.is_file()) {
            continue;
        }
        let Ok(text) = std::fs::read_to_string(entry.path()) else {
            continue;
        };
        files.push(File {
            path: relative(root, entry.path()),
            text,
        });
    }
    Ok(files)
}

fn read_packages(root: &Path) -> Result<Vec<Package>, Box<dyn Error>> {
    let metadata = MetadataCommand::new()
        .manifest_path(root.join("Cargo.toml"))
        .no_deps()
        .exec()?;
    let mut packages = Vec::new();
    for package in metadata.packages {
        let manifest = package.manifest_path.as_std_path();
        let dependencies = package
            .dependencies
            .iter()
            .filter_map(|dependency| {
                let path = dependency.path.as_ref()?;
                Some(Dependency {
                    directory: relative(root, path.as_std_path()),
                    dev: dependency.kind == DependencyKind::Development,
                })
            })
            .collect();
        packages.push(Package {
            directory: relative(root, manifest.parent().unwrap_or(root)),
            dependencies,
        });
    }
    Ok(packages)
}

/// Reads the commits made after the rule for commits was added. Returns none if there is no git
/// history, and only the fetched commits in a shallow clone.
fn read_commits(root: &Path) -> Vec<Commit> {
    let git = |words: &[&str]| {
        let output = Command::new("git").arg("-C").arg(root).args(words).output();
        let output = output.ok().filter(|output| output.status.success());
        output.map_or_else(String::new, |output| {
            String::from_utf8_lossy(&output.stdout).into_owned()
        })
    };
    let rule = "tools/tidy/src/commits.rs";
    let added = git(&["log", "--diff-filter=A", "--format=%H", "--", rule]);
    let Some(first) = added.lines().last() else {
        return Vec::new();
    };
    let separated = "--format=%h%x00%s%x00%b%x00%x01";
    let log = git(&["log", "--no-merges", separated, &format!("{first}..HEAD")]);
    log.split('\u{1}')
        .filter_map(|entry| {
            let mut parts = entry.trim_start().split('\0').map(str::to_owned);
            Some(Commit {
                hash: parts.next().filter(|hash| !hash.is_empty())?,
                subject: parts.next()?,
                body: parts.next()?,
            })
        })
        .collect()
}

/// Returns `path` relative to `root`, with `/` as the separator. A path outside `root` is
/// unchanged.
fn relative(root: &Path, path: &Path) -> String {
    let path = path.strip_prefix(root).unwrap_or(path);
    let parts: Vec<_> = path.iter().map(|part| part.to_string_lossy()).collect();
    parts.join("/")
}
