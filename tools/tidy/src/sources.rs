//! Checks the contents of source files.

use std::str::FromStr;

use proc_macro2::{TokenStream, TokenTree};

use crate::{File, Repo, Report, Rule};

/// Directories in which `unsafe` is allowed: the layer below the engine, the scripts, and the
/// language bindings.
const UNSAFE_ROOMS: &[&str] = &["crates/memory/", "crates/scripts/", "clients/"];

/// The maximum length of a source file, in lines.
const LINES: usize = 800;

/// The maximum width, in columns, of a line that rustfmt produces.
const COLUMNS: usize = 100;

/// Types of locks and of values that are initialized once. `fork` copies their state, so a lock
/// that another thread holds remains locked in the child forever. `ForkMutex` prevents this.
const LOCKS: &[&str] = &[
    "Mutex",
    "RwLock",
    "Condvar",
    "Once",
    "OnceLock",
    "OnceCell",
    "LazyLock",
    "Lazy",
    "ReentrantLock",
    "parking_lot",
];

/// Directories and files in which locks are allowed, with the reasons.
const LOCK_ROOMS: &[(&str, &str)] = &[
    ("crates/server/", "a server does not fork"),
    ("crates/cli/", "the commands do not fork"),
    (
        "crates/embedded/src/open_store.rs",
        "the lock is on the stack of the call that uses it",
    ),
    (
        "clients/rust/src/remote/",
        "Tokio's runtime does not outlive a fork",
    ),
    (
        "clients/python/src/threads/busy.rs",
        "it counts forks itself and refuses a child what was in use",
    ),
    (
        "clients/python/src/wire/line.rs",
        "the GIL keeps other threads out",
    ),
    ("crates/memory/src/models/", "tests only"),
    ("crates/memory/src/probes/", "tests only"),
    ("crates/testkit/", "tests only"),
    ("clients/rust/samples/", "tests only"),
    ("clients/rust/served/", "tests only"),
    ("conformance/", "tests only"),
    ("bench/", "separate programs"),
    ("examples/", "separate programs"),
    ("fuzz/", "separate programs"),
    ("tools/", "separate programs"),
];

/// Methods that panic if the thread has already destroyed the thread-local. Thread-locals without a
/// destructor are never destroyed, and are listed by name.
const PANICKING: &[&str] = &[
    "with",
    "with_borrow",
    "with_borrow_mut",
    "take",
    "replace",
    "set",
    "get",
];
const PLAIN_LOCALS: &[&str] = &[
    "CALLS",
    "DEFERRED",
    "FROZEN",
    "HAS_MET",
    "HERE",
    "LAST",
    "LIMIT",
    "MISSED_FEW",
    "MODE",
    "PARTS",
    "SHORTFALL",
    "SIGNALLED",
    "THREAD",
    "WAITS",
];

/// Extensions of files that contain handwritten code. Type stubs are exempt only from the length
/// rule, because they list a complete API.
const CODE: &[&str] = &["rs", "py", "pyi", "c", "h", "php", "sh", "toml"];

/// Words that mark unfinished work. They are split here, so that this file passes.
const UNDONE: &[&str] = &[
    concat!("TO", "DO"),
    concat!("FIX", "ME"),
    concat!("XX", "X"),
];

/// Macros for temporary code.
const TRIAL_MACROS: &[&str] = &["dbg", "todo", "unimplemented"];

pub(crate) const UNSAFE: Rule = Rule {
    name: "unsafe only in crates/memory, crates/scripts and clients",
    check: |repo| each(repo, is_rust, unsafe_outside),
    canary: || Repo::with_file("crates/engine/src/lib.rs", "fn f() { unsafe { g() } }"),
};

pub(crate) const FORK_SAFE: Rule = Rule {
    name: "no lock that a forked child could find locked forever",
    check: |repo| each(repo, is_rust, locks_outside),
    canary: || {
        Repo::with_file(
            "crates/commands/src/lib.rs",
            "static KNOWN: std::sync::Mutex<u64> = Mutex::new(0);",
        )
    },
};

pub(crate) const LOCALS: Rule = Rule {
    name: "no thread-local that a destructor in its thread could find destroyed",
    check: |repo| each(repo, is_rust, panicking_locals),
    canary: || {
        Repo::with_file(
            "crates/engine/src/a.rs",
            "thread_local! { static KEPT: Cell<Vec<u8>> = Cell::default(); } fn f() { KEPT.take(); }",
        )
    },
};

pub(crate) const LENGTH: Rule = Rule {
    name: "source files of at most 800 lines",
    check: |repo| {
        each(
            repo,
            |file| is_code(file) && file.extension() != "pyi",
            too_long,
        )
    },
    canary: || Repo::with_file("crates/engine/src/lib.rs", "\n".repeat(LINES + 1)),
};

pub(crate) const FORMATTED: Rule = Rule {
    name: "no call in a chain that is too long for rustfmt to format",
    check: |repo| each(repo, is_rust, unformatted),
    canary: || {
        Repo::with_file(
            "crates/engine/src/lib.rs",
            format!(".f({})\n", "1".repeat(COLUMNS)),
        )
    },
};

pub(crate) const LEFTOVERS: Rule = Rule {
    name: "no leftovers",
    check: |repo| each(repo, is_code, leftovers),
    canary: || Repo::with_file("crates/engine/src/lib.rs", "fn f() { dbg!(1); }"),
};

pub(crate) const ASCII: Rule = Rule {
    name: "sources are ASCII",
    check: |repo| each(repo, is_code, not_ascii),
    canary: || Repo::with_file("clients/python/a.py", "x = '\u{b5}s'\n"),
};

/// Runs `find` on each file that `wanted` selects.
fn each(repo: &Repo, wanted: fn(&File) -> bool, find: fn(&File) -> Vec<String>) -> Report {
    let mut report = Report::default();
    for file in repo.files.iter().filter(|file| wanted(file)) {
        report.add(find(file));
    }
    report
}

fn is_rust(file: &File) -> bool {
    file.extension() == "rs"
}

fn is_code(file: &File) -> bool {
    CODE.contains(&file.extension()) || file.path.ends_with("Makefile") || file.path == ".ci/run"
}

fn unsafe_outside(file: &File) -> Vec<String> {
    if UNSAFE_ROOMS.iter().any(|room| file.path.starts_with(room)) {
        return Vec::new();
    }
    identifiers(file)
        .into_iter()
        .filter(|(name, ..)| name == "unsafe")
        .map(|(_, line, _)| {
            format!(
                "{}:{line}: unsafe is allowed only in {UNSAFE_ROOMS:?}; move it there",
                file.path
            )
        })
        .collect()
}

fn is_test(file: &File) -> bool {
    let only_tests = LOCK_ROOMS.iter().filter(|(_, why)| *why == "tests only");
    file.path.contains("/tests/")
        || file.path.ends_with("tests.rs")
        || file.path.starts_with("fuzz/")
        || only_tests
            .map(|(room, _)| room)
            .any(|room| file.path.starts_with(room))
}

fn locks_outside(file: &File) -> Vec<String> {
    let mut rooms = LOCK_ROOMS.iter().map(|(room, _)| room);
    if is_test(file) || rooms.any(|room| file.path.starts_with(room)) {
        return Vec::new();
    }
    let found = identifiers(file).into_iter();
    found
        .filter(|(name, ..)| LOCKS.contains(&name.as_str()))
        .map(|(name, line, _)| {
            format!(
                "{}:{line}: a forked child may find {name} locked; use ForkMutex",
                file.path
            )
        })
        .collect()
}

fn panicking_locals(file: &File) -> Vec<String> {
    let names = identifiers(file);
    if is_test(file)
        || !names
            .iter()
            .any(|(name, _, called)| *called && name == "thread_local")
    {
        return Vec::new();
    }
    let is_static =
        |name: &str| name.len() > 1 && name.chars().all(|c| c.is_ascii_uppercase() || c == '_');
    let declared: Vec<&str> = names
        .windows(2)
        .filter(|pair| pair[0].0 == "static" && is_static(&pair[1].0))
        .map(|pair| pair[1].0.as_str())
        .filter(|name| !PLAIN_LOCALS.contains(name))
        .collect();
    let calls = names.windows(2).filter(|pair| {
        declared.contains(&pair[0].0.as_str()) && PANICKING.contains(&pair[1].0.as_str())
    });
    calls
        .map(|pair| {
            let ((local, line, _), method) = (&pair[0], &pair[1].0);
            format!(
                "{}:{line}: {local}.{method} panics when the thread ends; use ThreadCached or \
                 try_with",
                file.path
            )
        })
        .collect()
}

fn too_long(file: &File) -> Vec<String> {
    let lines = file.text.lines().count();
    let found = (lines > LINES).then(|| {
        format!(
            "{}: {lines} lines, expected at most {LINES}; split the file",
            file.path
        )
    });
    found.into_iter().collect()
}

fn unformatted(file: &File) -> Vec<String> {
    let lines = file.text.lines().enumerate();
    lines
        .filter(|(_, line)| line.len() > COLUMNS && line.trim_start().starts_with('.'))
        .map(|(index, _)| {
            format!(
                "{}:{}: more than {COLUMNS} columns, so rustfmt leaves the whole chain \
                 unformatted; shorten the line",
                file.path,
                index + 1
            )
        })
        .collect()
}

fn leftovers(file: &File) -> Vec<String> {
    let mut found = Vec::new();
    for (index, line) in file.text.lines().enumerate() {
        let mut words = line.split(|c: char| !c.is_alphanumeric() && c != '_');
        if let Some(word) = words.find(|word| UNDONE.contains(word)) {
            found.push(format!("{}:{}: {word}", file.path, index + 1));
        }
    }
    if is_rust(file) {
        for (name, line, called) in identifiers(file) {
            if called && TRIAL_MACROS.contains(&name.as_str()) {
                found.push(format!("{}:{line}: {name}!", file.path));
            }
        }
    }
    found
}

fn not_ascii(file: &File) -> Vec<String> {
    let lines = file.text.lines().enumerate();
    lines
        .filter_map(|(index, line)| {
            let odd = line.chars().find(|c| !c.is_ascii())?;
            let escaped = odd.escape_unicode();
            Some(format!("{}:{}: not ASCII: {escaped}", file.path, index + 1))
        })
        .collect()
}

/// Returns the identifiers in a Rust file, each with its line and whether `!` follows it. Returns
/// nothing if the file cannot be tokenized, an error that the compiler reports.
pub(crate) fn identifiers(file: &File) -> Vec<(String, usize, bool)> {
    let mut found = Vec::new();
    if let Ok(tokens) = TokenStream::from_str(&file.text) {
        collect(tokens, &mut found);
    }
    found
}

fn collect(tokens: TokenStream, found: &mut Vec<(String, usize, bool)>) {
    let mut tokens = tokens.into_iter().peekable();
    while let Some(token) = tokens.next() {
        match token {
            TokenTree::Group(group) => collect(group.stream(), found),
            TokenTree::Ident(name) => {
                let called = matches!(
                    tokens.peek(),
                    Some(TokenTree::Punct(mark)) if mark.as_char() == '!'
                );
                found.push((name.to_string(), name.span().start().line, called));
            }
            TokenTree::Punct(_) | TokenTree::Literal(_) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn findings(rule: Rule, path: &str, text: &str) -> Vec<String> {
        (rule.check)(&Repo::with_file(path, text)).findings
    }

    #[test]
    fn unsafe_is_found_as_code_only() {
        let path = "crates/server/src/lib.rs";
        let clean = "// unsafe\nconst S: &str = \"unsafe\";\n/* unsafe */ const UNSAFE: u8 = 1;\n";
        assert!(findings(UNSAFE, path, clean).is_empty());
        for code in [
            "fn f() {\n    unsafe { g() }\n}",
            "#[unsafe(no_mangle)] fn f() {}",
            "unsafe impl Send for T {}",
        ] {
            assert_eq!(findings(UNSAFE, path, code).len(), 1, "{code}");
            assert!(findings(UNSAFE, "crates/memory/src/map.rs", code).is_empty());
            assert!(findings(UNSAFE, "clients/c/src/lib.rs", code).is_empty());
        }
    }

    #[test]
    fn locks_are_found_outside_allowed_places_and_tests() {
        let code = "use std::sync::{Arc, OnceLock}; struct S { state: RwLock<u8> }";
        assert_eq!(findings(FORK_SAFE, "crates/engine/src/a.rs", code).len(), 2);
        assert!(findings(FORK_SAFE, "crates/engine/tests/a.rs", code).is_empty());
        assert!(findings(FORK_SAFE, "crates/server/src/a.rs", code).is_empty());
        let other = "struct S { state: ForkMutex<u8> } // a Mutex";
        assert!(findings(FORK_SAFE, "crates/engine/src/a.rs", other).is_empty());
    }

    #[test]
    fn thread_locals_are_accessed_without_panicking() {
        let path = "crates/engine/src/a.rs";
        let local = "thread_local! { static KEPT: Cell<Vec<u8>> = Cell::default(); }";
        for (call, count) in [
            ("KEPT.set(v)", 1),
            ("KEPT.take_cached()", 0),
            ("KEPT.try_with(f)", 0),
        ] {
            let code = format!("{local} fn f() {{ {call}; }}");
            assert_eq!(findings(LOCALS, path, &code).len(), count, "{call}");
        }
        assert!(
            findings(
                LOCALS,
                path,
                "static A: Cell<u8> = f(); fn g() { A.set(1); }"
            )
            .is_empty()
        );
    }

    #[test]
    fn too_long_files_are_found() {
        let path = "a.py";
        assert!(findings(LENGTH, path, &"x\n".repeat(LINES)).is_empty());
        assert_eq!(findings(LENGTH, path, &"x\n".repeat(LINES + 1)).len(), 1);
        assert!(findings(LENGTH, "a.pyi", &"x\n".repeat(LINES + 1)).is_empty());
    }

    #[test]
    fn method_chains_too_long_for_rustfmt_are_found() {
        let (short, long) = ("1".repeat(COLUMNS - 4), "1".repeat(COLUMNS));
        assert!(findings(FORMATTED, "a.rs", &format!(".f({short})\n/// {long}\n")).is_empty());
        assert_eq!(
            findings(FORMATTED, "a.rs", &format!("    .f({long})\n")).len(),
            1
        );
    }

    #[test]
    fn leftovers_are_whole_words_and_calls() {
        assert!(findings(LEFTOVERS, "a.rs", "fn dbg() { let todo = 1; }").is_empty());
        for word in UNDONE {
            let comment = format!("# {word}: later\n");
            assert_eq!(findings(LEFTOVERS, "a.sh", &comment).len(), 1, "{word}");
            let other = format!("# {word}S\n");
            assert!(findings(LEFTOVERS, "a.sh", &other).is_empty(), "{word}");
        }
        for name in TRIAL_MACROS {
            let call = format!("fn f() {{ {name}!() }}");
            assert_eq!(findings(LEFTOVERS, "a.rs", &call).len(), 1, "{name}");
        }
    }

    #[test]
    fn documents_need_not_be_ascii() {
        assert!(findings(ASCII, "docs/a.md", "\u{b5}s").is_empty());
        assert_eq!(
            findings(ASCII, "a.c", "ok\n\u{b5}s\n"),
            ["a.c:2: not ASCII: \\u{b5}"]
        );
    }
}
