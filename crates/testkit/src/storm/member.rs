//! Controls a process of a storm from the test.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::time::{Duration, Instant};

use undercroft_engine::Store;

use super::Progress;

/// The number of operations that every surviving process must complete after a kill.
const PROGRESS: u64 = 20;
/// The time without progress after which a process counts as hung. It is much longer than any wait
/// for a lock.
pub const HANGS_AFTER: Duration = Duration::from_secs(300);

/// A process of the storm. It is killed when the value is dropped.
pub struct Member {
    name: String,
    child: Child,
    threads: u64,
    /// The number of operations that each thread of the process has completed.
    pub progress: Progress,
    errors: PathBuf,
}

impl Member {
    /// Starts `program` in a role, with `threads` threads, on the store in a directory.
    pub fn start(
        program: &str,
        directory: &Path,
        name: &str,
        role: &str,
        threads: u64,
        seed: u64,
    ) -> Member {
        let path = |suffix: &str| directory.join(format!("{name}.{suffix}"));
        let progress = Progress::create(&path("progress")).expect("a new file");
        let errors = path("errors");
        let child = Command::new(program)
            .arg(role)
            .arg(directory.join("store"))
            .arg(path("progress"))
            .args([seed.to_string(), threads.to_string()])
            .stderr(File::create(&errors).expect("a new file"))
            .spawn()
            .expect("the child program starts");
        Member {
            name: name.into(),
            child,
            threads,
            progress,
            errors,
        }
    }

    /// Returns the number of completed operations of each thread.
    pub fn operations(&self) -> Vec<u64> {
        let mut operations = self.progress.operations();
        operations.truncate(self.threads as usize);
        operations
    }

    /// Panics with the process's error output if the process has ended.
    pub fn expect_alive(&mut self, seed: u64) {
        if let Some(status) = self.child.try_wait().expect("a child to ask for") {
            let words = std::fs::read_to_string(&self.errors).unwrap_or_default();
            panic!("{} ended with {status} (seed {seed}): {words}", self.name);
        }
    }

    /// Kills the process with SIGKILL.
    pub fn kill(&mut self) {
        self.child.kill().expect("a child to kill");
        self.child.wait().expect("a child to wait for");
    }
}

impl Drop for Member {
    fn drop(&mut self) {
        // Ignore errors, because the process may already be dead.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Waits until every thread of every process has made progress. Panics with the names of processes
/// that hang.
pub fn wait_for_progress(members: &mut [&mut Member], store: &Store, seed: u64) {
    let before: Vec<Vec<u64>> = members.iter().map(|member| member.operations()).collect();
    let start = Instant::now();
    loop {
        let mut standing = Vec::new();
        for (member, before) in members.iter_mut().zip(&before) {
            member.expect_alive(seed);
            for (thread, (now, then)) in member.operations().iter().zip(before).enumerate() {
                if now - then < PROGRESS {
                    standing.push(format!("{}, thread {thread}", member.name));
                }
            }
        }
        if standing.is_empty() {
            return;
        }
        assert!(
            start.elapsed() < HANGS_AFTER,
            "no progress for {HANGS_AFTER:?} (seed {seed}): {standing:?}; locks: {:?}",
            store.held_locks()
        );
        std::thread::yield_now();
        std::thread::sleep(Duration::from_micros(200));
    }
}
