//! Runs a child process one machine instruction at a time.

use std::ops::Range;
use std::process::{Child, Command};

use nix::errno::Errno;
use nix::sys::ptrace;
use nix::sys::signal::{Signal, raise};
use nix::sys::wait::{WaitStatus, waitpid};
use nix::unistd::Pid;

/// The exit status of a child that is not permitted to be traced.
const NOT_ALLOWED: i32 = 77;

/// A traced child process, which is stopped between steps. It is killed when the value is dropped.
#[derive(Debug)]
pub struct Traced {
    child: Child,
    pid: Pid,
    /// The addresses of the kernel's functions in the child (vDSO), for example of its clocks.
    kernel: Range<u64>,
    /// Whether the child still has to be killed and waited for.
    alive: bool,
}

/// The outcome of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// The child executed one instruction.
    Done,
    /// The child reached the next [`marker`].
    Marker,
}

/// Makes the parent of the calling process its tracer. Exits if tracing is not permitted.
pub fn trace_me() {
    if let Err(error) = ptrace::traceme() {
        eprintln!("ptrace: {error}");
        std::process::exit(NOT_ALLOWED);
    }
}

/// Stops the calling process, so that its tracer notices that it has reached this point.
pub fn marker() {
    raise(Signal::SIGSTOP).expect("a process may stop itself");
}

impl Traced {
    /// Starts a child that calls [`trace_me`], and waits for its first [`marker`]. The error states
    /// why the child cannot be traced. All other calls must be made by the thread that called this
    /// function.
    ///
    /// # Panics
    /// Panics if the child cannot be started, or ends before its marker.
    pub fn start(command: &mut Command) -> Result<Traced, String> {
        let child = command.spawn().expect("the child program starts");
        let pid = Pid::from_raw(child.id() as i32);
        let mut traced = Traced {
            child,
            pid,
            kernel: 0..0,
            alive: true,
        };
        match waitpid(pid, None).expect("a child to wait for") {
            WaitStatus::Stopped(_, Signal::SIGSTOP) => {}
            WaitStatus::Exited(_, NOT_ALLOWED) => {
                traced.alive = false;
                return Err("a process may not be traced by its parent here".into());
            }
            other => panic!("expected the child to stop at its marker, got {other:?}"),
        }
        ptrace::setoptions(pid, ptrace::Options::PTRACE_O_EXITKILL)
            .expect("the child stands still");
        traced.kernel = kernel_functions(pid);
        Ok(traced)
    }

    /// Runs one instruction of the child, or a whole function of the kernel (vDSO): its clocks start
    /// again when the kernel's timer ticks, so they never end if each instruction takes longer than
    /// a fraction of a tick.
    ///
    /// # Panics
    /// Panics if the child ends, or if it receives a signal other than that of its own marker.
    pub fn step(&mut self) -> Step {
        loop {
            let step = self.step_once();
            if step == Step::Marker || !self.kernel.contains(&instruction_at(self.pid)) {
                return step;
            }
        }
    }

    fn step_once(&mut self) -> Step {
        match ptrace::step(self.pid, None) {
            Ok(()) => {}
            Err(error) => panic!("expected to step, got {error}"),
        }
        loop {
            match waitpid(self.pid, None) {
                Ok(WaitStatus::Stopped(_, Signal::SIGTRAP)) => return Step::Done,
                Ok(WaitStatus::Stopped(_, Signal::SIGSTOP)) => return Step::Marker,
                Err(Errno::EINTR) => {}
                other => panic!("expected one instruction or a marker, got {other:?}"),
            }
        }
    }

    /// Kills the child, and waits until it has ended.
    pub fn kill(mut self) {
        self.end();
    }

    fn end(&mut self) {
        if std::mem::take(&mut self.alive) {
            // Both calls fail only if the child is already dead.
            let _ = self.child.kill();
            let _ = self.child.wait();
        }
    }
}

/// Returns the addresses of the kernel's functions in a process, or an empty range if it has none.
fn kernel_functions(pid: Pid) -> Range<u64> {
    let maps = std::fs::read_to_string(format!("/proc/{pid}/maps")).expect("a living child");
    let range = maps
        .lines()
        .find(|line| line.ends_with("[vdso]"))
        .and_then(|line| line.split_once(' ')?.0.split_once('-'));
    let parse = |address| u64::from_str_radix(address, 16).expect("a hexadecimal address");
    range.map_or(0..0, |(start, end)| parse(start)..parse(end))
}

/// Returns the address of the next instruction of a stopped process.
fn instruction_at(pid: Pid) -> u64 {
    let registers = ptrace::getregs(pid).expect("the child stands still");
    #[cfg(target_arch = "x86_64")]
    return registers.rip;
    #[cfg(target_arch = "aarch64")]
    return registers.pc;
}

impl Drop for Traced {
    fn drop(&mut self) {
        self.end();
    }
}
