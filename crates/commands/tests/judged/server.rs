//! Serves the commands on a socket, with one thread for each connection. This minimal server is
//! sufficient for the judge, which runs the test cases.

use std::collections::BTreeMap;
use std::io::{BufReader, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;

use tempfile::TempDir;
use undercroft_commands::config::Config;
use undercroft_commands::context::{Connections, Control, Facts, Host, Inbox, Process};
use undercroft_commands::session::{ClientInfo, KillFilter, Login, Session};
use undercroft_commands::{Context, execute};
use undercroft_conformance::client::Address;
use undercroft_conformance::resp;
use undercroft_engine::{Options, Store};

use crate::wire::Wire;

/// A store in shared memory, and a server on a new port that runs its commands.
pub(crate) struct Served {
    shared: Arc<Shared>,
    pub(crate) address: Address,
    /// Stored here because the threads are never joined and so never drop their data.
    _directory: TempDir,
}

struct Shared {
    store: Store,
    process: Process,
    clients: Mutex<BTreeMap<u64, (ClientInfo, TcpStream)>>,
    next: AtomicU64,
}

impl Shared {
    fn clients(&self) -> MutexGuard<'_, BTreeMap<u64, (ClientInfo, TcpStream)>> {
        self.clients.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Connections for Shared {
    fn clients(&self) -> Vec<ClientInfo> {
        self.clients()
            .values()
            .map(|(info, _)| info.clone())
            .collect()
    }
    fn pause(&self, _: i64, _: bool) -> Result<(), String> {
        Ok(())
    }
    fn kill(&self, filter: &KillFilter) -> usize {
        let clients = self.clients();
        let mut killed = 0;
        for (_, socket) in clients.values().filter(|(info, _)| filter.matches(info)) {
            // Ignore the error, because the client may have just closed the connection.
            let _ = socket.shutdown(Shutdown::Both);
            killed += 1;
        }
        killed
    }
}

impl Inbox for Shared {}

impl Control for Shared {
    fn facts(&self) -> Facts {
        Facts {
            connected_clients: self.clients().len() as u64,
            ..Facts::default()
        }
    }
}

impl Served {
    pub(crate) fn start() -> Served {
        let directory = tempfile::tempdir_in("/dev/shm").expect("a directory in shared memory");
        let path = directory.path().join("store");
        let listener = TcpListener::bind("127.0.0.1:0").expect("a spare port");
        let address = listener.local_addr().expect("its address").to_string();
        let config = Config::new();
        // Apply the settings that the judge (the test cases and their runner) expects.
        config
            .set_at_start("maxclients", "12000")
            .expect("a number of clients");
        config
            .set_at_start("enable-debug-command", "yes")
            .expect("a known word");
        let shared = Arc::new(Shared {
            store: Store::create(&path, &Options::default()).expect("a new store"),
            process: Process::new(config, 1),
            clients: Mutex::default(),
            next: AtomicU64::new(1),
        });
        let served = Served {
            shared: Arc::clone(&shared),
            address: Address::Tcp(address),
            _directory: directory,
        };
        thread::spawn(move || {
            for socket in listener.incoming().flatten() {
                let shared = Arc::clone(&shared);
                thread::spawn(move || serve(&shared, socket));
            }
        });
        served
    }

    /// Checks that the store's structures are consistent.
    pub(crate) fn check(&self) {
        let report = self.shared.store.check().expect("the store can be checked");
        assert!(report.problems.is_empty(), "{report:?}");
    }
}

/// Runs the commands of one connection until either side closes it.
fn serve(shared: &Shared, socket: TcpStream) {
    let id = shared.next.fetch_add(1, Ordering::Relaxed);
    let mut session = Session::new(
        id,
        Login::trusted(),
        shared.process.now_microseconds() / 1000,
    );
    // Each connection has a thread, which may run commands that take long.
    session.scripts.has_own_thread = true;
    session.peer.address = socket
        .peer_addr()
        .map_or(String::new(), |at| at.to_string());
    let mut reader = BufReader::new(socket.try_clone().expect("a second handle"));
    let mut writer = socket.try_clone().expect("a third handle");
    let listed = (session.info(0), socket);
    shared.clients().insert(id, listed);
    let mut wire = Wire::default();
    while let Ok(request) = resp::read_reply(&mut reader) {
        let words = request.items().unwrap_or_default().iter();
        let arguments: Vec<&[u8]> = words.filter_map(resp::Reply::bytes).collect();
        let start = wire.out.len();
        let mut context = Context::new(
            &mut session,
            Host::of(&shared.process, shared),
            &shared.store,
        );
        execute(&mut context, &arguments, &mut wire).expect("no lock is held for long");
        if !session.finish_command() {
            wire.out.truncate(start);
        }
        if let Some((info, _)) = shared.clients().get_mut(&id) {
            *info = session.info(shared.process.now_microseconds() / 1000);
        }
        if reader.buffer().is_empty() || session.replies.close_after {
            let sent = writer.write_all(&wire.out);
            wire.out.clear();
            if sent.is_err() || session.replies.close_after {
                break;
            }
        }
    }
    if let Some((_, socket)) = shared.clients().remove(&id) {
        // Ignore the error, because the client may have closed the socket first.
        let _ = socket.shutdown(Shutdown::Both);
    }
}
