//! Checks documents: every document must be linked, links must lead to existing targets, and the
//! changelog must be well-formed.

use pulldown_cmark::{Event, HeadingLevel, Parser, Tag, TagEnd};

use crate::{File, Repo, Report, Rule};

/// The pages from which every document must be linked.
const ENTRANCES: &[&str] = &["README.md", "docs/index.md"];

const CHANGELOG_PATH: &str = "CHANGELOG.md";

/// The kinds of changes that "Keep a Changelog" 1.1.0 defines.
const KINDS: &[&str] = &[
    "Added",
    "Changed",
    "Deprecated",
    "Removed",
    "Fixed",
    "Security",
];

pub(crate) const LINKED: Rule = Rule {
    name: "every document is linked from README.md or docs/index.md",
    check: linked,
    canary: || Repo::with_file("docs/lost.md", "# Lost\n"),
};

pub(crate) const RESOLVE: Rule = Rule {
    name: "links lead to existing files and headings",
    check: resolve,
    canary: || Repo::with_file("README.md", "[format](docs/format.md)\n"),
};

pub(crate) const CHANGELOG: Rule = Rule {
    name: "the changelog keeps its shape",
    check: changelog,
    canary: || Repo::with_file(CHANGELOG_PATH, "# Changelog\n\n## 0.1.0\n\n### Added\n"),
};

fn linked(repo: &Repo) -> Report {
    let mut reachable: Vec<String> = ENTRANCES.iter().map(|page| (*page).to_owned()).collect();
    for page in ENTRANCES.iter().filter_map(|page| repo.file(page)) {
        let links = read(page).links;
        reachable.extend(
            links
                .iter()
                .filter_map(|link| target(&page.path, link))
                .map(|to| to.0),
        );
    }
    let mut report = Report::default();
    for file in repo
        .files
        .iter()
        .filter(|file| file.path.starts_with("docs/"))
    {
        let lost = !reachable.contains(&file.path);
        report.add(lost.then(|| {
            format!(
                "{}: not linked; link it from one of {ENTRANCES:?}",
                file.path
            )
        }));
    }
    report
}

fn resolve(repo: &Repo) -> Report {
    let mut report = Report::default();
    for page in repo.files.iter().filter(|file| file.extension() == "md") {
        for link in read(page).links {
            if let Some((path, heading)) = target(&page.path, &link) {
                let wrong = wrong_target(repo, &path, &heading);
                report.add(wrong.map(|why| format!("{}: link to {link}: {why}", page.path)));
            }
        }
    }
    report
}

fn wrong_target(repo: &Repo, path: &str, heading: &str) -> Option<String> {
    if path.is_empty() {
        return None; // The link leads to the repository itself.
    }
    let directory = format!("{path}/");
    let Some(file) = repo.file(path) else {
        let exists = repo
            .files
            .iter()
            .any(|file| file.path.starts_with(&directory));
        return (!exists).then(|| format!("{path} does not exist"));
    };
    if heading.is_empty() || file.extension() != "md" {
        return None;
    }
    let anchors = read(file).headings;
    let exists = anchors.iter().any(|(_, text)| anchor(text) == heading);
    (!exists).then(|| format!("{path} has no heading #{heading}"))
}

/// The parts of a Markdown page that the rules check.
#[derive(Default)]
struct Page {
    /// The level and the text of each heading, in order.
    headings: Vec<(HeadingLevel, String)>,
    /// The unresolved targets of links and images.
    links: Vec<String>,
    /// The indexes of the headings that are followed by text.
    filled: Vec<usize>,
}

fn read(file: &File) -> Page {
    let mut page = Page::default();
    let mut in_heading = false;
    for event in Parser::new(&file.text) {
        match event {
            Event::Start(Tag::Heading { level, .. }) => {
                page.headings.push((level, String::new()));
                in_heading = true;
            }
            Event::End(TagEnd::Heading(_)) => in_heading = false,
            Event::Text(text) | Event::Code(text) => match page.headings.last_mut() {
                Some(heading) if in_heading => heading.1.push_str(&text),
                Some(_) => page.filled.push(page.headings.len() - 1),
                None => {}
            },
            Event::Start(Tag::Link { dest_url, .. } | Tag::Image { dest_url, .. }) => {
                page.links.push(dest_url.to_string());
            }
            _ => {}
        }
    }
    page
}

/// Returns the path, relative to the repository, and the heading to which a link on the page `from`
/// leads. Returns `None` if the link leads outside the repository.
fn target(from: &str, link: &str) -> Option<(String, String)> {
    if link.contains("://") || link.starts_with("mailto:") {
        return None;
    }
    let (path, heading) = link.split_once('#').unwrap_or((link, ""));
    if path.is_empty() {
        return Some((from.to_owned(), heading.to_owned()));
    }
    let mut parts: Vec<&str> = from.split('/').collect();
    parts.pop();
    for part in path.split('/') {
        match part {
            "" | "." => {}
            ".." => drop(parts.pop()),
            _ => parts.push(part),
        }
    }
    Some((parts.join("/"), heading.to_owned()))
}

/// Returns the anchor that the repository's host generates for a heading.
fn anchor(heading: &str) -> String {
    heading
        .to_lowercase()
        .chars()
        .filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'))
        .map(|c| if c == ' ' { '-' } else { c })
        .collect()
}

fn changelog(repo: &Repo) -> Report {
    let mut report = Report::default();
    let Some(file) = repo.file(CHANGELOG_PATH) else {
        return report;
    };
    let page = read(file);
    let mut releases = Vec::new();
    for (index, (level, text)) in page.headings.iter().enumerate() {
        let wrong = match level {
            HeadingLevel::H1 if index == 0 && text == "Changelog" => None,
            HeadingLevel::H2 => {
                let first = releases.is_empty();
                releases.push(version(text));
                wrong_release(text, first, &releases)
            }
            HeadingLevel::H3 if !KINDS.contains(&text.as_str()) => {
                Some(format!("expected one of {KINDS:?}, found {text:?}"))
            }
            HeadingLevel::H3 if !page.filled.contains(&index) => {
                Some(format!("{text:?} is empty; remove it or add entries"))
            }
            HeadingLevel::H3 if !releases.is_empty() => None,
            _ => Some(format!("heading {text:?} is not allowed here")),
        };
        report.add(wrong.map(|why| format!("{CHANGELOG_PATH}: {why}")));
    }
    if releases.is_empty() {
        report.findings.push(format!(
            "{CHANGELOG_PATH}: has no release; add [Unreleased]"
        ));
    }
    report
}

/// Checks the heading of a release. The first heading, and no other, must be `[Unreleased]`. The
/// other headings must have the form `[1.2.3] - 2026-01-31`, newest first.
fn wrong_release(text: &str, first: bool, releases: &[Option<Vec<u64>>]) -> Option<String> {
    if first {
        return (text != "[Unreleased]")
            .then(|| format!("expected [Unreleased] first, found {text:?}"));
    }
    match releases {
        [.., _, None] => Some(format!("expected [1.2.3] - 2026-01-31, found {text:?}")),
        [.., Some(newer), Some(this)] if newer <= this => Some(format!(
            "{text:?} is below an older release; put newer releases first"
        )),
        _ => None,
    }
}

/// Returns the version in the heading of a release, or `None` if the version or the date is
/// malformed.
fn version(text: &str) -> Option<Vec<u64>> {
    let (version, date) = text.strip_prefix('[')?.split_once("] - ")?;
    let date: Vec<&str> = date.split('-').collect();
    let digits = |part: &&str| part.bytes().all(|byte| byte.is_ascii_digit());
    let lengths: Vec<usize> = date.iter().map(|part| part.len()).collect();
    if lengths != [4, 2, 2] || !date.iter().all(digits) {
        return None;
    }
    let numbers: Option<Vec<u64>> = version.split('.').map(|part| part.parse().ok()).collect();
    numbers.filter(|numbers| numbers.len() == 3)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn repo(files: &[(&str, &str)]) -> Repo {
        let mut repo = Repo::default();
        for (path, text) in files {
            repo.files.extend(Repo::with_file(path, *text).files);
        }
        repo
    }

    #[test]
    fn documents_are_linked_from_either_entrance() {
        let files = [
            ("README.md", "[index](docs/index.md)"),
            ("docs/index.md", "[a](a.md#top), [home](../README.md)"),
            ("docs/a.md", "# Top"),
        ];
        assert!(linked(&repo(&files)).findings.is_empty());
        let lost = linked(&repo(&files[..1])).checked;
        assert_eq!(lost, 0);
        assert_eq!(linked(&repo(&files[2..])).findings.len(), 1);
    }

    #[test]
    fn links_lead_to_files_directories_and_headings() {
        let page = "[a](a.md) [b](a.md#the-life-of-a-set) [c](#here) [d](..) [e](https://e.org)\n\n# Here\n\n`[f](none.md)`\n";
        let files = [
            ("docs/index.md", page),
            ("docs/a.md", "# The life of a `SET`"),
        ];
        let report = resolve(&repo(&files));
        assert!(report.findings.is_empty(), "{:?}", report.findings);
        assert_eq!(report.checked, 4);
        for link in ["none.md", "a.md#none", "#none", "../docs/b.md"] {
            let page = format!("[x]({link})");
            let files = [("docs/index.md", page.as_str()), files[1]];
            assert_eq!(resolve(&repo(&files)).findings.len(), 1, "{link}");
        }
    }

    #[test]
    fn a_well_formed_changelog_passes() {
        let text = "# Changelog\n\nWords.\n\n## [Unreleased]\n\n### Added\n- A thing.\n\n\
                    ## [0.10.0] - 2027-01-31\n\n### Fixed\n- A fault.\n\n## [0.9.1] - 2026-12-24\n";
        let report = changelog(&Repo::with_file(CHANGELOG_PATH, text));
        assert!(report.findings.is_empty(), "{:?}", report.findings);
        assert_eq!(report.checked, 6);
    }

    #[test]
    fn a_malformed_changelog_fails() {
        for text in [
            "# Changelog\n",
            "# Changes\n\n## [Unreleased]\n",
            "# Changelog\n\n## [0.1.0] - 2026-12-24\n",
            "# Changelog\n\n## [Unreleased]\n\n## [0.1.0]\n",
            "# Changelog\n\n## [Unreleased]\n\n## [0.1.0] - 24.12.2026\n",
            "# Changelog\n\n## [Unreleased]\n\n### Improved\n- A thing.\n",
            "# Changelog\n\n## [Unreleased]\n\n### Added\n\n### Fixed\n- A fault.\n",
            "# Changelog\n\n## [Unreleased]\n\n## [0.9.0] - 2026-01-01\n\n## [0.10.0] - 2026-01-02\n",
        ] {
            let report = changelog(&Repo::with_file(CHANGELOG_PATH, text));
            assert_eq!(report.findings.len(), 1, "{text:?}: {:?}", report.findings);
        }
    }
}
