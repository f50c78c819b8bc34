//! Implements COMMAND and its subcommands, which describe the command table to clients.

use undercroft_engine::glob::{Case, matches};

use crate::arguments::{CommandError, is_keyword};
use crate::context::{Context, HandlerEntry};
use crate::failure::Failure;
use crate::reply::Reply;
use crate::table::{
    Argument, Category, Command, Flag, KeyFlag, KeyFlags, KeySpec, Kind, resolve_name,
};

/// Maps each command in this file to its handler.
pub(crate) const HANDLERS: &[HandlerEntry] = &[
    ("command", command),
    ("command|count", count),
    ("command|docs", docs),
    ("command|info", info),
    ("command|list", list),
    ("command|getkeys", get_keys),
    ("command|getkeysandflags", get_keys_and_flags),
];

/// Handles COMMAND.
fn command(context: &mut Context<'_>, _: &[&[u8]], reply: &mut dyn Reply) -> Result<(), Failure> {
    reply.array(context.callable().count());
    context
        .callable()
        .for_each(|command| write_info(command, reply));
    Ok(())
}

/// Handles COMMAND COUNT.
fn count(context: &mut Context<'_>, _: &[&[u8]], reply: &mut dyn Reply) -> Result<(), Failure> {
    reply.integer(context.callable().count() as i64);
    Ok(())
}

/// Handles `COMMAND INFO [name ...]`.
fn info(
    context: &mut Context<'_>,
    arguments: &[&[u8]],
    reply: &mut dyn Reply,
) -> Result<(), Failure> {
    let names = arguments.get(2..).unwrap_or_default();
    if names.is_empty() {
        return command(context, arguments, reply);
    }
    reply.array(names.len());
    for name in names {
        match context.find_full(name) {
            Some(command) => write_info(command, reply),
            None => reply.null(),
        }
    }
    Ok(())
}

/// Handles `COMMAND DOCS [name ...]`.
fn docs(
    context: &mut Context<'_>,
    arguments: &[&[u8]],
    reply: &mut dyn Reply,
) -> Result<(), Failure> {
    let names = arguments.get(2..).unwrap_or_default();
    let found: Vec<&Command> = if names.is_empty() {
        context.callable().collect()
    } else {
        // Unknown commands are omitted from the reply.
        let found = names.iter().filter_map(|name| context.find_full(name));
        found.collect()
    };
    write_docs(&found, reply);
    Ok(())
}

/// Handles `COMMAND LIST [FILTERBY MODULE name | ACLCAT category | PATTERN pattern]`.
fn list(
    context: &mut Context<'_>,
    arguments: &[&[u8]],
    reply: &mut dyn Reply,
) -> Result<(), Failure> {
    let filter: Box<dyn Fn(&Command) -> bool> = match arguments.get(2..).unwrap_or_default() {
        [] => Box::new(|_| true),
        // Undercroft does not support modules, so this filter matches no command.
        [by, what, _] if is_keyword(by, "FILTERBY") && is_keyword(what, "MODULE") => {
            Box::new(|_| false)
        }
        [by, what, name] if is_keyword(by, "FILTERBY") && is_keyword(what, "ACLCAT") => {
            let name = *name;
            let category = Category::ALL
                .iter()
                .copied()
                .find(|category| is_keyword(name, category.name()));
            Box::new(move |command| {
                category.is_some_and(|category| command.categories.has(category))
            })
        }
        [by, what, pattern] if is_keyword(by, "FILTERBY") && is_keyword(what, "PATTERN") => {
            let pattern = *pattern;
            Box::new(move |command| {
                matches(pattern, command.name.as_bytes(), Case::Insensitive) == Ok(true)
            })
        }
        _ => return Err(CommandError::SYNTAX.into()),
    };
    let names: Vec<&str> = context
        .callable()
        .flat_map(|command| std::iter::once(command).chain(command.subcommands))
        .filter(|command| filter(command))
        .map(|command| command.name)
        .collect();
    reply.array(names.len());
    names.iter().for_each(|name| reply.bulk(name.as_bytes()));
    Ok(())
}

/// Handles `COMMAND GETKEYS command argument ...`.
fn get_keys(
    context: &mut Context<'_>,
    arguments: &[&[u8]],
    reply: &mut dyn Reply,
) -> Result<(), Failure> {
    let words = context.true_words(&arguments[2..]);
    let keys = keys_of(&words)?;
    reply.array(keys.len());
    keys.iter().for_each(|(key, _)| reply.bulk(key));
    Ok(())
}

/// Handles `COMMAND GETKEYSANDFLAGS command argument ...`.
fn get_keys_and_flags(
    context: &mut Context<'_>,
    arguments: &[&[u8]],
    reply: &mut dyn Reply,
) -> Result<(), Failure> {
    let words = context.true_words(&arguments[2..]);
    let keys = keys_of(&words)?;
    reply.array(keys.len());
    for (key, flags) in keys {
        reply.array(2);
        reply.bulk(key);
        write_key_flags(flags, reply);
    }
    Ok(())
}

fn keys_of<'a>(arguments: &'a [&'a [u8]]) -> Result<Vec<(&'a [u8], KeyFlags)>, CommandError> {
    let unknown = CommandError::fixed("ERR Invalid command specified");
    let command = resolve_name(arguments).map_err(|_| unknown)?;
    // Like keys, shard channels determine the cluster node, but they are not keys.
    if command
        .keys
        .iter()
        .all(|spec| spec.flags.has(KeyFlag::NotKey))
    {
        return Err(CommandError::fixed("ERR The command has no key arguments"));
    }
    if !command.accepts(arguments.len()) {
        return Err(CommandError::fixed(
            "ERR Invalid number of arguments specified for command",
        ));
    }
    let keys: Vec<_> = command.keys_of(arguments).collect();
    if keys.is_empty() || !command.has_all_keys(arguments) {
        if command.flags.has(Flag::NoMandatoryKeys) {
            return Ok(Vec::new());
        }
        return Err(CommandError::fixed(
            "ERR Invalid arguments specified for command",
        ));
    }
    Ok(keys)
}

/// Writes words as a set of simple strings, which is how COMMAND INFO represents flags.
fn write_words(words: &[&str], reply: &mut dyn Reply) {
    reply.set(words.len());
    words.iter().for_each(|word| reply.simple(word));
}

fn write_key_flags(flags: KeyFlags, reply: &mut dyn Reply) {
    write_words(
        &flags.iter().map(|flag| flag.name()).collect::<Vec<_>>(),
        reply,
    );
}

fn write_info(command: &Command, reply: &mut dyn Reply) {
    let (first, last, step) = command.key_range();
    reply.array(10);
    reply.bulk(command.name.as_bytes());
    reply.integer(command.arity.into());
    write_words(
        &command
            .flags
            .iter()
            .map(|flag| flag.name())
            .collect::<Vec<_>>(),
        reply,
    );
    reply.integer(first);
    reply.integer(last);
    reply.integer(step);
    let categories: Vec<String> = command
        .categories
        .iter()
        .map(|category| format!("@{}", category.name()))
        .collect();
    write_words(
        &categories.iter().map(String::as_str).collect::<Vec<_>>(),
        reply,
    );
    reply.array(command.tips.len());
    command
        .tips
        .iter()
        .for_each(|tip| reply.bulk(tip.as_bytes()));
    reply.set(command.keys.len());
    command
        .keys
        .iter()
        .for_each(|spec| write_key_spec(spec, reply));
    reply.array(command.subcommands.len());
    command
        .subcommands
        .iter()
        .for_each(|command| write_info(command, reply));
}

fn write_key_spec(spec: &KeySpec, reply: &mut dyn Reply) {
    reply.map(3 + usize::from(spec.notes.is_some()));
    if let Some(notes) = spec.notes {
        reply.bulk(b"notes");
        reply.bulk(notes.as_bytes());
    }
    reply.bulk(b"flags");
    write_key_flags(spec.flags, reply);
    if spec.unknown {
        for step in ["begin_search", "find_keys"] {
            reply.bulk(step.as_bytes());
            reply.map(2);
            reply.bulk(b"type");
            reply.bulk(b"unknown");
            reply.bulk(b"spec");
            reply.map(0);
        }
        return;
    }
    reply.bulk(b"begin_search");
    reply.map(2);
    reply.bulk(b"type");
    if let Some((word, from)) = spec.keyword {
        reply.bulk(b"keyword");
        reply.bulk(b"spec");
        reply.map(2);
        reply.bulk(b"keyword");
        reply.bulk(word.as_bytes());
        reply.bulk(b"startfrom");
        reply.integer(from.into());
    } else {
        reply.bulk(b"index");
        reply.bulk(b"spec");
        reply.map(1);
        reply.bulk(b"index");
        reply.integer(spec.first as i64);
    }
    reply.bulk(b"find_keys");
    reply.map(2);
    reply.bulk(b"type");
    if spec.counted {
        reply.bulk(b"keynum");
        reply.bulk(b"spec");
        reply.map(3);
        reply.bulk(b"keynumidx");
        reply.integer(0);
        reply.bulk(b"firstkey");
        reply.integer(1);
        reply.bulk(b"keystep");
        reply.integer(spec.step as i64);
        return;
    }
    reply.bulk(b"range");
    reply.bulk(b"spec");
    reply.map(3);
    reply.bulk(b"lastkey");
    reply.integer(spec.last.into());
    reply.bulk(b"keystep");
    reply.integer(spec.step as i64);
    reply.bulk(b"limit");
    reply.integer(if spec.half { 2 } else { 0 });
}

fn write_docs(commands: &[&Command], reply: &mut dyn Reply) {
    reply.map(commands.len());
    for command in commands {
        reply.bulk(command.name.as_bytes());
        let mut fields = vec![
            ("summary", command.summary),
            ("since", command.since),
            ("group", command.group.name()),
            ("complexity", command.complexity),
        ];
        if !command.syntax.is_empty() {
            fields.push(("syntax", command.syntax));
        }
        if let Some((since, instead)) = command.deprecated {
            fields.extend([("deprecated_since", since), ("replaced_by", instead)]);
        }
        let doc_flag = match (command.deprecated, command.system) {
            (Some(_), _) => Some("deprecated"),
            (None, true) => Some("syscmd"),
            (None, false) => None,
        };
        let arguments = command.arguments();
        reply.map(
            fields.len()
                + usize::from(doc_flag.is_some())
                + usize::from(!arguments.is_empty())
                + usize::from(!command.subcommands.is_empty()),
        );
        for (name, text) in fields {
            reply.bulk(name.as_bytes());
            reply.bulk(text.as_bytes());
        }
        if let Some(flag) = doc_flag {
            reply.bulk(b"doc_flags");
            write_words(&[flag], reply);
        }
        if !arguments.is_empty() {
            reply.bulk(b"arguments");
            write_arguments(&arguments, reply);
        }
        if !command.subcommands.is_empty() {
            reply.bulk(b"subcommands");
            write_docs(&command.subcommands.iter().collect::<Vec<_>>(), reply);
        }
    }
}

fn write_arguments(arguments: &[Argument], reply: &mut dyn Reply) {
    reply.array(arguments.len());
    for argument in arguments {
        let flags = [
            (argument.optional, "optional"),
            (argument.multiple, "multiple"),
            (argument.multiple_token, "multiple_token"),
        ];
        let flags: Vec<&str> = flags
            .iter()
            .filter_map(|(is, name)| is.then_some(*name))
            .collect();
        let is_group = matches!(argument.kind, Kind::OneOf | Kind::Block);
        reply.map(
            2 + usize::from(argument.key_spec.is_some())
                + usize::from(argument.token.is_some())
                + usize::from(!flags.is_empty())
                + usize::from(is_group),
        );
        reply.bulk(b"name");
        reply.bulk(argument.name.as_bytes());
        reply.bulk(b"type");
        reply.bulk(argument.kind.name().as_bytes());
        if let Some(index) = argument.key_spec {
            reply.bulk(b"key_spec_index");
            reply.integer(index as i64);
        }
        if let Some(token) = argument.token {
            reply.bulk(b"token");
            reply.bulk(token.as_bytes());
        }
        if !flags.is_empty() {
            reply.bulk(b"flags");
            write_words(&flags, reply);
        }
        if is_group {
            reply.bulk(b"arguments");
            write_arguments(&argument.parts, reply);
        }
    }
}
