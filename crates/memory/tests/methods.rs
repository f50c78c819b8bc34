//! Compares the documentation of `Segment` with the sources: it must list each exported method with
//! the file that defines the method.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

/// The methods of each file.
type Methods = BTreeMap<String, Vec<String>>;

/// Returns the names of the public methods in the `impl Segment` blocks of a source.
fn methods(source: &str) -> Vec<String> {
    let mut found = Vec::new();
    let (mut inside, mut is_conditional) = (false, false);
    for line in source.lines() {
        match line {
            "impl Segment {" => inside = true,
            "}" => inside = false,
            _ if !inside => {}
            _ if line.trim_start().starts_with("#[cfg(") => is_conditional = true,
            _ => {
                let Some(name) = line.strip_prefix("    pub fn ") else {
                    continue;
                };
                let name = name.split(['(', '<']).next().unwrap_or_default();
                if !std::mem::take(&mut is_conditional) {
                    found.push(name.to_owned());
                }
            }
        }
    }
    found
}

fn read(root: &Path, folder: &Path, all: &mut Methods) {
    for entry in fs::read_dir(folder).expect("a folder of sources") {
        let path = entry.expect("a file").path();
        if path.is_dir() {
            read(root, &path, all);
            continue;
        }
        let found = methods(&fs::read_to_string(&path).expect("a source"));
        if !found.is_empty() {
            let name = path.strip_prefix(root).expect("a path below the root");
            all.insert(name.display().to_string(), found);
        }
    }
}

/// Parses a list in the documentation, whose items have the form ``- `file`: `method`, `method`.``
fn listed(source: &str) -> Methods {
    let documentation: Vec<&str> = source
        .lines()
        .skip_while(|line| !line.contains("by the file that has them"))
        .map_while(|line| line.strip_prefix("///"))
        .collect();
    let text = documentation.join(" ");
    let items = text.split(" - ").skip(1).map(|item| {
        let mut names = item.split('`').skip(1).step_by(2).map(str::to_owned);
        let file = names.next().expect("a file");
        (file, names.collect())
    });
    items.collect()
}

#[test]
fn the_documentation_lists_each_method_with_its_file() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut found = Methods::new();
    read(&root, &root, &mut found);
    let source = fs::read_to_string(root.join("segment/state.rs")).expect("a source");
    assert_eq!(listed(&source), found);
    assert!(found.len() > 20, "the sources were read");
}
