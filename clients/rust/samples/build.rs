//! Writes the documentation's code samples into one file of functions.
//!
//! Samples are the blocks marked `rust` on every Markdown page, and the blocks marked `no_run` in
//! the Rust client's documentation. The client's other blocks run as doc tests.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

/// URLs in the samples, each with the test store or server that replaces it.
const SERVERS: [(&str, &str); 3] = [
    ("\"redis://localhost\"", "&crate::place::server()"),
    (
        "\"redis+cluster://one:6379,other:6379\"",
        "&crate::place::cluster()",
    ),
    ("\"redis+cluster://one:6379\"", "&crate::place::cluster()"),
];

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    let root = Path::new("../../..");
    let mut pages = Vec::new();
    collect(root, &mut pages);
    pages.sort();
    let (mut modules, mut list) = (String::new(), String::new());
    for page in pages {
        let text = fs::read_to_string(&page).expect("a page is text");
        let name = page.strip_prefix(root).expect("a page of the repository");
        for (line, code) in samples(name, &text) {
            println!("cargo::rerun-if-changed={}", page.display());
            let title = format!("{}:{line}", name.display());
            let module = title
                .replace(|c: char| !c.is_ascii_alphanumeric(), "_")
                .to_lowercase();
            write!(modules, "mod {module} {{\n{}\n}}\n", function(&code)).expect("written");
            writeln!(list, "    (\"{title}\", {module}::sample),").expect("written");
        }
    }
    let place = PathBuf::from(std::env::var_os("OUT_DIR").expect("cargo sets it"));
    let all = format!("{modules}\nconst SAMPLES: &[(&str, Sample)] = &[\n{list}];\n");
    fs::write(place.join("samples.rs"), all).expect("written");
}

/// Collects all Markdown pages, and the sources of the Rust client.
fn collect(directory: &Path, pages: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(directory).expect("a directory") {
        let path = entry.expect("an entry").path();
        let name = path
            .file_name()
            .unwrap_or_default()
            .to_string_lossy()
            .into_owned();
        let is_source = name.ends_with(".rs") && path.starts_with("../../../clients/rust/src");
        if name.ends_with(".md") || is_source {
            pages.push(path);
        } else if path.is_dir()
            && !path.is_symlink()
            && !name.starts_with('.')
            && !["target", "node_modules", "vendor"].contains(&&*name)
        {
            collect(&path, pages);
        }
    }
}

/// Returns the samples on a page, each with the number of its first line.
fn samples(name: &Path, text: &str) -> Vec<(usize, String)> {
    let is_page = name.extension().is_some_and(|extension| extension == "md");
    let (mut found, mut open) = (Vec::new(), None::<(usize, String)>);
    let mut is_other = false;
    for (at, line) in text.lines().enumerate() {
        let line = match is_page {
            true => line,
            false => {
                let line = line.trim_start();
                let line = line.strip_prefix("///").or(line.strip_prefix("//!"));
                let line = line.unwrap_or_default();
                line.strip_prefix(' ').unwrap_or(line)
            }
        };
        if let Some(mark) = line.strip_prefix("```") {
            if let Some(sample) = open.take() {
                found.push(sample);
            } else if is_other {
                is_other = false;
            } else {
                let mut marks = mark.split(',');
                let runs = match is_page {
                    true => marks.next() == Some("rust"),
                    false => marks.any(|mark| mark == "no_run"),
                };
                open = runs.then(|| (at + 1, String::new()));
                is_other = !runs;
            }
        } else if let Some((_, code)) = &mut open {
            // Rustdoc hides lines that start with `# `.
            let line = match line.strip_prefix("# ") {
                Some(hidden) if !is_page => hidden,
                _ => line,
            };
            writeln!(code, "{line}").expect("written");
        }
    }
    found
}

/// Returns a function that runs a sample: a complete program, or a fragment that uses an open
/// store.
fn function(code: &str) -> String {
    let mut code = code.to_owned();
    for (url, place) in SERVERS {
        code = code.replace(url, place);
    }
    let mut parts = code.split("\"undercroft://");
    let mut placed = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let (name, rest) = part.split_once('"').expect("a URL ends");
        write!(placed, "&crate::place::store(\"{name}\"){rest}").expect("written");
    }
    if placed.contains("fn main()") {
        return format!("{placed}\npub(super) fn sample() -> crate::Outcome {{ Ok(main()?) }}");
    }
    let uses_store = placed.contains("store.") && !placed.contains("let store");
    let given = if uses_store {
        "let store = crate::place::engine();"
    } else {
        ""
    };
    format!(
        "#[allow(unused_imports)]\nuse std::time::Duration;\n#[allow(unused_imports)]\nuse undercroft_engine::{{lists::End, messages::{{Event, Topic}}, waiting::{{Answer, Take, Wanted}}}};\n\
         pub(super) fn sample() -> crate::Outcome {{\n{given}\n{placed}\nOk(())\n}}"
    )
}
