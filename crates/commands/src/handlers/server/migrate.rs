//! Implements MIGRATE, which moves keys to another server.
//!
//! The keys are copied first and removed here once the other server has confirmed them. No lock is
//! held in the meantime, so other clients can change the keys; a key that was changed is not removed.

use std::time::Duration;

use undercroft_engine::changes::Watch;
use undercroft_engine::keyspace::KeyState;
use undercroft_engine::rdb::dump;
use undercroft_engine::{Error, ValueType};
use undercroft_numbers::parse_integer;

use super::persistence::take_own_thread;
use crate::arguments::{CommandError, is_keyword};
use crate::context::{Context, HandlerEntry};
use crate::failure::Outcome;
use crate::reply::Reply;

/// Maps each command in this file to its handler.
pub(crate) const HANDLERS: &[HandlerEntry] = &[("migrate", migrate)];

/// The timeout if the caller gives none that is greater than 0, as in Redis.
const TIMEOUT: Duration = Duration::from_millis(1000);

/// The options of a call.
#[derive(Debug, Default)]
struct Options<'k> {
    copy: bool,
    replace: bool,
    /// The arguments of AUTH on the other server.
    login: Vec<&'k [u8]>,
    keys: Vec<&'k [u8]>,
}

impl<'k> Options<'k> {
    fn parse(arguments: &[&'k [u8]]) -> Result<Options<'k>, CommandError> {
        let mut parsed = Options::default();
        let mut options = &arguments[6..];
        loop {
            options = match options {
                [] => {
                    parsed.keys = vec![arguments[3]];
                    return Ok(parsed);
                }
                [word, rest @ ..] if is_keyword(word, "COPY") => {
                    parsed.copy = true;
                    rest
                }
                [word, rest @ ..] if is_keyword(word, "REPLACE") => {
                    parsed.replace = true;
                    rest
                }
                [word, password, rest @ ..] if is_keyword(word, "AUTH") => {
                    parsed.login = vec![password];
                    rest
                }
                [word, user, password, rest @ ..] if is_keyword(word, "AUTH2") => {
                    parsed.login = vec![user, password];
                    rest
                }
                [word, keys @ ..] if is_keyword(word, "KEYS") => {
                    if !arguments[3].is_empty() {
                        return Err(CommandError::fixed(
                            "ERR When using MIGRATE KEYS option, the key argument must be set to the empty string",
                        ));
                    }
                    parsed.keys = keys.to_vec();
                    return Ok(parsed);
                }
                _ => return Err(CommandError::SYNTAX),
            };
        }
    }
}

/// A key that is copied.
struct Copied<'k> {
    name: &'k [u8],
    watch: Watch,
    state: KeyState,
}

/// Handles MIGRATE.
fn migrate(context: &mut Context<'_>, arguments: &[&[u8]], reply: &mut dyn Reply) -> Outcome {
    let options = Options::parse(arguments)?;
    let number = |text: &[u8]| {
        parse_integer(text).ok_or(CommandError::fixed(
            "ERR value is not an integer or out of range",
        ))
    };
    let timeout = match number(arguments[5])? {
        milliseconds @ 1.. => Duration::from_millis(milliseconds as u64),
        _ => TIMEOUT,
    };
    let database = number(arguments[4])?;
    if context.store.exists(context.database(), &options.keys)? == 0 {
        reply.simple("NOKEY");
        return Ok(());
    }
    let host = String::from_utf8_lossy(arguments[1]).into_owned();
    check_host(context, &host)?;
    let port = parse_integer(arguments[2]).and_then(|port| u16::try_from(port).ok());
    let port = port.ok_or(CommandError::fixed("ERR Invalid port"))?;
    if context.store.is_running() {
        return Err(CommandError::fixed(
            "ERR MIGRATE waits for another server, so it cannot run in a transaction or a script",
        )
        .into());
    }
    take_own_thread(context)?;
    let copied = read(context, &options.keys)?;
    let commands = request(context, &options, database, &copied);
    let before = commands.len() - copied.len();
    let control = context.host.control;
    let mut errors = control
        .exchange((&host, port), timeout, &commands)
        .map_err(CommandError::new)?;
    let failed =
        |text: String| CommandError::new(format!("ERR Target instance replied with error: {text}"));
    // Without a login or the database, no key was copied to its place.
    let answers = errors.split_off(before.min(errors.len()));
    if let Some(text) = errors.into_iter().flatten().next() {
        return Err(failed(text).into());
    }
    let mut failure = None;
    for (key, error) in copied.iter().zip(answers) {
        match error {
            Some(text) => {
                failure.get_or_insert_with(|| failed(text));
            }
            None if options.copy => {}
            None if remove(context, key)? => {}
            None => {
                failure.get_or_insert_with(|| {
                    CommandError::quoting(
                        "ERR this key changed while it was copied, and stays: ",
                        key.name,
                        "",
                    )
                });
            }
        }
    }
    match failure {
        Some(failure) => Err(failure.into()),
        None => {
            reply.ok();
            Ok(())
        }
    }
}

/// Refuses hosts that the operator has not allowed. Otherwise, a client could make the server connect
/// to any port in its network.
fn check_host(context: &Context<'_>, host: &str) -> Result<(), CommandError> {
    let allowed = context.host.config().value("migrate-hosts").text();
    let allowed = String::from_utf8_lossy(&allowed).into_owned();
    match allowed.split_whitespace().any(|allowed| allowed == host) {
        true => Ok(()),
        false => Err(CommandError::new(format!(
            "ERR MIGRATE to {host} is not allowed: name the host in migrate-hosts when the server \
             starts"
        ))),
    }
}

/// Reads the keys that exist. A change after the read is noticed before the key is removed.
fn read<'k>(context: &Context<'_>, names: &[&'k [u8]]) -> Result<Vec<Copied<'k>>, Error> {
    let database = context.database();
    let watches = context.store.watch(database, names.iter().copied())?;
    let mut copied = Vec::new();
    for (name, watch) in names.iter().copied().zip(watches) {
        let store = context.store.store();
        let shards = store.shards_of([&store.key(name)]);
        let state = store.read(shards, |reader| reader.state(database, name))?;
        if let Some(state) = state {
            copied.push(Copied { name, watch, state });
        }
    }
    if let Some(feed) = copied
        .iter()
        .find(|key| key.state.value_type == ValueType::Feed)
    {
        let name = String::from_utf8_lossy(feed.name);
        return Err(Error::Name(
            format!("expected a key of a type that Redis has, got the feed '{name}'").into(),
        ));
    }
    Ok(copied)
}

/// Returns the commands for the other server: the login, the database, and one for each key.
fn request(
    context: &Context<'_>,
    options: &Options<'_>,
    database: i64,
    copied: &[Copied<'_>],
) -> Vec<Vec<Vec<u8>>> {
    let mut commands = Vec::new();
    let mut add = |words: &[&[u8]]| {
        commands.push(words.iter().map(|word| word.to_vec()).collect());
    };
    if !options.login.is_empty() {
        add(&[&[&b"AUTH"[..]], &options.login[..]].concat());
    }
    add(&[b"SELECT", database.to_string().as_bytes()]);
    for key in copied {
        let state = &key.state;
        let payload = dump(state.value_type, state.encoding, &state.items);
        // A key that expires this moment must not be stored without an expiry.
        let left = |expiry: u64| expiry.saturating_sub(context.store.now()).max(1);
        let left = state.expiry.map_or(0, left).to_string();
        let mut words = vec![&b"RESTORE"[..], key.name, left.as_bytes(), &payload];
        if options.replace {
            words.push(b"REPLACE");
        }
        add(&words);
    }
    commands
}

/// Removes a key that was copied. Returns false if it was changed since. WATCH does not notice a change
/// in the groups of a stream, so streams are compared. O(1), or O(stream).
fn remove(context: &Context<'_>, key: &Copied<'_>) -> Result<bool, Error> {
    let (store, database) = (context.store.store(), context.database());
    let shards = store.shards_of([&store.key(key.name)]);
    store.transact(shards, |running| {
        let mut is_unchanged = running.is_unchanged(&key.watch)?;
        if is_unchanged && key.state.value_type == ValueType::Stream {
            let now = running
                .access()
                .read(shards, |reader| reader.state(database, key.name))?;
            is_unchanged = now.is_some_and(|now| now.items == key.state.items);
        }
        if is_unchanged {
            running.access().delete(database, &[key.name])?;
        }
        Ok::<_, Error>(is_unchanged)
    })
}
