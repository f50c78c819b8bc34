//! Implements FUNCTION, FCALL and FCALL_RO: function libraries in the store, and function calls,
//! each of which runs in a single transaction.

use std::sync::Arc;

use undercroft_engine::Access;
use undercroft_engine::glob::{self, Case};
use undercroft_engine::rdb::{dump_libraries, restore_libraries};

use super::run;
use crate::arguments::{CommandError, integer, is_keyword};
use crate::context::{Context, HandlerEntry, Interpreter};
use crate::failure::{Failure, Outcome};
use crate::reply::Reply;
use crate::scripts::{
    Libraries, Library, LibraryFunction, Script, ScriptArguments, ScriptFlags, busy,
    name_and_start, new_mark,
};

/// Maps each command in this file to its handler.
pub(crate) const HANDLERS: &[HandlerEntry] = &[
    ("fcall", fcall),
    ("fcall_ro", fcall_ro),
    ("function|load", load),
    ("function|delete", delete),
    ("function|flush", flush),
    ("function|list", list),
    ("function|dump", dump),
    ("function|restore", restore),
    ("function|stats", stats),
    ("function|kill", kill),
];

/// The maximum length in bytes of a library's text that FUNCTION RESTORE accepts.
const LONGEST: usize = 512 << 20;

fn interpreter(context: &Context<'_>) -> Result<&'static dyn Interpreter, CommandError> {
    let interpreter = context.host.process.interpreter;
    interpreter.ok_or(CommandError::fixed(
        "ERR functions need Lua, which this build does not include",
    ))
}

/// Returns a closure that runs a library's program and returns the functions that it registers.
fn loading(
    context: &Context<'_>,
) -> Result<impl Fn(&Script) -> Result<Vec<LibraryFunction>, CommandError>, CommandError> {
    let (interpreter, limits) = (interpreter(context)?, context.host.process.script_limits);
    Ok(move |library: &Script| interpreter.load(library, limits))
}

fn libraries(context: &Context<'_>) -> Result<Arc<Libraries>, Failure> {
    let known = &context.host.process.libraries;
    known.now(context.store, loading(context)?)
}

/// Returns the total number of functions in all libraries, or 0 in a process without an
/// interpreter.
pub(crate) fn count(context: &Context<'_>) -> Result<usize, Failure> {
    if context.host.process.interpreter.is_none() {
        return Ok(0);
    }
    Ok(libraries(context)?.function_count())
}

/// Returns the flags of a function, or `None` if the function does not exist.
pub(super) fn flags(context: &Context<'_>, name: &[u8]) -> Option<ScriptFlags> {
    let libraries = libraries(context).ok()?;
    let (_, function) = libraries.function(name)?;
    Some(function.flags.of_script())
}

/// Handles FCALL.
fn fcall(context: &mut Context<'_>, arguments: &[&[u8]], reply: &mut dyn Reply) -> Outcome {
    call(context, arguments, false, reply)
}

/// Handles FCALL_RO.
fn fcall_ro(context: &mut Context<'_>, arguments: &[&[u8]], reply: &mut dyn Reply) -> Outcome {
    call(context, arguments, true, reply)
}

fn call(
    context: &mut Context<'_>,
    arguments: &[&[u8]],
    is_read_only: bool,
    reply: &mut dyn Reply,
) -> Outcome {
    let interpreter = interpreter(context)?;
    let libraries = libraries(context)?;
    let found = libraries.function(arguments[1]);
    let (library, function) = found.ok_or(CommandError::fixed("ERR Function not found"))?;
    let count = integer(arguments[2])
        .map_err(|_| CommandError::fixed("ERR Bad number of keys provided"))?;
    let rest = &arguments[3..];
    let count = match usize::try_from(count) {
        Err(_) => {
            return Err(CommandError::fixed("ERR Number of keys can't be negative").into());
        }
        Ok(count) if count > rest.len() => {
            return Err(CommandError::fixed(
                "ERR Number of keys can't be greater than number of args",
            )
            .into());
        }
        Ok(count) => count,
    };
    let (keys, rest) = rest.split_at(count);
    let called = ScriptArguments {
        keys,
        arguments: rest,
        function: Some(&function.name),
        words: arguments,
    };
    let script = (&library.script, function.flags.of_script());
    run::run_with(context, interpreter, script, &called, is_read_only, reply)
}

/// Changes libraries. Retries if another process has changed libraries in the meantime. `decide`
/// chooses the libraries to delete and the libraries to store.
fn change<'t>(
    context: &Context<'_>,
    decide: impl Fn(&Libraries) -> Result<LibraryChange<'t>, CommandError>,
) -> Result<(), Failure> {
    loop {
        let libraries = libraries(context)?;
        let LibraryChange { forgotten, kept } = decide(&libraries)?;
        let forgotten: Vec<&[u8]> = forgotten.iter().map(Vec::as_slice).collect();
        let kept: Vec<(&[u8], &[u8], u64)> = kept
            .iter()
            .map(|library| (&library.name[..], library.script.text(), library.mark))
            .collect();
        let store: Access<'_> = context.store;
        if store.change_libraries(libraries.version, &forgotten, &kept)? {
            return Ok(());
        }
    }
}

/// The libraries to delete, and the libraries to store.
struct LibraryChange<'t> {
    forgotten: Vec<Vec<u8>>,
    kept: &'t [Arc<Library>],
}

/// Returns an error if a new library conflicts with an existing library. Each function can belong
/// to only one library.
fn join(libraries: &Libraries, added: &[Arc<Library>], replaces: bool) -> Result<(), CommandError> {
    let mut joined = Libraries::default();
    for library in &libraries.all {
        let is_replaced = added.iter().any(|new| new.name == library.name);
        if is_replaced && !replaces {
            return Err(CommandError::from_parts(&[
                b"ERR Library ",
                &library.name,
                b" already exists",
            ]));
        }
        if !is_replaced {
            joined.add(Arc::clone(library))?;
        }
    }
    added
        .iter()
        .try_for_each(|library| joined.add(Arc::clone(library)))
}

/// Handles FUNCTION LOAD.
fn load(context: &mut Context<'_>, arguments: &[&[u8]], reply: &mut dyn Reply) -> Outcome {
    let program = loading(context)?;
    let (text, options) = match arguments {
        [_, _, options @ .., text] => (*text, options),
        _ => return Err(CommandError::wrong_arity("function|load").into()),
    };
    if let Some(option) = options.iter().find(|option| !is_keyword(option, "REPLACE")) {
        return Err(CommandError::from_parts(&[b"ERR Unknown option given: ", option]).into());
    }
    let replaces = !options.is_empty();
    let (name, _) = name_and_start(text)?;
    if !replaces && libraries(context)?.named(&name).is_some() {
        return Err(CommandError::quoting("ERR Library ", &name, " already exists").into());
    }
    let mark = new_mark(context.store);
    let library = [Arc::new(Library::load(text, mark, program)?)];
    change(context, |libraries| {
        if !replaces && libraries.named(&name).is_some() {
            return Err(CommandError::quoting(
                "ERR Library ",
                &name,
                " already exists",
            ));
        }
        join(libraries, &library, true)?;
        Ok(LibraryChange {
            forgotten: Vec::new(),
            kept: &library,
        })
    })?;
    reply.bulk(&name);
    Ok(())
}

/// Handles FUNCTION DELETE.
fn delete(context: &mut Context<'_>, arguments: &[&[u8]], reply: &mut dyn Reply) -> Outcome {
    change(context, |libraries| {
        if libraries.named(arguments[2]).is_none() {
            return Err(CommandError::fixed("ERR Library not found"));
        }
        Ok(LibraryChange {
            forgotten: vec![arguments[2].to_vec()],
            kept: &[],
        })
    })?;
    reply.ok();
    Ok(())
}

fn all_names(libraries: &Libraries) -> Vec<Vec<u8>> {
    let all = libraries.all.iter();
    all.map(|library| library.name.clone()).collect()
}

/// Handles FUNCTION FLUSH.
fn flush(context: &mut Context<'_>, arguments: &[&[u8]], reply: &mut dyn Reply) -> Outcome {
    match arguments {
        [_, _] => {}
        [_, _, how] if is_keyword(how, "SYNC") || is_keyword(how, "ASYNC") => {}
        [_, _, _] => {
            return Err(
                CommandError::fixed("ERR FUNCTION FLUSH only supports SYNC|ASYNC option").into(),
            );
        }
        _ => return Err(CommandError::subcommand_syntax("function", arguments[1]).into()),
    }
    change(context, |libraries| {
        Ok(LibraryChange {
            forgotten: all_names(libraries),
            kept: &[],
        })
    })?;
    reply.ok();
    Ok(())
}

/// Handles FUNCTION DUMP.
fn dump(context: &mut Context<'_>, _: &[&[u8]], reply: &mut dyn Reply) -> Outcome {
    let libraries = libraries(context)?;
    let texts = libraries.all.iter().map(|library| library.script.text());
    reply.bulk(&dump_libraries(texts));
    Ok(())
}

/// Handles FUNCTION RESTORE.
fn restore(context: &mut Context<'_>, arguments: &[&[u8]], reply: &mut dyn Reply) -> Outcome {
    let program = loading(context)?;
    let (empties, replaces) = match arguments {
        [_, _, _] => (false, false),
        [_, _, _, policy] if is_keyword(policy, "APPEND") => (false, false),
        [_, _, _, policy] if is_keyword(policy, "REPLACE") => (false, true),
        [_, _, _, policy] if is_keyword(policy, "FLUSH") => (true, true),
        [_, _, _, _] => {
            return Err(CommandError::fixed(
                "ERR Wrong restore policy given, value should be either FLUSH, APPEND or REPLACE.",
            )
            .into());
        }
        _ => return Err(CommandError::subcommand_syntax("function", arguments[1]).into()),
    };
    let texts = restore_libraries(arguments[2], LONGEST).map_err(CommandError::fixed)?;
    let mark = new_mark(context.store);
    let mut restored = Libraries::default();
    for text in &texts {
        let library = Library::load(text, mark, &program)?;
        if restored.named(&library.name).is_some() {
            return Err(
                CommandError::quoting("ERR Library ", &library.name, " already exists").into(),
            );
        }
        restored.add(Arc::new(library))?;
    }
    change(context, |libraries| {
        let forgotten = if empties {
            all_names(libraries)
        } else {
            join(libraries, &restored.all, replaces)?;
            Vec::new()
        };
        Ok(LibraryChange {
            forgotten,
            kept: &restored.all,
        })
    })?;
    reply.ok();
    Ok(())
}

/// Handles FUNCTION LIST.
fn list(context: &mut Context<'_>, arguments: &[&[u8]], reply: &mut dyn Reply) -> Outcome {
    let (mut with_code, mut pattern) = (false, None);
    let mut options = arguments[2..].iter();
    while let Some(option) = options.next() {
        if !with_code && is_keyword(option, "WITHCODE") {
            with_code = true;
        } else if pattern.is_none() && is_keyword(option, "LIBRARYNAME") {
            pattern = Some(options.next().ok_or(CommandError::fixed(
                "ERR library name argument was not given",
            ))?);
        } else {
            return Err(CommandError::from_parts(&[b"ERR Unknown argument ", option]).into());
        }
    }
    let libraries = libraries(context)?;
    let is_wanted = |library: &&Arc<Library>| match pattern {
        None => true,
        Some(pattern) => glob::matches(pattern, &library.name, Case::Insensitive).unwrap_or(false),
    };
    let wanted: Vec<&Arc<Library>> = libraries.all.iter().filter(is_wanted).collect();
    reply.array(wanted.len());
    for library in wanted {
        reply.map(if with_code { 4 } else { 3 });
        reply.bulk(b"library_name");
        reply.bulk(&library.name);
        reply.bulk(b"engine");
        reply.bulk(b"LUA");
        reply.bulk(b"functions");
        reply.array(library.functions.len());
        for function in &library.functions {
            reply.map(3);
            reply.bulk(b"name");
            reply.bulk(&function.name);
            reply.bulk(b"description");
            reply.bulk_or_null(function.description.as_deref());
            reply.bulk(b"flags");
            let flags = function.flags;
            reply.set(flags.names().count());
            flags.names().for_each(|name| reply.simple(name));
        }
        if with_code {
            reply.bulk(b"library_code");
            reply.bulk(library.script.text());
        }
    }
    Ok(())
}

/// Handles FUNCTION STATS. The reply omits the names of functions that run in other processes,
/// because this process does not know these names.
fn stats(context: &mut Context<'_>, _: &[&[u8]], reply: &mut dyn Reply) -> Outcome {
    if let Some(script) = context.store.store().running_script()
        && !script.is_function
    {
        return Err(busy(false).into());
    }
    let libraries = libraries(context)?;
    let count = |number: usize| i64::try_from(number).unwrap_or(i64::MAX);
    reply.map(2);
    reply.bulk(b"running_script");
    match context.host.process.running.first() {
        None => reply.null(),
        Some(function) => {
            reply.map(3);
            reply.bulk(b"name");
            reply.bulk(&function.name);
            reply.bulk(b"command");
            reply.array(function.words.len());
            function.words.iter().for_each(|word| reply.bulk(word));
            reply.bulk(b"duration_ms");
            reply.integer(i64::try_from(function.time().as_millis()).unwrap_or(i64::MAX));
        }
    }
    reply.bulk(b"engines");
    reply.map(1);
    reply.bulk(b"LUA");
    reply.map(2);
    reply.bulk(b"libraries_count");
    reply.integer(count(libraries.all.len()));
    reply.bulk(b"functions_count");
    reply.integer(count(libraries.function_count()));
    Ok(())
}

/// Handles FUNCTION KILL.
fn kill(context: &mut Context<'_>, _: &[&[u8]], reply: &mut dyn Reply) -> Outcome {
    run::kill(context, true, reply)
}
