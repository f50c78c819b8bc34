//! `undercroft exec`.

use std::io::{IsTerminal, Write};
use std::os::unix::ffi::OsStrExt;
use std::process::ExitCode;

use undercroft_commands::print::print;
use undercroft_commands::reply::{Recorder, Tree};
use undercroft_commands::session::{Host, Protocol, Session};
use undercroft_commands::{Context, execute};

use crate::arguments::Exec;
use crate::failure::{Failure, Outcome, at};
use crate::host::CommandLine;
use crate::store::{self, Access};

pub(crate) fn run(arguments: &Exec) -> Outcome {
    if arguments.database as usize >= undercroft_engine::DATABASES {
        return Err(Failure::usage(format_args!(
            "expected a database below {}, got {}",
            undercroft_engine::DATABASES,
            arguments.database
        )));
    }
    let store = store::open(&arguments.store.store, Access::Write)?;
    let host = CommandLine::new();
    let now = host.now_microseconds() / 1000;
    let mut session = Session::new(1, host.initial_user(), now);
    session.database = arguments.database;
    let words: Vec<&[u8]> = arguments
        .command
        .iter()
        .map(|word| word.as_bytes())
        .collect();
    let mut recorder = Recorder::new();
    let mut context = Context::new(&mut session, &host, &store);
    execute(&mut context, &words, &mut recorder).map_err(Failure::new)?;
    let replies = recorder
        .finish()
        .map_err(|missing| Failure::new(format_args!("the reply lacks {missing} of its parts")))?;
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
    let mut out = std::io::stdout().lock();
    match out.write_all(&text).and_then(|()| out.flush()) {
        // Who reads it has seen enough.
        Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => {}
        result => result.map_err(at("writing the reply"))?,
    }
    Ok(if failed {
        ExitCode::FAILURE
    } else {
        ExitCode::SUCCESS
    })
}

/// Appends a reply as redis-cli does where its output is no terminal: each item on a line of its own.
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
                Tree::Bulk(bytes) | Tree::Verbatim { text: bytes, .. } => out.extend(bytes),
                Tree::Simple(text)
                | Tree::Error(text)
                | Tree::Decimal(text)
                | Tree::BigNumber(text) => {
                    out.extend(text.bytes());
                }
                Tree::Integer(value) => out.extend(value.to_string().bytes()),
                Tree::Double(value) => {
                    out.extend(undercroft_commands::number::double_text(*value).bytes());
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
    // An empty array is an empty line, as there.
    if items.is_empty() {
        out.push(b'\n');
    }
    items.iter().for_each(|item| print_raw(item, out));
}
