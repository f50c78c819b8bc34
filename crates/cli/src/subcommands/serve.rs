//! Implements `undercroft serve`.

use std::net::SocketAddr;
use std::process;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::thread;
use std::time::Duration;

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use undercroft_commands::config::{Config, STORED, store_value, stored_value};
use undercroft_engine::{Durability, Store, Terms};
use undercroft_server::{Handle, Options, Server, log};

use crate::arguments::Serve;
use crate::arguments::writes::Writes;
use crate::failure::{FAILURE, Failure, Outcome, SUCCESS, at};
use crate::service::{self, Service};
use crate::settings::Settings;
use crate::size::human;
use crate::store::{self, Access};
use crate::subcommands::durability::IN_MEMORY;

/// The time that the server waits during shutdown for a process that holds a lock.
const PATIENCE: Duration = Duration::from_secs(1);
/// The time that running commands have to finish once the server is shutting down.
const GRACE: Duration = Duration::from_secs(5);

pub(crate) fn run(arguments: &Serve) -> Outcome {
    serve(arguments).or_else(|failure| {
        // Signals no longer terminate the process at this point, so it must not block while writing
        // the reason for its failure.
        log(format_args!("{failure}"));
        Ok(failure.status())
    })
}

fn serve(arguments: &Serve) -> Outcome {
    let settings = Settings::read(arguments)?;
    let service = Service::of(&settings.config);
    let inherited = service::sockets()?;
    let terms = settings.terms();
    let snapshot = settings.snapshot()?;
    let store = store::open_or_create_on(&settings.store, &terms)?;
    let (config, stored) = (settings.config, settings.stored);
    agree(&store, &config, &stored)?;
    keep_durable(&store, &terms)?;
    if !settings.skipped.is_empty() {
        log(format_args!(
            "the configuration has settings that Undercroft does not support; ignored: {}",
            settings.skipped.join(", ")
        ));
    }
    if store.journal_is_in_memory() {
        log(format_args!("{IN_MEMORY}"));
    }
    let path = store.path().display().to_string();
    let journal = store.journal().map_or(String::new(), |journal| {
        let (mode, folder) = (journal.durability.name(), journal.folder.display());
        format!(", durability {mode} with the journal in {folder}")
    });
    // The effective memory limit is the smaller of `maxmemory` and the capacity.
    let capacity = store.statistics().capacity;
    let limit = match store.max_memory() {
        0 => format!("no memory limit except the capacity of {}", human(capacity)),
        bytes => format!("at most {} of memory", human(bytes.min(capacity))),
    };
    let options = Options {
        threads: settings.threads,
        config_file: config_file(arguments),
        journal: terms.journal.clone(),
        snapshot,
        forwards_writes: arguments.writes == Writes::Forward,
        source: settings.source.clone(),
        inherited,
        renames: settings.renames.clone(),
        users: settings.users.clone(),
    };
    // Replace the default panic hook, which blocks if standard error is a full pipe and would
    // prevent the server from exiting.
    std::panic::set_hook(Box::new(|panic| log(format_args!("{panic}"))));
    // Register the signal handlers before any thread starts, so that an early signal cannot
    // terminate the process uncleanly.
    let mut signals =
        Signals::new([SIGHUP, SIGINT, SIGTERM]).map_err(at("preparing for signals"))?;
    let server = Server::bind(store, config, options).map_err(Failure::new)?;
    let name = settings.store.clone();
    server.reopen_by(Box::new(move |config| {
        let opened = store::open_or_create_on(&name, &terms).and_then(|store| {
            agree(&store, config, &stored)?;
            keep_durable(&store, &terms)?;
            Ok(store)
        });
        opened.map_err(|failure| failure.to_string())
    }));
    server.enter_sandbox().map_err(Failure::new)?;
    log(format_args!(
        "version {} serves {path} on {}\n{}, {limit}{journal}; stop it with Ctrl-C or SIGTERM, the data \
         stays",
        env!("CARGO_PKG_VERSION"),
        server.addresses().join(" and "),
        crate::size::counted(server.threads() as u64, "thread"),
    ));
    if server.addresses().into_iter().any(is_open) {
        if server.is_protected() {
            log(format_args!(
                "other machines can reach this server but are refused because no password is set: \
                 set one with --requirepass or UNDERCROFT_REQUIREPASS"
            ));
        } else if server.needs_no_password() {
            log(format_args!(
                "other machines can run every command here because protected-mode is off and no \
                 password is set: set one with --requirepass or UNDERCROFT_REQUIREPASS"
            ));
        }
    }
    let status = format!("Serving {path} on {}", server.addresses().join(" and "));
    service.ready(&status);
    let handle = server.handle();
    let watched = service.watch(handle.clone());
    let listener = signals.handle();
    let (running, ended) = channel::<()>();
    let name = settings.store.clone();
    let waiting = thread::spawn(move || {
        let handle = StopOnEnd(handle);
        for signal in signals.forever() {
            // Closing a terminal must not stop a server.
            if signal == SIGHUP {
                service.reloading();
                handle.0.reopen_audit_log();
                handle.0.reload_certificates();
                service.ready(&status);
                continue;
            }
            // Stop the server first, because the following steps can fail or block.
            handle.0.stop();
            service.stopping();
            log(format_args!(
                "{}: stopping",
                if signal == SIGINT {
                    "interrupted"
                } else {
                    "terminated"
                }
            ));
            if ended.recv_timeout(GRACE) == Err(RecvTimeoutError::Timeout) {
                abandon(&handle.0, &name);
            }
            return;
        }
    });
    let result = server.run();
    service.stopping();
    drop((running, watched));
    listener.close();
    // Ignore the error: the thread only waits for signals, and if it panicked, the panic has
    // already been logged.
    let _ = waiting.join();
    result.map_err(Failure::new)?;
    sync(&settings.store);
    Ok(SUCCESS)
}

/// Synchronizes the configuration with the settings in the store. Values from the command line and
/// the configuration file are written to the store, and all other values are read from it.
fn agree(store: &Store, config: &Config, stored: &[&'static str]) -> Result<(), Failure> {
    let access = store.access();
    for name in STORED {
        if stored.contains(&name) {
            store_value(&access, name, &config.value(name))?;
        } else if let Some(value) = stored_value(&access, name) {
            config.set_at_start(name, &value).map_err(Failure::new)?;
        }
    }
    Ok(())
}

/// Changes the durability mode of a store to the requested one. A journal is never ended here: its
/// files are the only copy of the data that a failure of the machine leaves.
fn keep_durable(store: &Store, terms: &Terms) -> Result<(), Failure> {
    let (Some(wanted), Some(journal)) = (terms.durability, store.journal()) else {
        return Ok(());
    };
    if wanted == Durability::None {
        log(format_args!(
            "the store keeps its journal in {}; to end the journal and remove its files: \
             undercroft durability {} none",
            journal.folder.display(),
            store.path().display()
        ));
    } else if wanted != journal.durability {
        store.set_durability(wanted, terms)?;
    }
    if let Some(folder) = &terms.journal
        && *folder != journal.folder
    {
        log(format_args!(
            "the journal of the store stays in {}; the requested folder {} is used only for a new \
             journal",
            journal.folder.display(),
            folder.display()
        ));
    }
    Ok(())
}

/// Exits even though commands are still running. A single command can take hours, and clients
/// choose the commands. For the store, this exit is like any other death of a process.
fn abandon(server: &Handle, name: &str) -> ! {
    log(format_args!(
        "commands are still running after {} seconds: stopping now; the next process to use the \
         store rolls back their unfinished writes",
        GRACE.as_secs()
    ));
    server.withdraw();
    make_durable(name);
    process::exit(i32::from(FAILURE))
}

/// Makes all changes durable if the store has a journal. A failure is logged.
fn make_durable(name: &str) {
    let durable = store::open(name, Access::Write).and_then(|store| Ok(store.make_durable()?));
    if let Err(error) = durable {
        log(format_args!("the last changes may not be durable: {error}"));
    }
}

/// Syncs the store to disk, so that it can be opened after a power cut. A failure is logged, but
/// does not affect the exit status of the server.
fn sync(name: &str) {
    make_durable(name);
    let synced = store::open(name, Access::Write).and_then(|store| {
        store.set_patience(PATIENCE);
        Ok(store.sync()?)
    });
    if let Err(error) = synced {
        log(format_args!("the store is not synced: {error}"));
    }
}

/// Returns whether a listening address is reachable from other machines.
fn is_open(address: &str) -> bool {
    let address: Result<SocketAddr, _> = address.parse();
    address.is_ok_and(|address| !address.ip().to_canonical().is_loopback())
}

/// Stops the server when the signal thread ends, because no signal could stop the server after
/// that.
struct StopOnEnd(Handle);

impl Drop for StopOnEnd {
    fn drop(&mut self) {
        self.0.stop();
    }
}

/// Returns the absolute path of the configuration file, which INFO shows.
fn config_file(arguments: &Serve) -> String {
    let path = arguments.config.as_deref();
    path.map_or(String::new(), |path| {
        let whole = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
        whole.display().to_string()
    })
}
