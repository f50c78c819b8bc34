//! Checks that the files of a crate do not depend on each other in a cycle.

use petgraph::algo::tarjan_scc;
use petgraph::graphmap::DiGraphMap;

use crate::modules::{Arrows, Modules};
use crate::{File, Repo, Report, Rule};

pub(crate) const CIRCLES: Rule = Rule {
    name: "files of a crate use each other in one direction only",
    check,
    canary: || {
        let file = |name: &str, text: &str| File {
            path: format!("crates/resp/src/{name}.rs"),
            text: text.to_owned(),
        };
        Repo {
            files: vec![
                file("lib", "mod a; mod b; pub use a::A;"),
                file("a", "pub struct A; fn f() { crate::b::g(); }"),
                file("b", "use crate::A; pub(crate) fn g() {}"),
            ],
            ..Repo::default()
        }
    },
};

fn check(repo: &Repo) -> Report {
    let mut report = Report::default();
    let crates = repo.files.iter().filter_map(|file| {
        let directory = file.path.strip_suffix("/src/lib.rs")?;
        let is_layer = directory.strip_prefix("crates/")?.split('/').count() == 1;
        is_layer.then_some(directory)
    });
    for directory in crates {
        report.add(match Modules::read(repo, &format!("{directory}/src")) {
            Err(error) => vec![error],
            Ok(modules) => circles(&modules.arrows())
                .iter()
                .map(|files| {
                    format!(
                        "{directory}: these files use each other in a circle: {}; move the shared \
                         code to one of them",
                        files.join(", ")
                    )
                })
                .collect(),
        });
    }
    report
}

/// Returns the sets of files that depend on each other in a cycle. Each set is sorted by name.
fn circles(arrows: &Arrows) -> Vec<Vec<String>> {
    let mut graph = DiGraphMap::<&str, ()>::new();
    for (from, others) in arrows {
        for to in others {
            graph.add_edge(from, to, ());
        }
    }
    let mut circles: Vec<Vec<String>> = tarjan_scc(&graph)
        .into_iter()
        .filter(|files| files.len() > 1)
        .map(|files| files.into_iter().map(str::to_owned).collect())
        .collect();
    circles.iter_mut().for_each(|circle| circle.sort());
    circles.sort();
    circles
}
