//! Implements `undercroft list` and `undercroft rm`.

use std::fs;
use std::io::IsTerminal;
use std::path::Path;

use undercroft_engine::{DATABASES, Store, User, list_stores, remove_journal, remove_sockets};

use crate::arguments::Remove;
use crate::failure::{Failure, Outcome, SUCCESS, at};
use crate::out::{say, tell};
use crate::processes::described;
use crate::size::{counted, grouped, human};
use crate::store;

/// A row in the list of stores.
struct Row {
    name: String,
    keys: String,
    data: String,
    writers: String,
    readers: String,
}

pub(crate) fn list() -> Outcome {
    let stores = list_stores().map_err(at("reading the directory of stores"))?;
    if stores.is_empty() {
        say!("no stores in shared memory; undercroft serve creates undercroft://default");
        return Ok(SUCCESS);
    }
    let rows: Vec<Row> = stores.iter().map(|(name, path)| row(name, path)).collect();
    let widest = |field: fn(&Row) -> &str, title: &str| {
        let widths = rows.iter().map(|row| field(row).chars().count());
        widths.max().unwrap_or(0).max(title.len())
    };
    let name = widest(|row| &row.name, "store");
    let keys = widest(|row| &row.keys, "keys");
    let data = widest(|row| &row.data, "data");
    say!(
        "{:<name$}  {:>keys$}  {:>data$}  writers  readers",
        "store",
        "keys",
        "data"
    );
    for row in &rows {
        let Row {
            writers, readers, ..
        } = row;
        // If a store has an error, the message replaces the columns for writers and readers.
        let users = format!("{writers:<7}  {readers}");
        say!(
            "{:<name$}  {:>keys$}  {:>data$}  {}",
            row.name,
            row.keys,
            row.data,
            users.trim_end()
        );
    }
    Ok(SUCCESS)
}

fn row(name: &str, path: &Path) -> Row {
    let name = format!("undercroft://{name}");
    let figures = Store::open(path, false).and_then(|store| {
        let mut keys = 0;
        for database in 0..DATABASES {
            keys += store.count_keys(database)?;
        }
        let users = store.users()?;
        let writers = users.iter().filter(|user| user.member.is_some()).count();
        let readers = users.len() - writers;
        Ok((keys, store.statistics().used, writers, readers))
    });
    match figures {
        Ok((keys, data, writers, readers)) => Row {
            name,
            keys: grouped(keys),
            data: human(data),
            writers: writers.to_string(),
            readers: readers.to_string(),
        },
        Err(error) => Row {
            name,
            keys: "?".into(),
            data: "?".into(),
            writers: error.to_string(),
            readers: String::new(),
        },
    }
}

pub(crate) fn remove(arguments: &Remove) -> Outcome {
    let text = store::full_name(&arguments.store);
    let name = store::parse(&text)?;
    let mut journal = store::journal_of(&name);
    if let Some(folder) = journal.as_ref().filter(|_| !name.path.exists()) {
        remove_journal(folder).map_err(at(format_args!("removing {}", folder.display())))?;
        say!("removed the journal of {text}; its store was gone");
        return Ok(SUCCESS);
    }
    let status = store::must_be_there(&text, &name)?;
    let question = match Store::open(&name.path, false) {
        Ok(store) => {
            journal = store.journal().map(|journal| journal.folder).or(journal);
            in_use(&store.users()?)
        }
        // No process can open a store that was not synced, so it has no users.
        Err(error) if error.is_unclean() => None,
        // Do not remove a file that is a store in name only, unless it is a regular file and the
        // user confirmed with --yes.
        Err(error) if !arguments.yes || !name.named || !status.is_file() => {
            return Err(Failure::new(format_args!("{error}; it was not removed")));
        }
        Err(_) => None,
    };
    if let Some(question) = question.filter(|_| !arguments.yes) {
        confirm(&format!("{text} {question}"))?;
    }
    // Otherwise the next process that opens the store would recover it.
    if let Some(folder) = &journal {
        remove_journal(folder).map_err(at(format_args!("removing {}", folder.display())))?;
    }
    fs::remove_file(&name.path).map_err(at(format_args!("removing {}", name.path.display())))?;
    remove_sockets(&name.path).map_err(at("removing the sockets of subscribers"))?;
    say!("removed {text}");
    Ok(SUCCESS)
}

/// Describes the processes that use the store. Returns `None` if no process uses it.
fn in_use(users: &[User]) -> Option<String> {
    let [first, others @ ..] = users else {
        return None;
    };
    let others = match others.len() {
        0 => String::new(),
        count => format!(" and {}", counted(count as u64, "other")),
    };
    Some(format!("is in use by {}{others}", described(first)))
}

/// Asks for confirmation on a terminal. Refuses if standard input is not a terminal.
fn confirm(state: &str) -> Result<(), Failure> {
    let kept = "it was not removed";
    if !std::io::stdin().is_terminal() {
        return Err(Failure::new(format_args!(
            "{state}: {kept}; use --yes to remove it anyway"
        )));
    }
    tell(format_args!("{state}. Remove it? [y/N] "));
    let mut answer = String::new();
    std::io::stdin()
        .read_line(&mut answer)
        .map_err(at("reading the answer"))?;
    if matches!(answer.trim(), "y" | "Y" | "yes") {
        Ok(())
    } else {
        Err(Failure::new(kept))
    }
}
