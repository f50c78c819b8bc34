//! `undercroft serve`.

use std::process::ExitCode;
use std::thread;

use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use undercroft_commands::config::{STORED, store_value, stored_value};
use undercroft_server::{Options, Server};

use crate::arguments::Serve;
use crate::failure::{Failure, Outcome, at};
use crate::settings::Settings;
use crate::size::human;
use crate::store;

pub(crate) fn run(arguments: &Serve) -> Outcome {
    let settings = Settings::read(arguments)?;
    let store = store::open_or_create(&settings.store, settings.capacity)?;
    let config = settings.config;
    for name in STORED {
        let access = store.access();
        if settings.stored.contains(&name) {
            store_value(&access, name, &config.value(name))?;
        } else if let Some(value) = stored_value(&access, name) {
            config.set_at_start(name, &value).map_err(Failure::new)?;
        }
    }
    let path = store.path().display().to_string();
    let limit = match store.max_memory() {
        0 => "no limit of memory".to_owned(),
        bytes => format!("{} of memory at most", human(bytes)),
    };
    let options = Options {
        threads: settings.threads,
        config_file: config_file(arguments),
    };
    // Before any thread starts, so that a signal cannot come in between and end the process uncleanly.
    let mut signals = Signals::new([SIGINT, SIGTERM]).map_err(at("preparing for signals"))?;
    let server = Server::bind(store, config, options).map_err(Failure::new)?;
    eprintln!(
        "undercroft {} serves {path} on {}\n{}, {limit}; Ctrl-C or SIGTERM ends it, the data stays",
        env!("CARGO_PKG_VERSION"),
        server.addresses().join(" and "),
        crate::size::counted(server.threads() as u64, "thread"),
    );
    let handle = server.handle();
    let listener = signals.handle();
    let waiting = thread::spawn(move || {
        for signal in signals.forever() {
            eprintln!(
                "undercroft: {}: stopping",
                if signal == SIGINT {
                    "interrupted"
                } else {
                    "terminated"
                }
            );
            handle.stop();
        }
    });
    let result = server.run();
    listener.close();
    // It only waits for signals; a panic there would have been printed.
    let _ = waiting.join();
    result.map_err(Failure::new)?;
    Ok(ExitCode::SUCCESS)
}

/// The configuration file by its whole path, as INFO shows it.
fn config_file(arguments: &Serve) -> String {
    let path = arguments.config.as_deref();
    path.map_or(String::new(), |path| {
        let whole = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
        whole.display().to_string()
    })
}
