//! MONITOR: each command that was run, as a line for the connections that want to see them.
//!
//! ```text
//! +1700000000.123456 [0 127.0.0.1:50000] "SET" "key" "value"
//! ```

use crate::arguments::CommandError;
use crate::context::{Context, HandlerEntry};
use crate::failure::Outcome;
use crate::reply::Reply;
use crate::session::Session;
use crate::table::{Command, Flag};

/// The commands of this file.
pub(crate) const HANDLERS: &[HandlerEntry] = &[("monitor", monitor)];

/// MONITOR.
fn monitor(context: &mut Context<'_>, _: &[&[u8]], reply: &mut dyn Reply) -> Outcome {
    if context.session.multi.is_some() {
        return Err(
            CommandError::fixed("ERR MONITOR isn't allowed for DENY BLOCKING client").into(),
        );
    }
    // As in Redis, the second one is not answered.
    if context.session.monitors {
        return Ok(());
    }
    context
        .host
        .connections
        .monitor(context.session)
        .map_err(CommandError::new)?;
    context.session.monitors = true;
    context.choose_way();
    reply.ok();
    Ok(())
}

/// Whether a command is refused to a connection that monitors: it is none of the clients that a pause holds back, so
/// Redis keeps it from the data.
pub(crate) fn is_refused(session: &Session, command: &Command) -> bool {
    let uses_data =
        |command: &Command| command.may_replicate() || command.flags.has(Flag::ReadOnly);
    session.monitors
        && (uses_data(command) || command.name == "exec" && session.has_queued(uses_data))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::table::find;

    #[test]
    fn who_monitors_is_kept_from_the_data() {
        let mut session = Session::new(1, Some("default".into()), 0);
        let refused = |session: &Session, name: &str| {
            is_refused(session, find(name.as_bytes()).expect("a command"))
        };
        assert!(!refused(&session, "get"));
        session.monitors = true;
        for name in ["get", "set", "publish", "pfcount", "keys"] {
            assert!(refused(&session, name), "{name}");
        }
        for name in ["ping", "subscribe", "exec", "quit", "reset"] {
            assert!(!refused(&session, name), "{name}");
        }
    }
}
