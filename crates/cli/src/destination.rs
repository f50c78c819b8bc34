//! Writes an export to its destination: either a file that appears under its name only when it is
//! complete, or an existing stream, such as a pipe, a device or standard output.

use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind, Write};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, CWD, Mode, OFlags};

/// The `statfs` type of procfs, whose symbolic links lead to open descriptors. This is
/// PROC_SUPER_MAGIC in `linux/magic.h`.
const PROC_SUPER_MAGIC: u64 = 0x9fa0;
/// The maximum number of symbolic links to follow, as in the kernel.
const LINKS_MAX: usize = 40;

/// The open destination of an export.
#[derive(Debug)]
pub(crate) struct Destination {
    out: File,
    /// The steps that publish the complete file under its name, or `None` for a stream.
    publish: Option<Publish>,
}

#[derive(Debug)]
struct Publish {
    target: PathBuf,
    /// The temporary name of the complete file, before the file is renamed to `target`.
    temporary: PathBuf,
    /// Whether the file already exists under the temporary name, because the file system does not
    /// support unnamed files.
    named: bool,
}

impl Destination {
    /// Returns standard output as a destination.
    pub(crate) fn standard_output() -> io::Result<Destination> {
        let out = rustix::io::dup(io::stdout())?;
        Ok(Destination::stream(File::from(out)))
    }

    /// Opens a path. A regular file at the path remains unchanged until [`publish`](Self::publish)
    /// is called. Anything else is written to immediately.
    pub(crate) fn open(path: &Path) -> io::Result<Destination> {
        let Some(target) = replaceable(path)? else {
            let out = OpenOptions::new().write(true).open(path)?;
            return Ok(Destination::stream(out));
        };
        let mut name = target.file_name().unwrap_or_default().to_owned();
        name.push(format!(".{}.part", std::process::id()));
        let temporary = target.with_file_name(name);
        let directory = match target.parent() {
            Some(parent) if parent != Path::new("") => parent,
            _ => Path::new("."),
        };
        // An unnamed file disappears with this process, however the process ends. The mode prevents
        // users who cannot read the store from reading its copy.
        let unnamed = rustix::fs::open(
            directory,
            OFlags::TMPFILE | OFlags::WRONLY | OFlags::CLOEXEC,
            Mode::RUSR | Mode::WUSR,
        );
        let (out, named) = match unnamed {
            Ok(out) => (File::from(out), false),
            Err(rustix::io::Errno::OPNOTSUPP | rustix::io::Errno::ISDIR) => {
                let out = OpenOptions::new()
                    .write(true)
                    .create_new(true)
                    .mode(0o600)
                    .open(&temporary)?;
                (out, true)
            }
            Err(error) => return Err(error.into()),
        };
        Ok(Destination {
            out,
            publish: Some(Publish {
                target,
                temporary,
                named,
            }),
        })
    }

    fn stream(out: File) -> Destination {
        Destination { out, publish: None }
    }

    /// Returns whether the destination is a stream.
    pub(crate) fn is_stream(&self) -> bool {
        self.publish.is_none()
    }

    /// Returns whether publishing the export replaces the file at `path`.
    pub(crate) fn replaces(&self, path: &Path) -> bool {
        let id = |path: &Path| Some(fs::metadata(path).ok()).map(|status| status.map(identity));
        let publish = self.publish.as_ref();
        publish.is_some_and(|publish| {
            let target = id(&publish.target);
            target.flatten().is_some() && target == id(path)
        })
    }

    /// Syncs the file to disk, and publishes it under its name. Does nothing for a stream.
    pub(crate) fn publish(mut self) -> io::Result<()> {
        let Some(publish) = &mut self.publish else {
            return Ok(());
        };
        self.out.sync_all()?;
        if !publish.named {
            let unnamed = format!("/proc/self/fd/{}", self.out.as_raw_fd());
            rustix::fs::linkat(
                CWD,
                unnamed,
                CWD,
                &publish.temporary,
                AtFlags::SYMLINK_FOLLOW,
            )?;
            publish.named = true;
        }
        fs::rename(&publish.temporary, &publish.target)?;
        publish.named = false;
        Ok(())
    }
}

impl Write for Destination {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.out.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

impl Drop for Destination {
    fn drop(&mut self) {
        if let Some(publish) = self.publish.as_ref().filter(|publish| publish.named) {
            // Ignore the error: the export has already failed and reported the reason.
            let _ = fs::remove_file(&publish.temporary);
        }
    }
}

fn identity(status: fs::Metadata) -> (u64, u64) {
    (status.dev(), status.ino())
}

/// Follows symbolic links from a path to a regular file, or to a path at which no file exists.
/// Returns `None` if the path leads to something that must be written in place: a device, a pipe, a
/// socket, or a process's descriptor under `/proc`.
fn replaceable(path: &Path) -> io::Result<Option<PathBuf>> {
    let mut target = path.to_owned();
    for _ in 0..LINKS_MAX {
        let kind = match target.symlink_metadata() {
            Ok(status) => status.file_type(),
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Some(target)),
            Err(error) => return Err(error),
        };
        if kind.is_dir() {
            return Err(ErrorKind::IsADirectory.into());
        }
        if !kind.is_symlink() {
            return Ok(kind.is_file().then_some(target));
        }
        let directory = match target.parent() {
            Some(parent) if parent != Path::new("") => parent.to_owned(),
            _ => PathBuf::from("."),
        };
        if rustix::fs::statfs(&directory)?.f_type as u64 == PROC_SUPER_MAGIC {
            return Ok(None);
        }
        target = directory.join(fs::read_link(&target)?);
    }
    Err(io::Error::other("too many levels of symbolic links"))
}
