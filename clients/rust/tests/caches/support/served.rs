// A server on a store of its own, in this process. Included by tests and by the examples of the documentation, so it
// needs nothing around it.

/// A running server; it ends with the value.
struct Served {
    directory: tempfile::TempDir,
    handle: undercroft_server::Handle,
    thread: Option<std::thread::JoinHandle<()>>,
}

impl Served {
    /// Starts a server on a unix socket.
    #[allow(dead_code)]
    fn start() -> Served {
        Served::start_with(&[])
    }

    /// Starts a server with some parameters of its configuration.
    fn start_with(parameters: &[(&str, &str)]) -> Served {
        let directory = tempfile::tempdir_in("/dev/shm").expect("a directory in shared memory");
        let socket = directory.path().join("socket");
        let config = undercroft_server::default_config();
        let socket = socket.to_str().expect("a path of text");
        for (name, value) in [("port", "0"), ("unixsocket", socket)]
            .iter()
            .chain(parameters)
        {
            config.set_at_start(name, value).expect("a parameter");
        }
        let options = undercroft_server::Options {
            threads: 1,
            ..Default::default()
        };
        let path = directory.path().join("store");
        let store = undercroft_engine::Store::open_or_create(&path, &Default::default());
        let store = store.expect("a store");
        let server = undercroft_server::Server::bind(store, config, options).expect("a server");
        let handle = server.handle();
        let thread = std::thread::spawn(move || server.run().expect("it runs until it is stopped"));
        Served {
            directory,
            handle,
            thread: Some(thread),
        }
    }

    /// Its URL.
    fn url(&self) -> String {
        format!("unix://{}/socket", self.directory.path().display())
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        self.handle.stop();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}
