//! `undercroft serve`.

use std::net::SocketAddr;
use std::process;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::thread;
use std::time::Duration;

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use undercroft_commands::config::{Config, STORED, store_value, stored_value};
use undercroft_engine::Store;
use undercroft_server::{Handle, Options, Server, log};

use crate::arguments::Serve;
use crate::failure::{FAILURE, Failure, Outcome, SUCCESS, at};
use crate::settings::Settings;
use crate::size::human;
use crate::store::{self, Access};

/// How long the end of the server waits for a process that holds a lock.
const PATIENCE: Duration = Duration::from_secs(1);
/// How long commands that run have to come to their ends, once the server is to end.
const GRACE: Duration = Duration::from_secs(5);

pub(crate) fn run(arguments: &Serve) -> Outcome {
    serve(arguments).or_else(|failure| {
        // Signals do not end the process any more, so that it must not wait for somebody to read why it failed.
        log(format_args!("{failure}"));
        Ok(failure.status())
    })
}

fn serve(arguments: &Serve) -> Outcome {
    let settings = Settings::read(arguments)?;
    let store = store::open_or_create(&settings.store, settings.capacity)?;
    let (config, stored) = (settings.config, settings.stored);
    agree(&store, &config, &stored)?;
    if !settings.skipped.is_empty() {
        log(format_args!(
            "the configuration has what is not done here, and was left out: {}",
            settings.skipped.join(", ")
        ));
    }
    let path = store.path().display().to_string();
    // Whichever is reached first.
    let capacity = store.statistics().capacity;
    let limit = match store.max_memory() {
        0 => format!("no limit of memory but the capacity of {}", human(capacity)),
        bytes => format!("{} of memory at most", human(bytes.min(capacity))),
    };
    let options = Options {
        threads: settings.threads,
        config_file: config_file(arguments),
    };
    let asks_nobody =
        config.value("requirepass").text().is_empty() && !config.boolean("protected-mode");
    // The default one waits where nobody reads standard error, and the server would not end.
    std::panic::set_hook(Box::new(|panic| log(format_args!("{panic}"))));
    // Before any thread starts, so that a signal cannot come in between and end the process uncleanly.
    let mut signals =
        Signals::new([SIGHUP, SIGINT, SIGTERM]).map_err(at("preparing for signals"))?;
    let server = Server::bind(store, config, options).map_err(Failure::new)?;
    let (name, capacity) = (settings.store.clone(), settings.capacity);
    server.reopen_by(Box::new(move |config| {
        let opened = store::open_or_create(&name, capacity).and_then(|store| {
            agree(&store, config, &stored)?;
            Ok(store)
        });
        opened.map_err(|failure| failure.to_string())
    }));
    log(format_args!(
        "version {} serves {path} on {}\n{}, {limit}; Ctrl-C or SIGTERM ends it, the data stays",
        env!("CARGO_PKG_VERSION"),
        server.addresses().join(" and "),
        crate::size::counted(server.threads() as u64, "thread"),
    ));
    if server.addresses().into_iter().any(is_open) {
        if server.is_protected() {
            log(format_args!(
                "other machines reach this server but are refused, as no password is set: set one with --requirepass \
                 or UNDERCROFT_REQUIREPASS"
            ));
        } else if asks_nobody {
            log(format_args!(
                "other machines may run every command here, as protected-mode is off and no password is set: set one \
                 with --requirepass or UNDERCROFT_REQUIREPASS"
            ));
        }
    }
    let handle = server.handle();
    let listener = signals.handle();
    let (running, ended) = channel::<()>();
    let waiting = thread::spawn(move || {
        let handle = StopOnEnd(handle);
        for signal in signals.forever() {
            // A terminal that is closed ends no server, and the log is no file that could be opened anew.
            if signal == SIGHUP {
                continue;
            }
            // Nothing that may fail or wait comes before this.
            handle.0.stop();
            log(format_args!(
                "{}: stopping",
                if signal == SIGINT {
                    "interrupted"
                } else {
                    "terminated"
                }
            ));
            if ended.recv_timeout(GRACE) == Err(RecvTimeoutError::Timeout) {
                abandon(&handle.0);
            }
            return;
        }
    });
    let result = server.run();
    drop(running);
    listener.close();
    // It only waits for signals; a panic there would have been printed.
    let _ = waiting.join();
    result.map_err(Failure::new)?;
    sync(&settings.store);
    Ok(SUCCESS)
}

/// Brings the configuration and the settings that live in the store into line: what the command line and the configuration
/// file say goes into the store, which says the rest.
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

/// Ends the process while commands run: one alone can take hours, and clients choose what they send. To the store that
/// is a death as any other.
fn abandon(server: &Handle) -> ! {
    log(format_args!(
        "commands still run after {} seconds: ending in the midst of them, and who comes next undoes what they have \
         begun",
        GRACE.as_secs()
    ));
    server.withdraw();
    process::exit(i32::from(FAILURE))
}

/// Writes the store to the disk, so that it may be opened after the next power cut. A server that cannot do that has
/// ended cleanly all the same.
fn sync(name: &str) {
    let synced = store::open(name, Access::Write).and_then(|store| {
        store.set_patience(PATIENCE);
        Ok(store.sync()?)
    });
    if let Err(error) = synced {
        log(format_args!("the store is not synced: {error}"));
    }
}

/// Whether other machines can reach an address that the server listens on.
fn is_open(address: &str) -> bool {
    let address: Result<SocketAddr, _> = address.parse();
    address.is_ok_and(|address| !address.ip().to_canonical().is_loopback())
}

/// Stops the server where the thread that waits for signals ends: without it nobody could stop it.
struct StopOnEnd(Handle);

impl Drop for StopOnEnd {
    fn drop(&mut self) {
        self.0.stop();
    }
}

/// The configuration file by its whole path, as INFO shows it.
fn config_file(arguments: &Serve) -> String {
    let path = arguments.config.as_deref();
    path.map_or(String::new(), |path| {
        let whole = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
        whole.display().to_string()
    })
}
