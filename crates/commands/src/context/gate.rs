//! The gate that every command passes before its handler runs.
//!
//! A handler runs only through a [`Permit`], and only [`Context::permit`] creates permits, after it
//! has checked the rights of the connection's user. So no caller can forget the check: the commands
//! of clients, of transactions and of scripts all pass here. A connection whose user may do
//! everything passes after the test of one flag.

use super::{Context, Handler};
use crate::arguments::CommandError;
use crate::failure::{Failure, Outcome};
use crate::reply::Reply;
use crate::session::{Moment, Tracking};
use crate::table::{self, Command};
use crate::users::{Denial, DeniedCall, Reason, check, check_reading_any_key};

/// The handlers of all commands and subcommands, by command number. `execute`, a layer above the
/// handlers, defines the table.
pub(crate) struct Handlers([Handler; table::COUNT]);

impl Handlers {
    pub(crate) const fn new(handlers: [Handler; table::COUNT]) -> Handlers {
        Handlers(handlers)
    }
}

/// The right to run one command with these arguments.
pub(crate) struct Permit<'c> {
    command: &'static Command,
    arguments: &'c [&'c [u8]],
}

/// A command that the user of the connection may not run.
pub(crate) struct Refusal {
    denial: Denial,
    command: &'static Command,
    /// The call, for the log.
    pub(crate) call: DeniedCall,
}

impl Refusal {
    /// Returns the error reply of a command that a client has sent.
    pub(crate) fn error(&self) -> CommandError {
        match self.denial {
            Denial::Command => CommandError::new(format!(
                "NOPERM this user has no permissions to run the '{}' command",
                self.command.name
            )),
            Denial::Key(_) => CommandError::fixed(
                "NOPERM this user has no permissions to access one of the keys used as arguments",
            ),
            Denial::Channel(_) => CommandError::fixed(
                "NOPERM this user has no permissions to access one of the channels used as arguments",
            ),
        }
    }

    /// Returns the reply of a queued command that was allowed when it was queued.
    pub(crate) fn error_in_exec(&self) -> CommandError {
        let reason = match self.denial {
            Denial::Command => "no permission to execute the command or subcommand",
            Denial::Key(_) => "no permission to touch the specified keys",
            Denial::Channel(_) => "no permission to access one of the channels used as arguments",
        };
        CommandError::new(format!(
            "NOPERM ACLs rules changed between the moment the transaction was accumulated and the EXEC call. This \
             command is no longer allowed for the following reason: {reason}"
        ))
    }

    /// Returns the error of a command that a script calls.
    pub(crate) fn error_in_script(&self) -> CommandError {
        CommandError::fixed(match self.denial {
            Denial::Command => {
                "ERR The user executing the script can't run this command or subcommand"
            }
            Denial::Key(_) => {
                "ERR The user executing the script can't access at least one of the keys mentioned in the command \
                 arguments"
            }
            Denial::Channel(_) => {
                "ERR The user executing the script can't publish to the channel mentioned in the command"
            }
        })
    }
}

impl Context<'_> {
    /// Returns a permit to run a command, if the user of the connection may run it with these
    /// arguments. The number of arguments must satisfy the command's arity.
    #[inline(always)]
    pub(crate) fn permit<'c>(
        &self,
        command: &'static Command,
        arguments: &'c [&'c [u8]],
    ) -> Result<Permit<'c>, Box<Refusal>> {
        if !self.session.login.is_unrestricted() {
            self.check_rights(command, arguments)?;
        }
        Ok(Permit { command, arguments })
    }

    /// Runs the handler of a permitted command. If the connection tracks keys, the keys are
    /// remembered before they are read, so that no later change is missed.
    #[inline(always)]
    pub(crate) fn run(&mut self, permit: &Permit<'_>, reply: &mut dyn Reply) -> Outcome {
        if self.session.tracking.is_some() {
            self.remember_keys(permit);
        }
        if self.audits {
            return self.run_audited(permit, reply);
        }
        let handler = self.handlers.0[usize::from(permit.command.number)];
        handler(self, permit.arguments, reply)
    }

    #[cold]
    fn remember_keys(&self, permit: &Permit<'_>) {
        // As in Redis, the keys of a script are remembered once it calls a command that reads.
        if permit.command.flags.has(table::Flag::ReadOnly)
            && permit.command.group != table::Group::Scripting
        {
            let keys = permit.command.keys_of(permit.arguments);
            self.remember(&mut keys.map(|(key, _)| key));
        }
    }

    /// Remembers keys that a command has read without remembering them. The keys may have changed since,
    /// so the connection is told about all of them.
    #[cold]
    pub(crate) fn remember_keys_after(&self, command: &Command, arguments: &[&[u8]]) {
        let concerns = |tracking: &Tracking| tracking.broadcasts || tracking.remembers();
        let tracking = self.session.tracking.as_deref();
        if command.may_read() && tracking.is_some_and(concerns) {
            let keys = command.keys_of(arguments);
            let connections = self.host.connections;
            connections.remember_keys(self.session, Moment::After, &mut keys.map(|(key, _)| key));
        }
    }

    /// Remembers keys that the connection is about to read, if it tracks keys.
    pub(crate) fn remember(&self, keys: &mut dyn Iterator<Item = &[u8]>) {
        let tracking = self.session.tracking.as_ref();
        if tracking.is_some_and(|tracking| tracking.remembers()) {
            let moment = match self.store.is_running() {
                true => Moment::InTransaction,
                false => Moment::Before,
            };
            let connections = self.host.connections;
            connections.remember_keys(self.session, moment, keys);
        }
    }

    #[cold]
    fn run_audited(&mut self, permit: &Permit<'_>, reply: &mut dyn Reply) -> Outcome {
        let (command, arguments) = (permit.command, permit.arguments);
        if let Some(refusal) = self.audit_refusal(command) {
            return Err(refusal.into());
        }
        let handler = self.handlers.0[usize::from(command.number)];
        let outcome = handler(self, arguments, reply);
        self.note_outcome(command, arguments, &outcome);
        outcome
    }

    #[cold]
    fn check_rights(
        &self,
        command: &'static Command,
        arguments: &[&[u8]],
    ) -> Result<(), Box<Refusal>> {
        let denial = match self.session.login.user() {
            Some(user) => check(user, command, arguments).err(),
            // The user is not known yet, so the connection may only log in.
            None => (!command.flags.has(table::Flag::NoAuth)).then_some(Denial::Command),
        };
        let Some(denial) = denial else {
            return Ok(());
        };
        let (reason, object) = match denial {
            Denial::Command => (Reason::Command, command.name.as_bytes()),
            Denial::Key(place) => (Reason::Key, arguments[place]),
            Denial::Channel(place) => (Reason::Channel, arguments[place]),
        };
        let user = self.session.login.user().map(|user| user.name());
        let call = self.denied(reason, object, user.unwrap_or_default(), arguments);
        Err(Box::new(Refusal {
            denial,
            command,
            call,
        }))
    }

    /// Returns whether SORT may read keys that its arguments do not name.
    pub(crate) fn may_read_any_key(&self, arguments: &[&[u8]]) -> bool {
        let login = &self.session.login;
        if login.is_unrestricted() {
            return true;
        }
        let command = table::resolve_name(arguments).ok();
        match (login.user(), command) {
            (Some(user), Some(command)) => check_reading_any_key(user, command, arguments),
            _ => false,
        }
    }

    /// Describes a denied call for the log.
    pub(crate) fn denied(
        &self,
        reason: Reason,
        object: &[u8],
        user: &[u8],
        arguments: &[&[u8]],
    ) -> DeniedCall {
        let now = self.host.now_microseconds() / 1000;
        let mut info = self.session.info(now);
        info.arguments = arguments.iter().map(|argument| argument.len()).sum();
        let place = match () {
            () if self.scripted => "lua",
            () if self.session.transaction.queue.is_some() => "multi",
            () => "toplevel",
        };
        DeniedCall {
            reason,
            context: place,
            object: object.to_vec(),
            user: user.to_vec(),
            client: info.to_string(),
            event: self.denied_event(reason, user, arguments),
        }
    }

    /// Adds a denied call to the log. Within a transaction, which can be rolled back and run again,
    /// the call is added after the commit.
    #[cold]
    pub(crate) fn note_denied(&mut self, call: DeniedCall) {
        match self.store.is_running() {
            true => self.lap.denied.push(call),
            false => self.log_denied(call),
        }
    }

    /// Adds a denied call to the log immediately.
    #[cold]
    pub(crate) fn log_denied(&self, mut call: DeniedCall) {
        if let Some(event) = call.event.take() {
            self.record(&event);
        }
        const LENGTH: usize = crate::config::Parameter::place("acllog-max-len");
        let length = self.host.config().number_at(LENGTH);
        let now = self.host.now_microseconds() / 1000;
        let log = &self.host.process.acl_log;
        log.add(call, now, usize::try_from(length).unwrap_or(0));
    }

    /// Looks up the user of the connection again, if the users have changed since. Must be called
    /// before each batch of commands. The connection [has ended](crate::session::Login::has_ended) if
    /// its user was deleted. Takes two atomic loads if nothing has changed.
    ///
    /// # Errors
    /// Returns an error if the users cannot be read. No command may run then.
    #[inline]
    pub fn look_up_user(&mut self) -> Result<(), Failure> {
        let users = &self.host.process.users;
        if !self.session.login.is_outdated(users.stamp(&self.store)) {
            return Ok(());
        }
        self.look_up_changed_user()
    }

    /// Logs the connection in as the first user with one of these names that is enabled, without a
    /// password: the names are those in the client's certificate, which has been verified. If there is
    /// no such user, the connection stays as it is, and ACL LOG has an entry, as in Redis 8.6.
    ///
    /// # Errors
    /// Returns an error if the users cannot be read. The connection stays as it is then.
    #[cold]
    pub fn log_in_by_certificate(&mut self, names: &[Vec<u8>]) -> Result<(), CommandError> {
        let users = self.host.process.users.now(self.store);
        let (_, users) = users.map_err(Failure::into_error)?;
        let mut named = names.iter().filter_map(|name| users.find(name));
        if let Some(user) = named.find(|user| user.is_enabled()) {
            self.note_login(user.name(), &[])?;
            self.session.login.log_in(user);
            self.choose_way();
            return Ok(());
        }
        if let Some(name) = names.first() {
            let call = self.denied(Reason::Certificate, name, name, &[]);
            self.log_denied(call);
        }
        Ok(())
    }

    #[cold]
    fn look_up_changed_user(&mut self) -> Result<(), Failure> {
        let (stamp, users) = self.host.process.users.now(self.store)?;
        self.session.login.refresh(&users, stamp);
        self.choose_way();
        Ok(())
    }
}
