//! Finds state that can change through a shared reference and that the bodies of reads and writes
//! can reach.
//!
//! A body, the closure of a read or a write, can run several times, and a discarded run must not
//! affect the next run (R8). The compiler prevents the body of a read from changing captured
//! variables through `&mut` or a cell, but does not check thread-locals, statics, locks and
//! atomics. Therefore, this file lists each source file that contains such state and whose code
//! runs in bodies, with the reason why one run cannot affect the next through that state.

use crate::sources::identifiers;
use crate::{File, Repo, Report, Rule};

/// Directories of layers whose code runs inside bodies.
const LAYERS: &[&str] = &["crates/engine/src/", "crates/commands/src/"];

/// Identifiers that occur only in files that pass bodies to a store. They select the files outside
/// these layers to check.
const GIVES_BODIES: &[&str] = &["read_into", "shards_of"];

/// Types and macros whose values can change through a shared reference.
const CELLS: &[&str] = &[
    "thread_local",
    "Cell",
    "RefCell",
    "UnsafeCell",
    "OnceCell",
    "LazyCell",
    "Mutex",
    "RwLock",
    "OnceLock",
    "LazyLock",
    "PyOnceLock",
    "ForkMutex",
    "ArcSwap",
];

/// The files that contain such state, with the reasons why it is sound.
const REASONS: &[(&str, &str)] = &[
    (
        "crates/commands/src/config/mod.rs",
        "the configuration, which bodies only read",
    ),
    (
        "crates/commands/src/algorithms/geohash.rs",
        "its cells are areas of the earth",
    ),
    (
        "crates/commands/src/algorithms/partial_sort.rs",
        "its cells count the comparisons in a test",
    ),
    (
        "crates/commands/src/context/pause.rs",
        "only CLIENT PAUSE changes it, which has no body",
    ),
    (
        "crates/commands/src/statistics/latency.rs",
        "durations, which also hold for a run that is rolled back",
    ),
    (
        "crates/commands/src/scripts/cache.rs",
        "scripts by SHA-1, to which a transaction that may roll back does not add",
    ),
    (
        "crates/commands/src/scripts/library.rs",
        "libraries by version, to which a transaction that may roll back does not add",
    ),
    (
        "crates/commands/src/scripts/running.rs",
        "long-running functions, each removed when its run ends",
    ),
    (
        "crates/commands/src/statistics/checkpoints.rs",
        "results of checkpoints, which no body writes",
    ),
    (
        "crates/commands/src/statistics/slowlog.rs",
        "written only after a command has ended",
    ),
    (
        "crates/commands/src/statistics/mod.rs",
        "statistics of commands, counted after they have ended",
    ),
    (
        "crates/commands/src/users/stored.rs",
        "users by version, to which a transaction that may roll back does not add",
    ),
    (
        "crates/commands/src/users/log.rs",
        "denied calls, which are added after the commit of the transaction",
    ),
    (
        "crates/engine/src/lib.rs",
        "names the mutex of other crates but contains none",
    ),
    (
        "crates/engine/src/rdb_form/lzf.rs",
        "positions of hashes, numbered on across strings, so that no string sees those of another",
    ),
    (
        "crates/engine/src/types/stream/leaves/last_read.rs",
        "the position of a read, used only if the leaf has the same bytes up to it",
    ),
    (
        "crates/engine/src/types/stream/leaves/leaf_edit.rs",
        "buffers, which are empty each time they are taken",
    ),
    (
        "crates/engine/src/transaction/running.rs",
        "the effects of a transaction, recreated for each run of its body",
    ),
    (
        "crates/engine/src/transaction/tracking/origin.rs",
        "the client for which a thread runs commands, which bodies read but never set",
    ),
    (
        "crates/commands/src/session/tracking.rs",
        "whether the receiver of a client's invalidations is gone, which only servers set",
    ),
    (
        "crates/engine/src/handle/clock.rs",
        "the time, which bodies read but never set",
    ),
    (
        "crates/engine/src/types/feed/query/tally.rs",
        "a count of queries without tallies, which only decides when a query builds them after \
         its reads",
    ),
    (
        "crates/engine/src/types/feed/root.rs",
        "the last schema, keyed by the words that determine it, so any run may set it",
    ),
    (
        "crates/engine/src/store/dead_processes.rs",
        "the progress of a scan for dead processes: an old position only costs another look",
    ),
    (
        "crates/engine/src/handle/expired_seen.rs",
        "candidates for expiry, each looked up again before it is removed",
    ),
    (
        "crates/engine/src/handle/store.rs",
        "used between reads and writes, not in their bodies",
    ),
    (
        "crates/engine/src/random.rs",
        "random numbers, any of which is valid",
    ),
    (
        "crates/engine/src/messages/publish.rs",
        "the patterns of all subscribers with their version, which is compared before use",
    ),
    (
        "crates/engine/src/messages/unsent.rs",
        "messages left unsent after a commit",
    ),
    (
        "crates/engine/src/waiting/postponed.rs",
        "work left undone after a commit",
    ),
    (
        "crates/engine/src/upkeep/counters.rs",
        "counts of committed changes",
    ),
    (
        "crates/engine/src/upkeep/eviction.rs",
        "candidates for eviction, collected between reads and writes, each looked up again",
    ),
    (
        "crates/engine/src/upkeep/space.rs",
        "candidates for freeing, collected between reads and writes, each looked up again",
    ),
];

pub(crate) const CELLS_HAVE_REASONS: Rule = Rule {
    name: "state that bodies of reads could change has a reason",
    check,
    canary: || {
        let body = "thread_local! { static SEEN: Vec<u8> = Vec::new(); }";
        Repo::with_file("crates/commands/src/handlers/hashes.rs", body)
    },
};

fn check(repo: &Repo) -> Report {
    let mut report = Report::default();
    for file in repo.files.iter().filter(|file| is_product(file)) {
        let names = identifiers(file);
        let gives = names
            .iter()
            .any(|(name, ..)| GIVES_BODIES.contains(&name.as_str()));
        let reason = REASONS.iter().find(|(path, _)| *path == file.path);
        if reason.is_none() && !gives && !LAYERS.iter().any(|layer| file.path.starts_with(layer)) {
            continue;
        }
        let cell = names.iter().find(|(name, ..)| is_cell(name));
        report.add(match (cell, reason) {
            (Some((name, line, _)), None) => {
                let asked =
                    "add to tools/tidy/src/cells.rs the reason why no run of a body affects the \
                     next one";
                Some(format!("{}:{line}: {name}; {asked}", file.path))
            }
            (None, Some(_)) => Some(format!("{}: has a reason but no cell; remove the reason", file.path)),
            _ => None,
        });
    }
    report
}

/// Returns whether a file is Rust code that can run in bodies: neither a test nor in a lower layer.
fn is_product(file: &File) -> bool {
    let path = file.path.as_str();
    file.extension() == "rs"
        && (path.starts_with("crates/") || path.starts_with("clients/"))
        && !["crates/memory/", "crates/testkit/"]
            .iter()
            .any(|room| path.starts_with(room))
        && !path.contains("/tests/")
        && !path.ends_with("tests.rs")
}

fn is_cell(name: &str) -> bool {
    CELLS.contains(&name) || name.starts_with("Atomic")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn findings(path: &str, text: &str) -> usize {
        check(&Repo::with_file(path, text)).findings.len()
    }

    #[test]
    fn cells_are_found_where_bodies_are() {
        for cell in [
            "static SEEN: Mutex<u8> = Mutex::new(0);",
            "fn f(seen: &RefCell<u8>) {}",
            "use std::sync::atomic::{AtomicU64, Ordering};",
            "thread_local! { static SEEN: u8 = 0; }",
        ] {
            assert_eq!(
                findings("crates/engine/src/keyspace/scan.rs", cell),
                1,
                "{cell}"
            );
            assert_eq!(findings("crates/server/src/worker.rs", cell), 0, "{cell}");
            let body = format!("{cell} fn g() {{ store.read_into(shards) }}");
            assert_eq!(findings("clients/c/src/get.rs", &body), 1, "{body}");
            assert_eq!(findings("crates/engine/tests/scan.rs", &body), 0, "{body}");
        }
        assert_eq!(
            findings("crates/engine/src/keyspace/scan.rs", "// a Mutex"),
            0
        );
    }

    #[test]
    fn a_reason_without_a_cell_is_reported() {
        let (path, _) = REASONS[0];
        assert_eq!(findings(path, "fn f() {}"), 1);
        assert_eq!(findings(path, "static SEEN: Mutex<u8>;"), 0);
    }
}
