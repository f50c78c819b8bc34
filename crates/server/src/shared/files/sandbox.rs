//! Restricts the server to the files that it needs, by Landlock.
//!
//! The restriction applies to the thread that requests it and to all threads that it starts, so it
//! must be requested before the first of them. It cannot be lifted. Connections to other servers are
//! not restricted, because REPLICAOF and MIGRATE can name any port.

use std::fs;
use std::path::{Path, PathBuf};

use landlock::{
    ABI, Access, AccessFs, AccessNet, BitFlags, PathBeneath, PathFd, Ruleset, RulesetAttr,
    RulesetCreated, RulesetCreatedAttr, RulesetStatus,
};

/// The newest rights that the server knows. An older kernel enforces those that it has.
const KNOWN: ABI = ABI::V7;

/// Files that the system's libraries read: to look up names of hosts, for processes and their
/// memory, and for the time zone.
const OF_SYSTEM: &[&str] = &[
    "/proc",
    "/lib",
    "/lib64",
    "/usr/lib",
    "/usr/lib64",
    "/etc/gai.conf",
    "/etc/host.conf",
    "/etc/hosts",
    "/etc/ld.so.cache",
    "/etc/localtime",
    "/etc/nsswitch.conf",
    "/etc/resolv.conf",
    "/etc/services",
    "/run/systemd/resolve",
    "/dev/null",
    "/dev/urandom",
];

/// The folders that a sandboxed server can use.
#[derive(Clone, Debug, Default)]
pub(crate) struct Folders {
    /// Folders in which the server reads, replaces and creates files.
    pub(crate) written: Vec<PathBuf>,
    /// Folders in which the server reads files.
    pub(crate) read: Vec<PathBuf>,
}

/// A sandbox in which the server runs.
#[derive(Debug)]
pub(crate) struct Sandbox {
    folders: Folders,
    /// Whether the kernel enforces all restrictions.
    pub(crate) is_complete: bool,
}

impl Sandbox {
    /// Restricts the calling thread, and all threads that it starts later, to these folders and to the
    /// files of the system. Folders that do not exist are left out.
    ///
    /// # Errors
    /// Returns the reason if other threads are running, or if the kernel has no Landlock.
    pub(crate) fn enter(folders: Folders) -> Result<Sandbox, String> {
        let threads = fs::read_dir("/proc/self/task").map(Iterator::count);
        if !matches!(threads, Ok(1)) {
            return Err("other threads are running already".to_owned());
        }
        let existing = |folders: Vec<PathBuf>| -> Vec<PathBuf> {
            let found = folders
                .iter()
                .filter_map(|folder| folder.canonicalize().ok());
            found.collect()
        };
        let folders = Folders {
            written: existing(folders.written),
            read: existing(folders.read),
        };
        let status = restrict(&folders).map_err(|error| error.to_string())?;
        match status {
            RulesetStatus::NotEnforced => {
                Err("this kernel has no Landlock, or it is disabled".to_owned())
            }
            status => Ok(Sandbox {
                folders,
                is_complete: status == RulesetStatus::FullyEnforced,
            }),
        }
    }

    /// Returns an error if the server cannot read the file, or, if `writes`, cannot create files in the
    /// folder.
    pub(crate) fn check(&self, path: &Path, writes: bool) -> Result<(), String> {
        let whole = match path.canonicalize() {
            Ok(whole) if !writes || whole.is_dir() => whole,
            // Using it gives the reason.
            _ => return Ok(()),
        };
        let is_within =
            |folders: &[PathBuf]| folders.iter().any(|folder| whole.starts_with(folder));
        match is_within(&self.folders.written) || !writes && is_within(&self.folders.read) {
            true => Ok(()),
            false => Err(format!(
                "{} is outside the sandbox, which contains the folders that the configuration named when \
                 the server started: restart the server with this path, or with 'sandbox no'",
                path.display()
            )),
        }
    }
}

fn restrict(folders: &Folders) -> Result<RulesetStatus, landlock::RulesetError> {
    let all = AccessFs::from_all(KNOWN);
    // No program is ever executed, and no port is opened after the start.
    let ruleset = Ruleset::default()
        .handle_access(all)?
        .handle_access(AccessNet::BindTcp)?
        .create()?;
    let written = all & !AccessFs::Execute;
    let read = AccessFs::ReadFile | AccessFs::ReadDir;
    let ruleset = allow(
        ruleset,
        folders.written.iter().map(PathBuf::as_path),
        written,
    )?;
    let ruleset = allow(ruleset, folders.read.iter().map(PathBuf::as_path), read)?;
    let ruleset = allow(ruleset, OF_SYSTEM.iter().map(Path::new), read)?;
    Ok(ruleset.restrict_self()?.ruleset)
}

fn allow<'p>(
    mut ruleset: RulesetCreated,
    paths: impl Iterator<Item = &'p Path>,
    access: BitFlags<AccessFs>,
) -> Result<RulesetCreated, landlock::RulesetError> {
    for path in paths {
        let Ok(opened) = PathFd::new(path) else {
            continue;
        };
        // The rights to a file are those that do not concern folders.
        let access = match path.is_dir() {
            true => access,
            false => access & AccessFs::from_file(KNOWN),
        };
        ruleset = ruleset.add_rule(PathBeneath::new(opened, access))?;
    }
    Ok(ruleset)
}
