//! Checks that dependencies point only from higher to lower layers.

use crate::{Dependency, Package, Repo, Report, Rule};

/// A layer: the directory of its crates, and the lower layers that the crates may use.
struct Layer {
    directory: &'static str,
    below: &'static [&'static str],
}

/// The layers from top to bottom. `commands` must not use `resp`, because an embedded call never
/// builds a protocol message.
const LAYERS: &[Layer] = &[
    Layer {
        directory: "bench",
        below: &[
            "clients",
            "crates/cli",
            "crates/embedded",
            "crates/server",
            "crates/links",
            "crates/scripts",
            "crates/commands",
            "crates/engine",
            "crates/memory",
            "crates/resp",
            "crates/numbers",
        ],
    },
    Layer {
        directory: "clients",
        below: &[
            "crates/cli",
            "crates/embedded",
            "crates/server",
            "crates/links",
            "crates/scripts",
            "crates/commands",
            "crates/engine",
            "crates/memory",
            "crates/resp",
            "crates/numbers",
        ],
    },
    Layer {
        directory: "crates/cli",
        below: &[
            "crates/embedded",
            "crates/server",
            "crates/links",
            "crates/scripts",
            "crates/commands",
            "crates/engine",
            "crates/memory",
            "crates/resp",
            "crates/numbers",
        ],
    },
    Layer {
        directory: "crates/embedded",
        below: &[
            "crates/links",
            "crates/scripts",
            "crates/commands",
            "crates/engine",
            "crates/memory",
            "crates/numbers",
        ],
    },
    Layer {
        directory: "crates/server",
        below: &[
            "crates/links",
            "crates/scripts",
            "crates/commands",
            "crates/engine",
            "crates/memory",
            "crates/resp",
            "crates/numbers",
        ],
    },
    Layer {
        directory: "crates/links",
        below: &[
            "crates/scripts",
            "crates/commands",
            "crates/engine",
            "crates/memory",
            "crates/resp",
            "crates/numbers",
        ],
    },
    Layer {
        directory: "crates/scripts",
        below: &[
            "crates/commands",
            "crates/engine",
            "crates/memory",
            "crates/numbers",
        ],
    },
    Layer {
        directory: "crates/commands",
        below: &["crates/engine", "crates/memory", "crates/numbers"],
    },
    Layer {
        directory: "crates/engine",
        below: &["crates/memory", "crates/numbers"],
    },
    Layer {
        directory: "crates/memory",
        below: &[],
    },
    Layer {
        directory: "crates/resp",
        below: &["crates/numbers"],
    },
    Layer {
        directory: "crates/numbers",
        below: &[],
    },
];

/// Directories outside the layers. Their crates may use every layer and each other, but no layer
/// may use them.
const BESIDE: &[&str] = &["conformance", "crates/testkit", "examples", "fuzz", "tools"];

/// Directories whose crates a layer's tests may use, in addition to the lower layers.
const FOR_TESTS: &[&str] = &["crates/testkit", "conformance"];

pub(crate) const ARROWS: Rule = Rule {
    name: "dependencies point down the layers",
    check,
    canary: || repo_of("crates/engine", "crates/commands", false),
};

fn check(repo: &Repo) -> Report {
    let mut report = Report::default();
    for package in &repo.packages {
        report.add(upward(package));
    }
    report
}

fn upward(package: &Package) -> Vec<String> {
    let from = &package.directory;
    if beside(from).is_some() {
        return Vec::new();
    }
    let Some(layer) = layer(from) else {
        return vec![format!(
            "{from}: has no layer; add it to the table in tools/tidy/src/arrows.rs"
        )];
    };
    package
        .dependencies
        .iter()
        .filter(|dependency| !allowed(layer, dependency))
        .map(|dependency| {
            format!(
                "{from}: depends on {}, but may depend only on {:?}; move the code or the \
                 dependency",
                dependency.directory, layer.below
            )
        })
        .collect()
}

fn allowed(layer: &Layer, dependency: &Dependency) -> bool {
    let to = &dependency.directory;
    inside(to, layer.directory)
        || layer.below.iter().any(|below| inside(to, below))
        || dependency.dev && FOR_TESTS.iter().any(|room| inside(to, room))
}

fn layer(path: &str) -> Option<&'static Layer> {
    LAYERS.iter().find(|layer| inside(path, layer.directory))
}

fn beside(path: &str) -> Option<&'static &'static str> {
    BESIDE.iter().find(|room| inside(path, room))
}

/// Returns whether `path` is `directory` or a path inside it.
fn inside(path: &str, directory: &str) -> bool {
    path.strip_prefix(directory)
        .is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

fn repo_of(from: &str, to: &str, dev: bool) -> Repo {
    Repo {
        packages: vec![Package {
            directory: from.to_owned(),
            dependencies: vec![Dependency {
                directory: to.to_owned(),
                dev,
            }],
        }],
        ..Repo::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn breaks(from: &str, to: &str, dev: bool) -> bool {
        !check(&repo_of(from, to, dev)).findings.is_empty()
    }

    #[test]
    fn allowed_dependencies_pass() {
        for (from, to) in [
            ("bench/core", "clients/rust"),
            ("clients/python", "clients/rust"),
            ("clients/rust", "crates/resp"),
            ("clients/c", "crates/embedded"),
            ("crates/cli", "crates/server"),
            ("crates/server", "crates/links"),
            ("crates/links", "crates/resp"),
            ("crates/server", "crates/resp"),
            ("crates/server", "crates/commands"),
            ("crates/commands", "crates/engine"),
            ("crates/engine", "crates/memory"),
            ("crates/engine", "crates/numbers"),
            ("crates/resp", "crates/numbers"),
            ("crates/memory", "crates/memory/derive"),
            ("fuzz", "crates/resp"),
        ] {
            assert!(!breaks(from, to, false), "{from} -> {to}");
        }
        assert!(!breaks("crates/memory", "crates/testkit", true));
        assert!(!breaks("crates/cli", "conformance", true));
    }

    #[test]
    fn forbidden_dependencies_fail() {
        for (from, to) in [
            ("crates/memory", "crates/engine"),
            ("crates/engine", "crates/resp"),
            ("crates/commands", "crates/resp"),
            ("crates/commands", "crates/server"),
            ("crates/resp", "crates/memory"),
            ("crates/server", "crates/cli"),
            ("crates/links", "crates/server"),
            ("crates/embedded", "clients/c"),
            ("clients/rust", "crates/testkit"),
            ("crates/memory", "crates/testkit"),
            ("crates/memory", "crates/memory-like"),
            ("attic", "crates/memory"),
        ] {
            assert!(breaks(from, to, false), "{from} -> {to}");
        }
        assert!(breaks("crates/engine", "crates/commands", true));
    }
}
