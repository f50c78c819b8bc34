//! Implements `undercroft exec`.

use std::ffi::OsString;
use std::io::{self, IsTerminal, Read};
use std::os::unix::ffi::OsStrExt;

use undercroft_commands::protocol::Protocol;
use undercroft_commands::reply::{Recorder, Tree, print};
use undercroft_embedded::OpenStore;

use crate::arguments::Exec;
use crate::failure::{FAILURE, Failure, Outcome, SUCCESS, at};
use crate::out;
use crate::size::human;
use crate::store::{self, Access};

/// The long options of exec. Short options are not listed, because they may be intended for the
/// command.
const OPTIONS: [&str; 6] = [
    "--store",
    "--db",
    "--database",
    "--raw",
    "--no-raw",
    "--create",
];
/// The maximum size of a value read from standard input, which is the maximum size of a string.
const INPUT_MAX: u64 = undercroft_engine::strings::STRING_MAX;

pub(crate) fn run(arguments: &Exec, line: &[OsString]) -> Outcome {
    if arguments.database as usize >= undercroft_engine::DATABASES {
        return Err(Failure::usage(format_args!(
            "expected a database below {}, got {}",
            undercroft_engine::DATABASES,
            arguments.database
        )));
    }
    let command = words(arguments, line)?;
    let input = if arguments.input {
        Some(read_input()?)
    } else {
        None
    };
    let name = arguments.store.name();
    let named = store::parse(name)?;
    let store = match arguments.create {
        true => store::open_or_create(name, None)?,
        false => store::open(name, Access::Write)?,
    };
    let open = OpenStore::passing(store);
    let mut session = open.session();
    session.database = named
        .database
        .map_or(arguments.database, |number| number as u32);
    let mut words: Vec<&[u8]> = command.iter().map(|word| word.as_bytes()).collect();
    words.extend(input.as_deref());
    let mut recorder = Recorder::new();
    open.execute(&mut session, &words, &mut recorder)
        .map_err(Failure::new)?;
    let replies = recorder.finish().map_err(|missing| {
        Failure::new(format_args!(
            "the reply is incomplete: {missing} elements are missing"
        ))
    })?;
    let raw = arguments.raw || !arguments.no_raw && !std::io::stdout().is_terminal();
    let mut failed = false;
    let mut text = Vec::new();
    for reply in replies {
        failed |= matches!(reply, Tree::Error(_));
        let reply = match session.protocol {
            Protocol::Resp2 => reply.into_resp2(),
            Protocol::Resp3 => reply,
        };
        if raw {
            print_raw(&reply, &mut text);
        } else {
            text.extend(print(&reply));
        }
    }
    out::bytes(&text);
    Ok(if failed { FAILURE } else { SUCCESS })
}

/// Reads standard input to its end.
fn read_input() -> Result<Vec<u8>, Failure> {
    let mut value = Vec::new();
    io::stdin()
        .lock()
        .take(INPUT_MAX + 1)
        .read_to_end(&mut value)
        .map_err(at("reading standard input"))?;
    if value.len() as u64 > INPUT_MAX {
        return Err(Failure::new(format_args!(
            "standard input is longer than the {} that a value may have",
            human(INPUT_MAX)
        )));
    }
    Ok(value)
}

/// Returns the words of the command to run. Refuses a word that looks like an exec option, instead
/// of silently passing it to the command.
fn words<'a>(arguments: &'a Exec, line: &[OsString]) -> Result<&'a [OsString], Failure> {
    let command = &arguments.command;
    let mut before = line.iter().rev().skip(command.len());
    if before.next().is_some_and(|word| word == "--") {
        return Ok(command);
    }
    // No command has a name that starts with a dash.
    if command[0].as_bytes().starts_with(b"-") {
        return Err(Failure::usage(format_args!(
            "unknown option '{}': undercroft help exec lists the options; put '--' before a \
             command that begins with '-'",
            command[0].display()
        )));
    }
    let ours = |word: &&OsString| {
        let name = word.to_str().map(|word| word.split('=').next());
        name.flatten().is_some_and(|name| OPTIONS.contains(&name))
    };
    match command.iter().find(ours) {
        None => Ok(command),
        Some(option) => Err(Failure::usage(format_args!(
            "{} follows the command {}: put options of exec before the command, or '--' if it is \
             an argument, as in: undercroft exec -- {} ... {0}",
            option.display(),
            command[0].display(),
            command[0].display(),
        ))),
    }
}

/// Appends a reply in the format that redis-cli uses when its output is not a terminal, with each
/// item on a separate line.
fn print_raw(reply: &Tree, out: &mut Vec<u8>) {
    let items = match reply {
        Tree::Array(items) | Tree::Set(items) | Tree::Push(items) => items,
        Tree::Map(pairs) => {
            for (key, value) in pairs {
                print_raw(key, out);
                print_raw(value, out);
            }
            return;
        }
        scalar => {
            match scalar {
                Tree::Bulk(bytes) | Tree::Simple(bytes) | Tree::Verbatim { text: bytes, .. } => {
                    out.extend(bytes);
                }
                Tree::Error(text) | Tree::Decimal(text) | Tree::BigNumber(text) => {
                    out.extend(text.bytes());
                }
                Tree::Integer(value) => out.extend(value.to_string().bytes()),
                Tree::Double(value) => {
                    out.extend_from_slice(&undercroft_numbers::double_text(*value));
                }
                Tree::Boolean(value) => {
                    out.extend(if *value { "(true)" } else { "(false)" }.bytes())
                }
                _ => {}
            }
            out.push(b'\n');
            return;
        }
    };
    // Print an empty array as an empty line, like redis-cli.
    if items.is_empty() {
        out.push(b'\n');
    }
    items.iter().for_each(|item| print_raw(item, out));
}
