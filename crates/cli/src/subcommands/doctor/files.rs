//! Checks the owners and modes of files.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use undercroft_engine::Store;

use super::findings::{Findings, Severity};
use super::settings::Described;

/// Mode bits of the group and of all other users.
const OTHERS: u32 = 0o077;
/// Mode bits that let the group and all other users write.
const WRITTEN_BY_OTHERS: u32 = 0o022;
/// The mode bit of folders in which only a file's owner can replace it, such as /tmp.
const STICKY: u32 = 0o1000;

/// Checks a store, its folder and its journal.
pub(super) fn check_store(store: &Store, findings: &mut Findings) {
    let path = store.path();
    check_file(path, "the store", Severity::High, findings);
    check_folder(path.parent(), findings);
    if let Some(journal) = store.journal() {
        check_file(&journal.folder, "the journal", Severity::High, findings);
        check_folder(journal.folder.parent(), findings);
    }
    if fs::metadata(path).is_ok_and(|status| status.uid() == 0) {
        findings.add(
            Severity::Medium,
            format!("the store {} belongs to root", path.display()),
            "only root can open it, so a fault in a program that uses it gives control of the machine",
            "create the store as a user of its own, and run the server and the programs as that user",
        );
    }
}

/// Checks the files that a server's configuration names, if they are on this machine.
pub(super) fn check_named(described: &Described, findings: &mut Findings) {
    if !described.is_local {
        return;
    }
    for (name, what, severity) in [
        ("aclfile", "the ACL file", Severity::High),
        ("tls-key-file", "the private key", Severity::High),
        ("audit-log", "the audit log", Severity::Medium),
    ] {
        let path = Path::new(described.value(name));
        if !path.as_os_str().is_empty() {
            check_file(path, what, severity, findings);
            check_folder(path.parent(), findings);
        }
    }
    if let Some(path) = &described.file {
        let holds_passwords = !described.value("requirepass").is_empty()
            || !described.value("masterauth").is_empty()
            || described.users_in_file;
        let severity = if holds_passwords {
            Severity::High
        } else {
            Severity::Low
        };
        check_file(path, "the configuration file", severity, findings);
        check_folder(path.parent(), findings);
    }
}

fn check_file(path: &Path, what: &str, severity: Severity, findings: &mut Findings) {
    let Ok(status) = fs::metadata(path) else {
        return;
    };
    let mode = status.mode() & 0o7777;
    if mode & OTHERS != 0 {
        findings.add(
            severity,
            format!("{what} {} has mode {mode:04o}", path.display()),
            "other users of the machine can read or change it",
            format!("chmod go= {}", path.display()),
        );
    }
}

fn check_folder(folder: Option<&Path>, findings: &mut Findings) {
    let folder = folder.filter(|folder| !folder.as_os_str().is_empty());
    let (Some(folder), Some(status)) =
        (folder, folder.and_then(|folder| fs::metadata(folder).ok()))
    else {
        return;
    };
    let mode = status.mode() & 0o7777;
    if mode & WRITTEN_BY_OTHERS != 0 && mode & STICKY == 0 {
        findings.add(
            Severity::Medium,
            format!("the folder {} has mode {mode:04o}", folder.display()),
            "other users of the machine can replace the files in it",
            format!("chmod go-w {}", folder.display()),
        );
    }
}
