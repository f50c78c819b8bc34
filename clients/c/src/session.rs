//! Runs commands that C passes as words: single commands, pipelines and transactions.

use std::ffi::c_int;

use undercroft_commands::protocol::Protocol;
use undercroft_commands::reply::{Recorder, Reply, Tree as StringInPlace};
use undercroft_commands::session::Session;
use undercroft_commands::{Context, execute};
use undercroft_embedded::{OpenStore, SessionByName, Taken, run_on};

use crate::border::{self, Bytes, List, Words, call, check_place, list};
use crate::handle::{Handle, Kind, Pool};
use crate::reply::{ReplyHandle, Tree, Type};
use crate::status::{Outcome, Refused, Status};
use crate::store::{StoreHandle, opened};

/// The C type `uc_session`: the state of a connection to the store, and the records of removed
/// items.
pub(crate) struct Client(SessionByName, Option<Box<Kept>>);

/// Records of the items that calls removed from the store, so that a language binding can put them
/// back.
#[derive(Default)]
pub(crate) struct Kept {
    last: Vec<Taken>,
    /// The records for the commands queued after MULTI, each with the command's position.
    queued: Vec<(usize, Taken)>,
    /// The records of earlier calls, set aside while a signal handler uses the session.
    held: Vec<Vec<Taken>>,
}

/// The records for a command that removes items, made before it runs (see [`Kept::begin`]): the
/// command's own record, or for EXEC the records of the queued commands with their positions.
enum Tickets {
    One(Taken),
    Many(Vec<(usize, Taken)>),
}

impl Kept {
    fn begin(&mut self, shared: &OpenStore, session: &Session, words: &[&[u8]]) -> Option<Tickets> {
        let Some((place, _)) = session.queued() else {
            self.queued.clear();
            return shared.taking(session, words).map(Tickets::One);
        };
        let is = |name: &[u8]| {
            words
                .first()
                .is_some_and(|word| word.eq_ignore_ascii_case(name))
        };
        if is(b"EXEC") {
            let queued = std::mem::take(&mut self.queued);
            return (!queued.is_empty()).then_some(Tickets::Many(queued));
        }
        let taken = shared.taking(session, words);
        self.queued.extend(taken.map(|taken| (place, taken)));
        None
    }

    fn end(&mut self, tickets: Tickets, whole: &StringInPlace) {
        match (tickets, whole) {
            (Tickets::One(taken), whole) => self.last.push(taken.with_reply(whole.clone())),
            (Tickets::Many(all), StringInPlace::Array(replies)) => {
                let with_reply = |(place, taken): (usize, Taken)| {
                    Some(taken.with_reply(replies.get(place)?.clone()))
                };
                self.last.extend(all.into_iter().filter_map(with_reply));
            }
            _ => {}
        }
    }
}

/// Runs a command and records the items that it removes from the store, if records are enabled.
fn run_keeping<E>(
    kept: Option<&mut Kept>,
    tickets: Option<Tickets>,
    reply: &mut Tree,
    run: impl FnOnce(&mut dyn Reply) -> Result<(), E>,
) -> Result<(), E> {
    let (Some(kept), Some(tickets)) = (kept, tickets) else {
        return run(reply);
    };
    let mut recorder = Recorder::new();
    if let Err(error) = run(&mut recorder) {
        // Keep the records, because EXEC may be retried while the transaction is still open.
        if let Tickets::Many(all) = tickets {
            kept.queued = all;
        }
        return Err(error);
    }
    let whole = recorder.finish().ok().and_then(|mut all| all.pop());
    let whole = whole.unwrap_or(StringInPlace::Null);
    kept.end(tickets, &whole);
    whole.write(reply);
    Ok(())
}

impl Kind for Client {
    const NAME: &'static str = "uc_session";
    const OPEN: u32 = 0x7563_4310;

    fn pool() -> &'static Pool<Client> {
        static POOL: Pool<Client> = Pool::new();
        &POOL
    }
}

pub(crate) type SessionHandle = Handle<Client>;

/// Runs one command. If the command replies with an error, the call fails, and `reply` is that
/// error.
pub(crate) fn run(
    shared: &OpenStore,
    session: &mut Session,
    words: &[&[u8]],
    reply: &mut Tree,
    mut kept: Option<&mut Kept>,
) -> Outcome {
    reply.begin(session.protocol);
    let tickets = kept.as_mut().and_then(|kept| {
        kept.last.clear();
        kept.begin(shared, session, words)
    });
    let ran = match tickets {
        None => shared.execute(session, words, reply),
        tickets => run_keeping(kept, tickets, reply, |mut reply| {
            shared.execute(session, words, &mut reply)
        }),
    };
    let failed = reply.error_text();
    let finished = reply.finish();
    match (ran, failed) {
        (Err(blocked), _) => Err(Refused::blocked(&blocked)),
        _ if finished.is_err() => finished.map(|()| Status::Ok),
        (_, Some(text)) => Err(Refused::reply(&shared.store, &text)),
        _ => Ok(Status::Ok),
    }
}

/// Runs commands and appends their replies to the outermost array.
fn run_all<'a>(
    shared: &OpenStore,
    session: &mut Session,
    commands: impl ExactSizeIterator<Item = Outcome<List<'a>>>,
    reply: &mut Tree,
    mut kept: Option<&mut Kept>,
) -> Outcome {
    let mut context = shared.context(session);
    for (place, words) in commands.enumerate() {
        let kept = kept.as_deref_mut();
        let ran = words.and_then(|words| ask(shared, &mut context, &words, reply, kept));
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
    mut kept: Option<&mut Kept>,
) -> Outcome {
    if session.queued().is_some() {
        let text = "expected a session outside a transaction, got one after MULTI";
        return Err(Refused::misuse(text));
    }
    let mut context = shared.context(session);
    let queued = queue_all(shared, &mut context, commands, reply, kept.as_deref_mut());
    let ran = queued.and_then(|()| {
        reply.begin(context.session.protocol);
        ask(shared, &mut context, &[b"EXEC"], reply, kept)
    });
    if ran.is_err() && context.session.queued().is_some() {
        // The result is ignored: DISCARD does not access the store, so no lock can block it, and
        // the caller receives the original error.
        let _ = execute(&mut context, &[b"DISCARD"], &mut Recorder::new());
    }
    ran?;
    match (reply.error_text(), reply.root().kind) {
        (Some(text), _) => Err(Refused::reply(&shared.store, &text)),
        (_, Type::Nil) => Ok(Status::None),
        _ => Ok(Status::Ok),
    }
}

/// Begins a transaction and queues commands. The first rejected command ends the transaction, and
/// its error is the reply.
fn queue_all<'a>(
    shared: &OpenStore,
    context: &mut Context<'_>,
    commands: impl Iterator<Item = Outcome<List<'a>>>,
    reply: &mut Tree,
    mut kept: Option<&mut Kept>,
) -> Outcome<()> {
    let begin: List<'_> = [&b"MULTI"[..]].into_iter().collect();
    for words in [Ok(begin)].into_iter().chain(commands) {
        reply.begin(Protocol::Resp3);
        ask(shared, context, &words?, reply, kept.as_deref_mut())?;
        if let Some(text) = reply.error_text() {
            return Err(Refused::reply(&shared.store, &text));
        }
    }
    Ok(())
}

/// Runs one command of a pipeline or transaction.
fn ask(
    shared: &OpenStore,
    context: &mut Context<'_>,
    words: &[&[u8]],
    reply: &mut Tree,
    mut kept: Option<&mut Kept>,
) -> Outcome<()> {
    let tickets = kept
        .as_mut()
        .and_then(|kept| kept.begin(shared, context.session, words));
    let ran = match tickets {
        None => {
            execute(context, words, reply).or_else(|blocked| run_on(context, blocked, words, reply))
        }
        tickets => run_keeping(kept, tickets, reply, |mut reply| {
            execute(context, words, &mut reply)
                .or_else(|blocked| run_on(context, blocked, words, &mut reply))
        }),
    };
    context.session.finish_command();
    ran.map_err(|blocked| Refused::blocked(&blocked))
}

/// # Safety
/// Each handle must be null or have been returned by this library. Every result pointer must be
/// null or writable.
#[unsafe(no_mangle)]
unsafe extern "C" fn uc_session_open(
    store: *const StoreHandle,
    session: *mut *mut SessionHandle,
) -> c_int {
    call(|| {
        check_place(session)?;
        // SAFETY: `check_place` verified that `session` is not null, and the caller guarantees that
        // it is writable.
        unsafe { session.write(std::ptr::null_mut()) };
        // SAFETY: the caller guarantees that `store` is null or a store handle.
        let (store, number) = unsafe { opened(store) }?;
        let mut client = Client(SessionByName::new(store), None);
        let state = client.0.session();
        state.database = number as u32;
        state.protocol = Protocol::Resp3;
        // SAFETY: `check_place` verified that `session` is not null, and the caller guarantees that
        // it is writable.
        unsafe { session.write(Handle::open(client)) };
        Ok(Status::Ok)
    })
}

/// # Safety
/// `session` must be null or a handle that this library returned.
#[unsafe(no_mangle)]
unsafe extern "C" fn uc_session_close(session: *mut SessionHandle) -> c_int {
    call(|| {
        // SAFETY: the caller guarantees that `session` is null or a handle from this library.
        drop(unsafe { Handle::close(session) }?);
        Ok(Status::Ok)
    })
}

/// # Safety
/// Each handle must be null or have been returned by this library. Every other pointer must be null
/// or valid for the length that `undercroft.h` specifies.
#[unsafe(no_mangle)]
unsafe extern "C" fn uc_command(
    session: *mut SessionHandle,
    count: usize,
    words: *const Bytes,
    reply: *mut ReplyHandle,
) -> c_int {
    call(|| {
        // SAFETY: the caller guarantees that each handle is null or from this library, and that
        // every other pointer is null or valid for its length.
        let (words, mut client, mut reply) = unsafe {
            (
                list(count, words)?,
                Handle::exclusive(session)?,
                Handle::exclusive(reply)?,
            )
        };
        let Client(by_name, kept) = &mut *client;
        by_name.run(&words, Refused::opening, |shared, session| {
            run(shared, session, &words, &mut reply, kept.as_deref_mut())
        })
    })
}

/// # Safety
/// Each handle must be null or have been returned by this library. Every other pointer must be null
/// or valid for the length that `undercroft.h` specifies.
#[unsafe(no_mangle)]
unsafe extern "C" fn uc_pipeline(
    session: *mut SessionHandle,
    count: usize,
    commands: *const Words,
    reply: *mut ReplyHandle,
) -> c_int {
    call(|| {
        // SAFETY: the caller guarantees that each handle is null or from this library, and that
        // every other pointer is null or valid for its length.
        let (commands, mut client, mut reply) = unsafe {
            (
                border::commands(count, commands)?,
                Handle::exclusive(session)?,
                Handle::exclusive(reply)?,
            )
        };
        let Client(by_name, kept) = &mut *client;
        if let Some(kept) = kept {
            kept.last.clear();
        }
        let (shared, session) = by_name.enter().map_err(|error| Refused::opening(&error))?;
        reply.begin(session.protocol);
        reply.array(count);
        let (ran, position) = shared
            .store
            .deferring(|| run_all(shared, session, commands, &mut reply, kept.as_deref_mut()));
        let waited = shared.store.end_deferral(position);
        let finished = reply.finish();
        // An error of the commands themselves says more.
        let status = ran?;
        waited.map_err(|error| Refused::engine(&shared.store, error))?;
        finished.map(|()| status)
    })
}

/// # Safety
/// Each handle must be null or have been returned by this library. Every other pointer must be null
/// or valid for the length that `undercroft.h` specifies.
#[unsafe(no_mangle)]
unsafe extern "C" fn uc_transaction(
    session: *mut SessionHandle,
    count: usize,
    commands: *const Words,
    reply: *mut ReplyHandle,
) -> c_int {
    call(|| {
        // SAFETY: the caller guarantees that each handle is null or from this library, and that
        // every other pointer is null or valid for its length.
        let (commands, mut client, mut reply) = unsafe {
            (
                border::commands(count, commands)?,
                Handle::exclusive(session)?,
                Handle::exclusive(reply)?,
            )
        };
        let Client(by_name, kept) = &mut *client;
        if let Some(kept) = kept {
            kept.last.clear();
        }
        let (shared, session) = by_name.enter().map_err(|error| Refused::opening(&error))?;
        reply.begin(session.protocol);
        let ran = transact(shared, session, commands, &mut reply, kept.as_deref_mut());
        let finished = reply.finish();
        ran.and_then(|status| finished.map(|()| status))
    })
}

/// # Safety
/// `session` must be null or a handle that this library returned.
#[unsafe(no_mangle)]
unsafe extern "C" fn uc_taken(session: *mut SessionHandle, what: c_int) -> c_int {
    call(|| {
        // SAFETY: the caller guarantees that `session` is null or a handle from this library.
        let mut client = unsafe { Handle::exclusive(session) }?;
        let Client(by_name, kept) = &mut *client;
        let kept = kept.get_or_insert_default();
        match what {
            KEEP => {}
            HOLD => kept.held.push(std::mem::take(&mut kept.last)),
            RESUME => kept.last = kept.held.pop().unwrap_or_default(),
            GIVE_BACK => {
                let (shared, _) = by_name.get();
                let mut failed = None;
                for taken in kept.held.pop().unwrap_or_default().iter().rev() {
                    failed = shared.give_back(taken).err().or(failed);
                }
                if let Some(reason) = failed {
                    return Err(Refused::new(Status::Error, &reason));
                }
            }
            _ => return Err(Refused::misuse("expected a UC_TAKEN_ value")),
        }
        Ok(Status::Ok)
    })
}

// The C constants `UC_TAKEN_*`.
const KEEP: c_int = 0;
const HOLD: c_int = 1;
const RESUME: c_int = 2;
const GIVE_BACK: c_int = 3;
