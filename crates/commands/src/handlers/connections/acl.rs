//! Implements ACL, which manages the users in the store and their rights.

use std::path::PathBuf;

use crate::arguments::{CommandError, c_string, integer, is_keyword};
use crate::context::{Context, HandlerEntry};
use crate::failure::{Failure, Outcome};
use crate::handlers::server::persistence::take_own_thread;
use crate::reply::Reply;
use crate::table::{Category, resolve_name, with_subcommands};
use crate::users::{
    Denial, NewUsers, Selector, User, UserChange, change, check, is_word, join_selectors,
    read_file, user_to_change, users_of_file, write_file,
};

/// Maps each command in this file to its handler.
pub(crate) const HANDLERS: &[HandlerEntry] = &[
    ("acl|cat", cat),
    ("acl|deluser", deluser),
    ("acl|dryrun", dryrun),
    ("acl|genpass", genpass),
    ("acl|getuser", getuser),
    ("acl|list", list),
    ("acl|load", load),
    ("acl|log", log),
    ("acl|save", save),
    ("acl|setuser", setuser),
    ("acl|users", users),
    ("acl|whoami", whoami),
];

/// Returns whether new selectors may use all channels (`acl-pubsub-default`).
fn all_channels(context: &Context<'_>) -> bool {
    context.host.config().value("acl-pubsub-default").text() == b"allchannels"
}

/// Applies a change of the users to this connection and to all connections of the process.
fn spread(context: &mut Context<'_>) -> Result<(), Failure> {
    context.host.connections.change_users();
    context.look_up_user()?;
    let session = &mut *context.session;
    // As in Redis, the reply to this command is still sent.
    session.replies.close_after |= session.loses_rights();
    Ok(())
}

/// Handles ACL SETUSER.
fn setuser(context: &mut Context<'_>, arguments: &[&[u8]], reply: &mut dyn Reply) -> Outcome {
    let (name, rules) = (arguments[2], &arguments[3..]);
    if !is_word(name) {
        return Err(
            CommandError::fixed("ERR Usernames can't contain spaces or null characters").into(),
        );
    }
    let rules = join_selectors(rules).map_err(|at| {
        let before = "ERR Unmatched parenthesis in acl selector starting at ";
        CommandError::quoting(before, rules[at], ".")
    })?;
    let all_channels = all_channels(context);
    let users = (&context.host.process.users, context.store);
    change(users, |users| {
        let mut user = user_to_change(users, name, all_channels);
        for rule in &rules {
            user.apply(rule, all_channels).map_err(|error| {
                let before = "ERR Error in ACL SETUSER modifier ";
                CommandError::quoting(before, rule, &format!(": {error}"))
            })?;
        }
        let change = UserChange {
            kept: vec![user],
            ..UserChange::default()
        };
        Ok((change, ()))
    })?;
    spread(context)?;
    reply.ok();
    Ok(())
}

/// Handles ACL DELUSER.
fn deluser(context: &mut Context<'_>, arguments: &[&[u8]], reply: &mut dyn Reply) -> Outcome {
    let names = &arguments[2..];
    if names.contains(&&b"default"[..]) {
        return Err(CommandError::fixed("ERR The 'default' user cannot be removed").into());
    }
    let users = (&context.host.process.users, context.store);
    let deleted = change(users, |users| {
        let mut deleted: Vec<Vec<u8>> = Vec::new();
        for name in names {
            if users.find(name).is_some() && !deleted.iter().any(|other| other == name) {
                deleted.push(name.to_vec());
            }
        }
        let count = deleted.len();
        let change = UserChange {
            deleted,
            ..UserChange::default()
        };
        Ok((change, count))
    })?;
    spread(context)?;
    reply.integer(deleted as i64);
    Ok(())
}

/// Handles ACL GETUSER.
fn getuser(context: &mut Context<'_>, arguments: &[&[u8]], reply: &mut dyn Reply) -> Outcome {
    let (_, users) = context.host.process.users.now(context.store)?;
    let Some(user) = users.find(arguments[2]) else {
        reply.null();
        return Ok(());
    };
    reply.map(6);
    reply.bulk(b"flags");
    reply.set(user.flags().count());
    user.flags().for_each(|flag| reply.bulk(flag.as_bytes()));
    reply.bulk(b"passwords");
    let hashes = user.password_hashes();
    reply.array(hashes.len());
    hashes.for_each(|hash| reply.bulk(hash));
    let mut selectors = user.selectors();
    if let Some(root) = selectors.next() {
        write_selector(root, reply);
    }
    reply.bulk(b"selectors");
    reply.array(selectors.clone().count());
    for selector in selectors {
        reply.map(3);
        write_selector(selector, reply);
    }
    Ok(())
}

/// Writes the three fields that describe a selector.
fn write_selector(selector: &Selector, reply: &mut dyn Reply) {
    for (name, rules) in [
        ("commands", selector.command_rules()),
        ("keys", selector.key_rules()),
        ("channels", selector.channel_rules()),
    ] {
        reply.bulk(name.as_bytes());
        reply.bulk(&rules.join(&b' '));
    }
}

/// Handles ACL LIST.
fn list(context: &mut Context<'_>, _: &[&[u8]], reply: &mut dyn Reply) -> Outcome {
    let (_, users) = context.host.process.users.now(context.store)?;
    reply.array(users.all().len());
    users.all().for_each(|user| reply.bulk(&user.definition()));
    Ok(())
}

/// Handles ACL USERS.
fn users(context: &mut Context<'_>, _: &[&[u8]], reply: &mut dyn Reply) -> Outcome {
    let (_, users) = context.host.process.users.now(context.store)?;
    reply.array(users.all().len());
    users.all().for_each(|user| reply.bulk(user.name()));
    Ok(())
}

/// Handles ACL WHOAMI.
fn whoami(context: &mut Context<'_>, _: &[&[u8]], reply: &mut dyn Reply) -> Outcome {
    let name = context.session.login.user().map(|user| user.name());
    reply.bulk_or_null(name);
    Ok(())
}

/// Handles ACL CAT.
fn cat(_: &mut Context<'_>, arguments: &[&[u8]], reply: &mut dyn Reply) -> Outcome {
    match &arguments[2..] {
        [] => {
            reply.array(Category::ALL.len());
            let names = Category::ALL.iter().map(|category| category.name());
            names.for_each(|name| reply.bulk(name.as_bytes()));
        }
        [name] => {
            let mut all = Category::ALL.iter();
            let category = all.find(|category| is_keyword(name, category.name()));
            let Some(category) = category else {
                let name = &name[..name.len().min(128)];
                return Err(CommandError::quoting("ERR Unknown category ", name, "").into());
            };
            let members = with_subcommands().filter(|command| command.categories.has(*category));
            let members: Vec<&str> = members.map(|command| command.name).collect();
            reply.array(members.len());
            members.iter().for_each(|name| reply.bulk(name.as_bytes()));
        }
        _ => return Err(CommandError::subcommand_syntax("acl", arguments[1]).into()),
    }
    Ok(())
}

/// Handles ACL GENPASS.
fn genpass(_: &mut Context<'_>, arguments: &[&[u8]], reply: &mut dyn Reply) -> Outcome {
    const MOST: i64 = 4096;
    let bits = match &arguments[2..] {
        [] => 256,
        [bits] => integer(bits)?,
        _ => return Err(CommandError::subcommand_syntax("acl", arguments[1]).into()),
    };
    if !(1..=MOST).contains(&bits) {
        return Err(CommandError::new(format!(
            "ERR ACL GENPASS argument must be the number of bits for the output password, a positive number up to {MOST}"
        ))
        .into());
    }
    // Each character has four bits.
    let characters = (bits as usize).div_ceil(4);
    let mut bytes = vec![0; characters.div_ceil(2)];
    getrandom::fill(&mut bytes)
        .map_err(|error| CommandError::new(format!("ERR the system has no randomness: {error}")))?;
    let text: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    reply.bulk(&text.as_bytes()[..characters]);
    Ok(())
}

/// Handles ACL DRYRUN.
fn dryrun(context: &mut Context<'_>, arguments: &[&[u8]], reply: &mut dyn Reply) -> Outcome {
    let (_, users) = context.host.process.users.now(context.store)?;
    let (name, called) = (arguments[2], &arguments[3..]);
    let user = users.find(name);
    let user = user.ok_or_else(|| CommandError::quoting("ERR User ", name, " not found"))?;
    let named = called[0];
    let called = &*context.true_words(called);
    let command = resolve_name(called)
        .map_err(|_| CommandError::quoting("ERR Command ", named, " not found"))?;
    if !command.accepts(called.len()) {
        return Err(CommandError::wrong_arity(command.name).into());
    }
    let access = |place: usize, what: &str| {
        let before = b"This user has no permissions to access the '";
        // As in Redis, the text ends at the first zero byte.
        let name = c_string(called[place], called[place].len());
        [before, name, b"' ", what.as_bytes()].concat()
    };
    let text = match check(user, command, called) {
        Ok(()) => {
            reply.ok();
            return Ok(());
        }
        Err(Denial::Command) => {
            let name = command.name;
            format!("This user has no permissions to run the '{name}' command").into_bytes()
        }
        Err(Denial::Key(place)) => access(place, "key"),
        Err(Denial::Channel(place)) => access(place, "channel"),
    };
    reply.bulk(&text);
    Ok(())
}

/// Handles ACL LOG.
fn log(context: &mut Context<'_>, arguments: &[&[u8]], reply: &mut dyn Reply) -> Outcome {
    let log = &context.host.process.acl_log;
    let count = match &arguments[2..] {
        [] => 10,
        [what] if is_keyword(what, "RESET") => {
            log.clear();
            reply.ok();
            return Ok(());
        }
        [count] => integer(count)?,
        _ => return Err(CommandError::subcommand_syntax("acl", arguments[1]).into()),
    };
    let entries = log.latest(usize::try_from(count).unwrap_or(0));
    let now = context.host.now_microseconds() / 1000;
    reply.array(entries.len());
    for entry in entries {
        // The last three fields are those of Redis 7.2.
        reply.map(10);
        reply.bulk(b"count");
        reply.integer(entry.count as i64);
        reply.bulk(b"reason");
        reply.bulk(entry.call.reason.name().as_bytes());
        reply.bulk(b"context");
        reply.bulk(entry.call.context.as_bytes());
        reply.bulk(b"object");
        reply.bulk(&entry.call.object);
        reply.bulk(b"username");
        reply.bulk(&entry.call.user);
        reply.bulk(b"age-seconds");
        reply.double((now - entry.updated).max(0) as f64 / 1000.0);
        reply.bulk(b"client-info");
        reply.bulk(entry.call.client.as_bytes());
        reply.bulk(b"entry-id");
        reply.integer(entry.id as i64);
        reply.bulk(b"timestamp-created");
        reply.integer(entry.created);
        reply.bulk(b"timestamp-last-updated");
        reply.integer(entry.updated);
    }
    Ok(())
}

/// Returns the path of the ACL file.
fn file(context: &Context<'_>) -> Result<PathBuf, CommandError> {
    let path = context.host.config().value("aclfile").text();
    if path.is_empty() {
        return Err(CommandError::fixed(
            "ERR This Redis instance is not configured to use an ACL file. You may want to specify users via the ACL \
             SETUSER command and then issue a CONFIG REWRITE (assuming you have a Redis configuration file set) in order \
             to store users in the Redis configuration.",
        ));
    }
    Ok(String::from_utf8_lossy(&path).into_owned().into())
}

/// Handles ACL LOAD.
fn load(context: &mut Context<'_>, _: &[&[u8]], reply: &mut dyn Reply) -> Outcome {
    let path = file(context)?;
    take_own_thread(context)?;
    let failed = |text: String| CommandError::new(format!("ERR {text}"));
    let text = read_file(&path).map_err(failed)?;
    let name = path.to_string_lossy();
    let new: Vec<User> = users_of_file(&name, &text, all_channels(context)).map_err(failed)?;
    let users = (&context.host.process.users, context.store);
    change(users, |users| {
        Ok((NewUsers::Created(&new).change(users), ()))
    })?;
    spread(context)?;
    reply.ok();
    Ok(())
}

/// Handles ACL SAVE.
fn save(context: &mut Context<'_>, _: &[&[u8]], reply: &mut dyn Reply) -> Outcome {
    let path = file(context)?;
    take_own_thread(context)?;
    let (_, users) = context.host.process.users.now(context.store)?;
    let mut text = Vec::new();
    for user in users.all() {
        text.extend(user.definition());
        text.push(b'\n');
    }
    write_file(&path, &text).map_err(|error| {
        const WARNING: u8 = 3;
        context.host.control.log(WARNING, error.as_bytes());
        CommandError::fixed(
            "ERR There was an error trying to save the ACLs. Please check the server logs for more information",
        )
    })?;
    reply.ok();
    Ok(())
}
