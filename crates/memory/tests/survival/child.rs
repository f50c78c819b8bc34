//! Child processes that play a role in a test, synchronized by lines sent over pipes.

use std::io::{BufRead, BufReader, Write};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child as Process, ChildStdin, ChildStdout, Command, ExitStatus, Stdio};

const ROLE: &str = "UNDERCROFT_ROLE";
const STORE: &str = "UNDERCROFT_STORE";

/// A role: its name, and the function that a child runs with the path of a store.
pub(crate) type Role = (&'static str, fn(&Path));

/// A child process, which is killed when dropped.
pub(crate) struct Child {
    process: Process,
    input: Option<ChildStdin>,
    output: BufReader<ChildStdout>,
}

impl Child {
    /// Starts this test binary as a child that plays the given role.
    pub(crate) fn start(role: &str, store: &Path) -> Child {
        let program = std::env::current_exe().expect("this test");
        Self::start_by(Command::new(program), role, store)
    }

    /// Like `start`, but uses the given command and adds arguments to it.
    pub(crate) fn start_by(mut command: Command, role: &str, store: &Path) -> Child {
        let mut process = command
            .args(["--exact", "role", "--nocapture", "--test-threads=1"])
            .env(ROLE, role)
            .env(STORE, store)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("a child");
        let input = process.stdin.take();
        let output = BufReader::new(process.stdout.take().expect("a pipe"));
        Child {
            process,
            input,
            output,
        }
    }

    pub(crate) fn pid(&self) -> u32 {
        self.process.id()
    }

    /// Returns the next word that the child sends, or `None` if it has ended.
    pub(crate) fn next(&mut self) -> Option<String> {
        let mut line = String::new();
        loop {
            line.clear();
            if self.output.read_line(&mut line).expect("a pipe") == 0 {
                return None;
            }
            if let Some(said) = line.trim_end().strip_prefix('@') {
                return Some(said.to_owned());
            }
        }
    }

    /// Waits for the child's next word, which must start with `word`. Returns the rest of the word.
    pub(crate) fn expect(&mut self, word: &str) -> String {
        let said = self.next();
        let said = said.unwrap_or_else(|| panic!("the child ended before it said {word}"));
        let rest = said.strip_prefix(word);
        let rest = rest.unwrap_or_else(|| panic!("expected {word}, the child said {said}"));
        rest.trim().to_owned()
    }

    /// Makes the child's call to `listen` return.
    pub(crate) fn tell(&mut self) {
        let input = self.input.as_mut().expect("a pipe");
        input.write_all(b"\n").expect("a listening child");
    }

    pub(crate) fn signal(&self, signal: libc::c_int) {
        // SAFETY: the child has not been waited for, so the signal goes to the child. The call
        // touches no memory.
        let result = unsafe { libc::kill(self.pid() as libc::pid_t, signal) };
        assert_eq!(result, 0, "a signal to the child");
    }

    /// Stops the child and waits until it has stopped.
    pub(crate) fn stop(&self) {
        self.signal(libc::SIGSTOP);
        let mut status = 0;
        // SAFETY: the call waits for a child of this process, and `status` is writable.
        let pid = unsafe { libc::waitpid(self.pid() as i32, &mut status, libc::WUNTRACED) };
        assert_eq!(pid, self.pid() as i32);
        assert!(libc::WIFSTOPPED(status), "the child stopped");
    }

    /// Kills the child and waits until it has ended.
    pub(crate) fn kill(&mut self) {
        self.process.kill().expect("a child");
        let status = self.process.wait().expect("a child");
        assert_eq!(status.signal(), Some(libc::SIGKILL), "{status}");
    }

    /// Waits for the child to end.
    pub(crate) fn end(&mut self) -> ExitStatus {
        drop(self.input.take());
        self.process.wait().expect("a child")
    }

    /// Waits for the child to end, and checks that it was successful.
    pub(crate) fn finish(mut self) {
        let status = self.end();
        assert!(status.success(), "the child ended with {status}");
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        // Both calls fail if the child has already ended.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Returns the role of this process and the path of its store, if it is a child.
pub(crate) fn role() -> Option<(String, PathBuf)> {
    let role = std::env::var(ROLE).ok()?;
    Some((role, std::env::var_os(STORE)?.into()))
}

/// Sends a word to the parent of this child process. Makes one system call and acquires no lock, so
/// it can be called after `fork`.
pub(crate) fn say(word: &str) {
    let line = format!("\n@{word}\n");
    // SAFETY: the buffer is readable for its length.
    let length = unsafe { libc::write(1, line.as_ptr().cast(), line.len()) };
    assert_eq!(length, line.len() as isize, "a whole line");
}

/// Waits in a child process until the parent calls `tell` or ends.
pub(crate) fn listen() {
    let mut byte = 0_u8;
    // SAFETY: the buffer is one writable byte.
    unsafe { libc::read(0, (&raw mut byte).cast(), 1) };
}

/// Makes SIGALRM kill this child process after `seconds` seconds, so that a hang becomes a visible
/// death.
pub(crate) fn limit(seconds: u32) {
    // SAFETY: the call sets a timer of the process and touches no memory.
    unsafe { libc::alarm(seconds) };
}

/// Reports that a test was skipped, in the format that `make test` repeats.
pub(crate) fn skip(test: &str, why: &str) {
    println!("skipped: {test}: {why}");
}
