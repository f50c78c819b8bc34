//! Small file systems for tests, each in an image file that is mounted in a mount namespace of its own.
//! A copy of the image is what a power cut leaves: it lacks everything that was not synced.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;

use rustix::fs::{FallocateFlags, fallocate};

/// Set in the process that has its own mounts.
const OWN_MOUNTS: &str = "UNDERCROFT_OWN_MOUNTS";
/// The number of copies of an image to make until two are equal.
const COPIES: usize = 100;

/// A kind of file system.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Kind {
    pub(crate) name: &'static str,
    /// The size of the volume in MiB. It is close to the minimum.
    size: u64,
    /// Further options of `mkfs`.
    options: &'static [&'static str],
}

pub(crate) const TMPFS: Kind = Kind {
    name: "tmpfs",
    size: 64,
    options: &[],
};
pub(crate) const EXT4: Kind = Kind {
    name: "ext4",
    size: 64,
    options: &["-q"],
};
pub(crate) const XFS: Kind = Kind {
    name: "xfs",
    size: 300,
    options: &["-q"],
};
pub(crate) const BTRFS: Kind = Kind {
    name: "btrfs",
    size: 192,
    options: &["-q", "--mixed"],
};

/// A mounted file system.
pub(crate) struct Volume {
    pub(crate) kind: Kind,
    pub(crate) root: PathBuf,
    image: PathBuf,
}

fn text(path: &Path) -> &str {
    path.to_str().expect("ASCII")
}

/// Runs a program. Returns its errors if it fails.
fn run(program: &str, arguments: &[&str]) -> Result<(), String> {
    match Command::new(program).args(arguments).output() {
        Ok(output) if output.status.success() => Ok(()),
        Ok(output) => Err(String::from_utf8_lossy(&output.stderr).trim().to_owned()),
        Err(error) => Err(format!("{program}: {error}")),
    }
}

fn must(program: &str, arguments: &[&str]) {
    if let Err(error) = run(program, arguments) {
        panic!("{program} {arguments:?}: {error}");
    }
}

impl Volume {
    /// Makes and mounts a file system in a directory.
    fn new(kind: Kind, directory: &Path) -> Result<Volume, String> {
        let (image, root) = (directory.join("image"), directory.join("volume"));
        fs::create_dir(&root).map_err(|error| error.to_string())?;
        let size = kind.size << 20;
        if kind.name == "tmpfs" {
            let limit = format!("size={size}");
            run(
                "mount",
                &["-t", "tmpfs", "-o", &limit, "tmpfs", text(&root)],
            )?;
        } else {
            let file = File::create(&image).map_err(|error| error.to_string())?;
            file.set_len(size).map_err(|error| error.to_string())?;
            let arguments = [kind.options, &[text(&image)]].concat();
            run(&format!("mkfs.{}", kind.name), &arguments)?;
            run("mount", &["-o", "loop", text(&image), text(&root)])?;
        }
        Ok(Volume { kind, root, image })
    }

    pub(crate) fn path(&self, name: &str) -> String {
        text(&self.root.join(name)).to_owned()
    }

    /// Remounts the file system as read-only (`ro`) or writable (`rw`).
    pub(crate) fn remount(&self, how: &str) {
        let options = format!("remount,{how}");
        must("mount", &["-o", &options, text(&self.root)]);
    }

    /// Uses all free space.
    pub(crate) fn fill(&self) {
        let file = File::create(self.root.join("ballast")).expect("a file");
        let (mut length, mut some) = (0, 64 << 20);
        while some >= 4096 {
            match fallocate(&file, FallocateFlags::empty(), length, some) {
                Ok(()) => length += some,
                Err(_) => some /= 2,
            }
        }
        // Small files take what remains.
        for number in 0..1000 {
            let path = self.root.join(format!("ballast-{number}"));
            if fs::write(path, [7; 4096]).is_err() {
                break;
            }
        }
    }

    /// Frees the space that was used by [`fill`](Self::fill).
    pub(crate) fn free(&self) {
        for entry in fs::read_dir(&self.root).expect("a volume").flatten() {
            if entry.file_name().to_string_lossy().starts_with("ballast") {
                fs::remove_file(entry.path()).expect("it exists");
            }
        }
    }

    /// Copies the image as it is. What was written to the file system but not synced is not in it.
    /// Returns false for a file system without an image.
    pub(crate) fn copy(&self) -> bool {
        if !self.image.exists() {
            return false;
        }
        let copies = ["one", "two"].map(|name| self.image.with_extension(name));
        let [one, two] = copies.each_ref().map(|path| text(path));
        // Only a copy during which nothing was written is of one moment.
        for _ in 0..COPIES {
            for copy in [one, two] {
                must("cp", &["--sparse=always", text(&self.image), copy]);
            }
            if run("cmp", &["--quiet", one, two]).is_ok() {
                fs::remove_file(two).expect("just made");
                return true;
            }
        }
        panic!("the image of {} changes all the time", self.kind.name);
    }

    /// Replaces the file system by the copy of its image. No process may be using it.
    pub(crate) fn go_back(&self) {
        must("umount", &[text(&self.root)]);
        fs::rename(self.image.with_extension("one"), &self.image).expect("a copy");
        must(
            "mount",
            &["-o", "loop", text(&self.image), text(&self.root)],
        );
        // The removal of the ballast was not synced, so the ballast can be there again.
        self.free();
    }
}

impl Drop for Volume {
    fn drop(&mut self) {
        // A process that still uses the volume after a failure keeps it mounted, until the namespace
        // ends with this process.
        let _ = run("umount", &[text(&self.root)]);
    }
}

/// Runs the test with the given name again, in a mount namespace of its own, and there calls `body`
/// with a volume. Skips the test if that is not permitted.
pub(crate) fn with_volume(test: &str, kind: Kind, body: impl FnOnce(&Volume, &Path)) {
    let title = format!("{test} with {}", kind.name);
    if std::env::var_os(OWN_MOUNTS).is_none() {
        if let Err(error) = run("unshare", &["--mount", "true"]) {
            println!("skipped: {title}: {error}");
            return;
        }
        let status = Command::new("unshare")
            .arg("--mount")
            .arg(std::env::current_exe().expect("this test"))
            .args(["--exact", &format!("file_systems::{test}"), "--nocapture"])
            .env(OWN_MOUNTS, "1")
            .status();
        assert!(status.is_ok_and(|status| status.success()), "{title}");
        return;
    }
    let directory = tempfile::tempdir_in("/dev/shm").expect("a directory in shared memory");
    match Volume::new(kind, directory.path()) {
        Ok(volume) => body(&volume, directory.path()),
        Err(error) => println!("skipped: {title}: {error}"),
    }
}
