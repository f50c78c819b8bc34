//! Tests that programs which only embed stores compile no async runtime.

use std::process::Command;

/// Returns the names of the crates that a program with the given features compiles.
fn crates(features: &[&str]) -> Vec<String> {
    let output = Command::new(env!("CARGO"))
        .args([
            "tree",
            "--offline",
            "--package",
            "undercroft",
            "--edges",
            "normal",
        ])
        .args(["--prefix", "none", "--format", "{p}"])
        .args(features)
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .output()
        .expect("cargo runs");
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    let text = String::from_utf8(output.stdout).expect("text");
    let names = text.lines().filter_map(|line| line.split(' ').next());
    let mut names: Vec<String> = names.map(str::to_owned).collect();
    names.sort();
    names.dedup();
    names
}

#[test]
fn build_without_async_has_no_runtime() {
    const ASYNC: &[&str] = &["tokio", "async-trait", "futures-util", "deadpool", "mio"];
    let of_both = |names: &[String]| {
        let is_there = |name: &&&str| names.iter().any(|other| other == **name);
        ASYNC.iter().filter(is_there).count()
    };
    let (embedded, all) = (
        crates(&["--no-default-features", "--features", "scripts"]),
        crates(&[]),
    );
    assert_eq!(of_both(&all), ASYNC.len(), "the names are right: {all:?}");
    assert_eq!(of_both(&embedded), 0, "{embedded:?}");
    println!("{} crates, and {} with async", embedded.len(), all.len());
}
