//! Where an export goes: a file that takes its name only when it is complete, or a stream that exists already, such as
//! a pipe, a device or standard output.

use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind, Write};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, CWD, Mode, OFlags};

/// `statfs`' type of the file system whose symbolic links lead to open descriptors; PROC_SUPER_MAGIC of
/// `linux/magic.h`.
const PROC_SUPER_MAGIC: u64 = 0x9fa0;
/// Symbolic links that are followed; as many as the kernel follows.
const LINKS_MAX: usize = 40;

/// An open destination.
#[derive(Debug)]
pub(crate) struct Destination {
    out: File,
    /// The file that takes its name when it is complete; None for a stream.
    publish: Option<Publish>,
}

#[derive(Debug)]
struct Publish {
    target: PathBuf,
    /// The complete file's name before it takes that of `target`.
    temporary: PathBuf,
    /// Whether the file has that name already: the file system cannot make one without a name.
    named: bool,
}

impl Destination {
    /// Standard output.
    pub(crate) fn standard_output() -> io::Result<Destination> {
        let out = rustix::io::dup(io::stdout())?;
        Ok(Destination::stream(File::from(out)))
    }

    /// Opens a path. A regular file there stays as it is until [`publish`](Self::publish); anything else is written to
    /// as the data comes.
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
        // Without a name the file vanishes with this process, however that ends. A user who may not read the store may
        // not read its copy.
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

    /// Whether the data goes to a stream.
    pub(crate) fn is_stream(&self) -> bool {
        self.publish.is_none()
    }

    /// Whether the destination would replace the file at `path`.
    pub(crate) fn replaces(&self, path: &Path) -> bool {
        let id = |path: &Path| Some(fs::metadata(path).ok()).map(|status| status.map(identity));
        let publish = self.publish.as_ref();
        publish.is_some_and(|publish| {
            let target = id(&publish.target);
            target.flatten().is_some() && target == id(path)
        })
    }

    /// Writes the file to the disk and gives it its name. Nothing for a stream.
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
            // The export has failed already; a file that cannot be removed either says nothing more.
            let _ = fs::remove_file(&publish.temporary);
        }
    }
}

fn identity(status: fs::Metadata) -> (u64, u64) {
    (status.dev(), status.ino())
}

/// The regular or missing file that a path leads to, through symbolic links; None where it leads to something that must
/// be written to as it is: a device, a pipe, a socket, or a descriptor of some process under `/proc`.
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
