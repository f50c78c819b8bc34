//! Tests that a killed run leaves no server running, neither a real Redis nor undercroft, and that
//! neither server uses more memory than the run permits.

use std::fs;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// The time limit, which only a hanging test exceeds.
const LIMIT: Duration = Duration::from_secs(60);

/// Returns the ids and names of the child processes of `parent`.
fn children(parent: u32) -> Vec<(u32, String)> {
    let entries = fs::read_dir("/proc").expect("a list of processes");
    let ids = entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
    ids.filter_map(|id: u32| {
        let (name, state, its_parent) = process(id)?;
        (its_parent == parent && state != 'Z').then_some((id, name))
    })
    .collect()
}

/// Returns the name, state and parent of a process, or `None` if it no longer exists.
fn process(id: u32) -> Option<(String, char, u32)> {
    let line = fs::read_to_string(format!("/proc/{id}/stat")).ok()?;
    let (head, tail) = line.rsplit_once(')')?;
    let name = head.split_once('(')?.1.to_owned();
    let mut fields = tail.split_whitespace();
    let state = fields.next()?.chars().next()?;
    Some((name, state, fields.next()?.parse().ok()?))
}

fn wait_until(what: &str, mut is_so: impl FnMut() -> bool) {
    let start = Instant::now();
    while !is_so() {
        assert!(start.elapsed() < LIMIT, "{what}: not after {LIMIT:?}");
        std::thread::yield_now();
    }
}

/// Returns the maximum number of bytes that a process may allocate.
fn memory_max(id: u32) -> Option<u64> {
    let limits = fs::read_to_string(format!("/proc/{id}/limits")).ok()?;
    let line = limits
        .lines()
        .find_map(|line| line.strip_prefix("Max data size"))?;
    line.split_whitespace().next()?.parse().ok()
}

/// A run that continues until it is killed.
struct Run(Child);

impl Run {
    fn start(against: &[&str]) -> Run {
        let run = Command::new(env!("CARGO_BIN_EXE_conform"))
            .args(["--commands", "1000000000", "--families", "strings"])
            .args(against)
            .stdout(Stdio::null())
            .spawn();
        Run(run.expect("conform starts"))
    }

    /// Waits until the run's servers with these names have bounded memory, and returns their ids
    /// and directories.
    fn servers(&mut self, names: [&str; 2]) -> Vec<(u32, PathBuf)> {
        let mut servers = Vec::new();
        wait_until("two servers of bounded memory", || {
            let ended = self.0.try_wait().expect("the run is ours");
            assert!(ended.is_none(), "the run has ended: {ended:?}");
            servers = children(self.0.id());
            servers.retain(|(id, _)| memory_max(*id).is_some_and(|most| most <= 4 << 30));
            servers.retain(|(id, _)| directory(*id).is_some());
            // Exclude launchers: before it executes the server program, the process has its
            // launcher's name.
            servers.sort_by(|left, right| left.1.cmp(&right.1));
            servers.iter().map(|(_, name)| name.as_str()).eq(names)
        });
        let servers = servers.into_iter().map(|(id, _)| id);
        servers
            .map(|id| (id, directory(id).expect("it lives")))
            .collect()
    }
}

/// Returns the directory created for a server, if it exists.
fn directory(id: u32) -> Option<PathBuf> {
    let directory = fs::read_link(format!("/proc/{id}/cwd")).ok()?;
    let name = directory.file_name()?.to_str()?;
    name.starts_with("conform-").then_some(directory)
}

impl Drop for Run {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn ends_with_its_servers(against: &[&str], names: [&str; 2]) {
    let mut run = Run::start(against);
    let servers = run.servers(names);
    // After SIGKILL, the run executes no code, so it cannot stop the servers itself.
    drop(run);
    for (id, directory) in servers {
        wait_until("the end of a server", || {
            process(id).is_none_or(|(_, state, _)| state == 'Z')
        });
        fs::remove_dir_all(directory).expect("no process uses it");
    }
}

#[test]
fn a_killed_run_leaves_no_redis_running() {
    ends_with_its_servers(&["--against", "redis"], ["redis-server", "redis-server"]);
}

#[test]
fn a_killed_run_leaves_no_undercroft_running() {
    if undercroft_conformance::servers::undercroft_binary().is_none() {
        assert!(
            std::env::var_os("UNDERCROFT_REQUIRED").is_none(),
            "UNDERCROFT_REQUIRED is set, but no undercroft binary was found"
        );
        println!(
            "skipped: our server (found no undercroft binary that can serve; build crates/cli)"
        );
        return;
    }
    ends_with_its_servers(&[], ["redis-server", "undercroft"]);
}
