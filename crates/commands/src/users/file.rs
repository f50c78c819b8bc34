//! Reads and replaces the file of users (`aclfile`).

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use rustix::fs::OFlags;

/// Returns the content of an ACL file.
///
/// # Errors
/// Returns Redis' message if the file cannot be read.
pub fn read_file(path: &Path) -> Result<Vec<u8>, String> {
    read_regular_file(path).map_err(|error| {
        let path = path.display();
        format!("Error loading ACLs, opening file '{path}': {error}")
    })
}

/// The maximum size in bytes of a file that a server reads because of its configuration.
const SIZE_MAX: u64 = 64 << 20;

/// Returns the content of a file that a parameter of the configuration names. Neither waits for the
/// other end of a pipe nor reads a device, which may have no end.
///
/// # Errors
/// Fails if the file cannot be read, is not a regular file, or has more than 64 MiB.
pub fn read_regular_file(path: &Path) -> io::Result<Vec<u8>> {
    let file = OpenOptions::new()
        .read(true)
        .custom_flags(OFlags::NONBLOCK.bits() as i32)
        .open(path)?;
    let status = file.metadata()?;
    if !status.is_file() {
        return Err(io::Error::other("expected a regular file"));
    }
    if status.len() > SIZE_MAX {
        let text = format!("expected at most {SIZE_MAX} bytes, found {}", status.len());
        return Err(io::Error::other(text));
    }
    let mut bytes = Vec::new();
    file.take(SIZE_MAX).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Replaces a file: after a crash or a power cut, it has either its old or its new content. Only the
/// owner can read it, because it contains hashes of passwords.
pub(crate) fn write_file(path: &Path, text: &[u8]) -> Result<(), String> {
    let failed = |what: &str, error: std::io::Error| {
        format!("ACL SAVE: {what} {} failed: {error}", path.display())
    };
    let mut name = path.as_os_str().to_owned();
    name.push(format!(".tmp-{}", std::process::id()));
    let temporary = Path::new(&name);
    // A file that a killed process left must not pass on its permissions.
    match fs::remove_file(temporary) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            return Err(failed("removing the temporary file of", error));
        }
        _ => {}
    }
    let written = write_new(temporary, text)
        .map_err(|error| failed("writing the temporary file of", error))
        .and_then(|()| {
            fs::rename(temporary, path).map_err(|error| failed("replacing", error))?;
            let folder = path
                .parent()
                .filter(|folder| !folder.as_os_str().is_empty());
            File::open(folder.unwrap_or(Path::new(".")))
                .and_then(|folder| folder.sync_all())
                .map_err(|error| failed("syncing the folder of", error))
        });
    if written.is_err() {
        // The error of the failed step is more important than an error here.
        let _ = fs::remove_file(temporary);
    }
    written
}

fn write_new(path: &Path, text: &[u8]) -> std::io::Result<()> {
    let mut file = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(path)?;
    file.write_all(text)?;
    file.sync_all()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn file_is_replaced_as_a_whole() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("users.acl");
        for text in [&b"user a\n"[..], b"user b on\n"] {
            write_file(&path, text).expect("a writable folder");
            assert_eq!(read_file(&path).as_deref(), Ok(text));
        }
        let mode = fs::metadata(&path).expect("a file").permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        assert_eq!(fs::read_dir(folder.path()).expect("a folder").count(), 1);
        for device in ["/dev/zero", "/dev", "/dev/null"] {
            let error = read_file(Path::new(device)).expect_err("no regular file");
            assert!(
                error.contains("expected a regular file"),
                "{device}: {error}"
            );
        }
        let lost = folder.path().join("no/users.acl");
        assert!(write_file(&lost, b"").is_err());
        let error = read_file(&lost).expect_err("no folder");
        assert!(
            error.starts_with("Error loading ACLs, opening file '"),
            "{error}"
        );
    }
}
