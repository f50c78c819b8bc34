//! Commands by their words, pipelines, transactions.

use std::ffi::c_int;

use undercroft_commands::protocol::Protocol;
use undercroft_commands::reply::{Recorder, Reply};
use undercroft_commands::session::Session;
use undercroft_commands::{Context, execute};
use undercroft_embedded::{OpenStore, SessionByName, run_on};

use crate::border::{self, Bytes, List, Words, call, check_place, list};
use crate::handle::{Handle, Kind, Pool};
use crate::reply::{ReplyHandle, Tree, Type};
use crate::status::{Outcome, Refused, Status};
use crate::store::{StoreHandle, opened};

/// `uc_session`: what a connection is elsewhere.
pub(crate) struct Client(SessionByName);

impl Kind for Client {
    const NAME: &'static str = "uc_session";
    const OPEN: u32 = 0x7563_4310;

    fn pool() -> &'static Pool<Client> {
        static POOL: Pool<Client> = Pool::new();
        &POOL
    }
}

pub(crate) type SessionHandle = Handle<Client>;

/// Runs one command. An error reply is the reply, and how the call ends.
pub(crate) fn run(
    shared: &OpenStore,
    session: &mut Session,
    words: &[&[u8]],
    reply: &mut Tree,
) -> Outcome {
    reply.begin(session.protocol);
    let ran = shared.execute(session, words, reply);
    let failed = reply.error_text();
    reply.finish();
    match (ran, failed) {
        (Err(blocked), _) => Err(Refused::blocked(&blocked)),
        (_, Some(text)) => Err(Refused::reply(&shared.store, &text)),
        _ => Ok(Status::Ok),
    }
}

/// Runs commands and adds their replies to the array that was begun.
fn run_all<'a>(
    shared: &OpenStore,
    session: &mut Session,
    commands: impl ExactSizeIterator<Item = Outcome<List<'a>>>,
    reply: &mut Tree,
) -> Outcome {
    let mut context = shared.context(session);
    for (place, words) in commands.enumerate() {
        let ran = words.and_then(|words| ask(&mut context, &words, reply));
        if let Err(refused) = ran {
            reply.cut(place);
            return Err(refused);
        }
    }
    Ok(Status::Ok)
}

/// Runs commands as one transaction: MULTI, the commands, EXEC.
fn transact<'a>(
    shared: &OpenStore,
    session: &mut Session,
    commands: impl Iterator<Item = Outcome<List<'a>>>,
    reply: &mut Tree,
) -> Outcome {
    if session.queued().is_some() {
        let text = "expected a session outside of a transaction, got one after MULTI";
        return Err(Refused::misuse(text));
    }
    let mut context = shared.context(session);
    let ran = queue_all(shared, &mut context, commands, reply).and_then(|()| {
        reply.begin(context.session.protocol);
        ask(&mut context, &[b"EXEC"], reply)
    });
    if ran.is_err() && context.session.queued().is_some() {
        // It uses no store, so it cannot be kept waiting; what went wrong is told already.
        let _ = execute(&mut context, &[b"DISCARD"], &mut Recorder::new());
    }
    ran?;
    match (reply.error_text(), reply.root().kind) {
        (Some(text), _) => Err(Refused::reply(&shared.store, &text)),
        (_, Type::Nil) => Ok(Status::None),
        _ => Ok(Status::Ok),
    }
}

/// Begins a transaction and queues commands. The first one that is refused ends it, and is the reply.
fn queue_all<'a>(
    shared: &OpenStore,
    context: &mut Context<'_>,
    commands: impl Iterator<Item = Outcome<List<'a>>>,
    reply: &mut Tree,
) -> Outcome<()> {
    let begin: List<'_> = [&b"MULTI"[..]].into_iter().collect();
    for words in [Ok(begin)].into_iter().chain(commands) {
        reply.begin(Protocol::Resp3);
        ask(context, &words?, reply)?;
        if let Some(text) = reply.error_text() {
            return Err(Refused::reply(&shared.store, &text));
        }
    }
    Ok(())
}

/// Runs one of several commands.
fn ask(context: &mut Context<'_>, words: &[&[u8]], reply: &mut Tree) -> Outcome<()> {
    let ran =
        execute(context, words, reply).or_else(|blocked| run_on(context, blocked, words, reply));
    context.session.finish_command();
    ran.map_err(|blocked| Refused::blocked(&blocked))
}

/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
unsafe extern "C" fn uc_session_open(
    store: *const StoreHandle,
    session: *mut *mut SessionHandle,
) -> c_int {
    call(|| {
        check_place(session)?;
        // SAFETY: the place is there.
        unsafe { session.write(std::ptr::null_mut()) };
        // SAFETY: the caller's promise.
        let (store, number) = unsafe { opened(store) }?;
        let mut client = Client(SessionByName::new(store));
        let state = client.0.session();
        state.database = number as u32;
        state.protocol = Protocol::Resp3;
        // SAFETY: the place is there.
        unsafe { session.write(Handle::open(client)) };
        Ok(Status::Ok)
    })
}

/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
unsafe extern "C" fn uc_session_close(session: *mut SessionHandle) -> c_int {
    call(|| {
        // SAFETY: the caller's promise.
        drop(unsafe { Handle::close(session) }?);
        Ok(Status::Ok)
    })
}

/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
unsafe extern "C" fn uc_command(
    session: *mut SessionHandle,
    count: usize,
    words: *const Bytes,
    reply: *mut ReplyHandle,
) -> c_int {
    call(|| {
        // SAFETY: the caller's promises.
        let (words, mut client, mut reply) = unsafe {
            (
                list(count, words)?,
                Handle::exclusive(session)?,
                Handle::exclusive(reply)?,
            )
        };
        (client.0).run(&words, Refused::opening, |shared, session| {
            run(shared, session, &words, &mut reply)
        })
    })
}

/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
unsafe extern "C" fn uc_pipeline(
    session: *mut SessionHandle,
    count: usize,
    commands: *const Words,
    reply: *mut ReplyHandle,
) -> c_int {
    call(|| {
        // SAFETY: the caller's promises.
        let (commands, mut client, mut reply) = unsafe {
            (
                border::commands(count, commands)?,
                Handle::exclusive(session)?,
                Handle::exclusive(reply)?,
            )
        };
        let (shared, session) = client.0.enter().map_err(|error| Refused::opening(&error))?;
        reply.begin(session.protocol);
        reply.array(count);
        let ran = run_all(shared, session, commands, &mut reply);
        reply.finish();
        ran
    })
}

/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
unsafe extern "C" fn uc_transaction(
    session: *mut SessionHandle,
    count: usize,
    commands: *const Words,
    reply: *mut ReplyHandle,
) -> c_int {
    call(|| {
        // SAFETY: the caller's promises.
        let (commands, mut client, mut reply) = unsafe {
            (
                border::commands(count, commands)?,
                Handle::exclusive(session)?,
                Handle::exclusive(reply)?,
            )
        };
        let (shared, session) = client.0.enter().map_err(|error| Refused::opening(&error))?;
        reply.begin(session.protocol);
        let ran = transact(shared, session, commands, &mut reply);
        reply.finish();
        ran
    })
}
