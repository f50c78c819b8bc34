//! Runs a server with a temporary store in the current process, for a test or an example.

use std::thread::{JoinHandle, spawn};

use tempfile::TempDir;
use undercroft_engine::{Options, Store};
use undercroft_server::{Handle, Server, default_config};

/// A running server, which stops when the value is dropped.
pub struct Served {
    directory: TempDir,
    handle: Handle,
    thread: Option<JoinHandle<()>>,
}

impl Served {
    /// Starts a server on a Unix socket.
    ///
    /// # Panics
    /// If the server cannot be started.
    pub fn start() -> Served {
        Served::start_with(&[])
    }

    /// Starts a server with the given configuration parameters.
    ///
    /// # Panics
    /// If the server cannot be started.
    pub fn start_with(parameters: &[(&str, &str)]) -> Served {
        Served::start_so(parameters, 1)
    }

    /// Starts a server that serves its connections with several threads.
    ///
    /// # Panics
    /// If the server cannot be started.
    pub fn start_with_threads(threads: usize) -> Served {
        Served::start_so(&[], threads)
    }

    fn start_so(parameters: &[(&str, &str)], threads: usize) -> Served {
        let directory = tempfile::tempdir_in("/dev/shm").expect("a directory in shared memory");
        let socket = directory.path().join("socket");
        let socket = socket.to_str().expect("a path of text");
        let config = default_config();
        let own = [("port", "0"), ("unixsocket", socket)];
        for (name, value) in own.iter().chain(parameters) {
            config.set_at_start(name, value).expect("a parameter");
        }
        let options = undercroft_server::Options {
            threads,
            ..Default::default()
        };
        let path = directory.path().join("store");
        let store = Store::open_or_create(&path, &Options::default()).expect("a store");
        let server = Server::bind(store, config, options).expect("a server");
        let handle = server.handle();
        let thread = spawn(move || server.run().expect("it runs until it is stopped"));
        Served {
            directory,
            handle,
            thread: Some(thread),
        }
    }

    /// Returns the URL of the server.
    pub fn url(&self) -> String {
        format!("unix://{}/socket", self.directory.path().display())
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        self.handle.stop();
        if let Some(thread) = self.thread.take() {
            // If the thread panicked, the panic message is already printed.
            let _ = thread.join();
        }
    }
}
