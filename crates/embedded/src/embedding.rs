//! Implements the commands' interface to a process that embeds a store, which has a configuration
//! but no connections.

use std::time::Duration;

use undercroft_commands::config::{Config, DURABLE, Parameter, STORED, Value};
use undercroft_commands::context::{Connections, Control, Host, Inbox, Interpreter, Process};
use undercroft_commands::scripts::ScriptLimits;

/// The time after which a script is aborted and rolled back. If scripts ran longer, waiting
/// processes would fail with an error.
const SCRIPT_TIME: Duration = Duration::from_secs(5);
/// The time after which a script that runs in an event loop is restarted outside the loop.
const IMPATIENT_TIME: Duration = Duration::from_millis(5);
const LIMITS: ScriptLimits = ScriptLimits {
    memory: 256 << 20,
    time: Some(SCRIPT_TIME),
    shared_thread_time: None,
    impatient_time: Some(IMPATIENT_TIME),
};

/// Returns the script interpreter, if the build includes one.
fn interpreter() -> Option<&'static dyn Interpreter> {
    #[cfg(feature = "scripts")]
    return Some(undercroft_scripts::interpreter());
    #[cfg(not(feature = "scripts"))]
    return None;
}

/// A program that embeds a store without running a server.
pub struct Embedding {
    process: Process,
    /// Whether the process exits after a single command.
    is_passing: bool,
}

impl Embedding {
    /// Returns an embedding with the default configuration.
    pub fn new() -> Embedding {
        Embedding {
            process: Process::new(Config::new(), 1).with_interpreter(interpreter(), LIMITS),
            is_passing: false,
        }
    }

    /// Returns an embedding for a process that exits after a single command. CONFIG SET is refused
    /// for parameters that belong to the process rather than to the store.
    pub fn passing() -> Embedding {
        Embedding {
            is_passing: true,
            ..Embedding::new()
        }
    }

    /// Returns the state of the process.
    pub fn process(&self) -> &Process {
        &self.process
    }

    /// Returns the process's interface for commands.
    pub fn host(&self) -> Host<'_> {
        Host::of(&self.process, self)
    }

    /// Returns the process's interface for commands, like [`host`](Self::host), with a separate
    /// inbox for messages and items.
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
        // Only a server has replicas that it could count.
        let is_servers = |(parameter, value): &&(&'static Parameter, Value)| {
            let is_count = parameter.name == "min-replicas-to-write";
            let wants_replicas = is_count && *value != Value::Integer(0);
            // 0 ends what a server has required of all processes.
            let is_stored =
                STORED.contains(&parameter.name) || DURABLE.contains(&parameter.name) || is_count;
            wants_replicas || self.is_passing && !is_stored
        };
        match changes.iter().find(is_servers) {
            Some((parameter, _)) => Err((
                parameter,
                "it needs a server, and the store is embedded in this process".to_owned(),
            )),
            _ => Ok(()),
        }
    }
}
