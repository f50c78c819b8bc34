//! The process that embeds a store, as commands see it: no connections, and a configuration of its own.

use std::time::Duration;

use undercroft_commands::config::{Config, Parameter, STORED, Value};
use undercroft_commands::context::{Connections, Control, Host, Inbox, Interpreter, Process};
use undercroft_commands::scripts::ScriptLimits;

/// A script that runs longer would have others give up who wait behind it: it is ended, and undone.
const SCRIPT_TIME: Duration = Duration::from_secs(5);
/// A script of an event loop that runs longer is started anew beside the loop.
const IMPATIENT_TIME: Duration = Duration::from_millis(5);
const LIMITS: ScriptLimits = ScriptLimits {
    memory: 256 << 20,
    time: Some(SCRIPT_TIME),
    shared_thread_time: None,
    impatient_time: Some(IMPATIENT_TIME),
};

/// What runs scripts, where the build has it.
fn interpreter() -> Option<&'static dyn Interpreter> {
    #[cfg(feature = "scripts")]
    return Some(undercroft_scripts::interpreter());
    #[cfg(not(feature = "scripts"))]
    return None;
}

/// A process without a server: a program that embeds the store.
pub struct Embedding {
    process: Process,
    /// Whether it runs one command and ends.
    is_passing: bool,
}

impl Embedding {
    /// A process with the default configuration.
    pub fn new() -> Embedding {
        Embedding {
            process: Process::new(Config::new(), 1).with_interpreter(interpreter(), LIMITS),
            is_passing: false,
        }
    }

    /// A process that runs one command and ends: what CONFIG SET would change in it, and not in the store, is refused.
    pub fn passing() -> Embedding {
        Embedding {
            is_passing: true,
            ..Embedding::new()
        }
    }

    /// What belongs to the process.
    pub fn process(&self) -> &Process {
        &self.process
    }

    /// The process as commands see it.
    pub fn host(&self) -> Host<'_> {
        Host::of(&self.process, self)
    }

    /// [`host`](Self::host) for a connection that messages and items reach in its own way.
    pub fn host_with<'a>(&'a self, inbox: &'a dyn Inbox) -> Host<'a> {
        Host {
            inbox,
            ..self.host()
        }
    }
}

impl Default for Embedding {
    fn default() -> Self {
        Embedding::new()
    }
}

impl Connections for Embedding {}

impl Inbox for Embedding {}

impl Control for Embedding {
    fn apply(
        &self,
        changes: &[(&'static Parameter, Value)],
    ) -> Result<(), (&'static Parameter, String)> {
        // The typed calls of a program do not look for replicas: a promise that its writes have some would not be kept.
        let is_servers = |(parameter, value): &&(&'static Parameter, Value)| {
            let wants_replicas =
                parameter.name == "min-replicas-to-write" && *value != Value::Integer(0);
            wants_replicas || self.is_passing && !STORED.contains(&parameter.name)
        };
        match changes.iter().find(is_servers) {
            Some((parameter, _)) => Err((
                parameter,
                "it belongs to a server, and this is none".to_owned(),
            )),
            _ => Ok(()),
        }
    }
}
