//! Compares the complete data of two servers.

use std::collections::{BTreeMap, BTreeSet};
use std::io;

use crate::client::Client;
use crate::command::{Command, quote};
use crate::compare::{Rules, Verdict, compare};
use crate::resp::Reply;

/// The configured number of databases on both servers.
const DATABASES: usize = 16;

/// The commands sent for each key before the command that reads its value.
const QUESTIONS: [&[&str]; 3] = [&["TYPE"], &["OBJECT", "ENCODING"], &["PEXPIRETIME"]];

/// A description of one difference between the data sets.
pub type Finding = String;

/// Compares all databases: keys, types, values, encodings and expiry times. Returns a description
/// of the first difference, or `None` if the data sets are equal.
///
/// # Errors
/// Returns an error that names `judge` or `subject` if its connection breaks.
pub fn audit(
    judge: &mut Client,
    subject: &mut Client,
    rules: Rules,
) -> Result<Option<Finding>, (&'static str, io::Error)> {
    let of_judge = all_keys(judge).map_err(|e| ("judge", e))?;
    let of_subject = all_keys(subject).map_err(|e| ("subject", e))?;
    for database in 0..DATABASES {
        let (a, b) = (&of_judge[database], &of_subject[database]);
        if a != b {
            let show = |keys: BTreeSet<&Vec<u8>>| -> String {
                keys.into_iter()
                    .map(|k| quote(k, true))
                    .collect::<Vec<_>>()
                    .join(" ")
            };
            let missing = show(a.difference(b).collect());
            let extra = show(b.difference(a).collect());
            return Ok(Some(format!(
                "keys of database {database}: only the judge has [{missing}], only the subject [{extra}]"
            )));
        }
    }
    let mut questions = Vec::new();
    for (database, keys) in of_judge.iter().enumerate() {
        if !keys.is_empty() {
            questions.push(Command::of(["SELECT", &database.to_string()]));
        }
        for key in keys {
            for question in QUESTIONS {
                let mut args: Vec<Vec<u8>> =
                    question.iter().map(|w| w.as_bytes().to_vec()).collect();
                args.push(key.clone());
                questions.push(Command(args));
            }
        }
    }
    let first = ask(judge, subject, &questions, rules)?;
    let types = match first {
        Answers::Differ(finding) => return Ok(Some(finding)),
        Answers::Equal(replies) => types_of(&questions, &replies),
    };
    let mut readers = Vec::new();
    for ((database, key), kind) in types {
        readers.push(Command::of(["SELECT", &database.to_string()]));
        readers.push(reader(&kind, &key));
    }
    match ask(judge, subject, &readers, rules)? {
        Answers::Differ(finding) => Ok(Some(finding)),
        Answers::Equal(_) => Ok(None),
    }
}

/// Returns the command that reads a complete value of a type. Types without an arm here are read
/// with DUMP, and their payloads are compared byte by byte.
pub(crate) fn reader(kind: &str, key: &[u8]) -> Command {
    let key = key.to_vec();
    match kind {
        "string" => Command(vec![b"GET".to_vec(), key]),
        "list" => Command(vec![b"LRANGE".to_vec(), key, b"0".to_vec(), b"-1".to_vec()]),
        "hash" => Command(vec![b"HGETALL".to_vec(), key]),
        "zset" => {
            let all = ["0", "-1", "WITHSCORES"].map(|word| word.as_bytes().to_vec());
            Command([&[b"ZRANGE".to_vec(), key], &all[..]].concat())
        }
        "set" => Command(vec![b"SMEMBERS".to_vec(), key]),
        "stream" => {
            let all = ["FULL", "COUNT", "0"].map(|word| word.as_bytes().to_vec());
            Command([&[b"XINFO".to_vec(), b"STREAM".to_vec(), key], &all[..]].concat())
        }
        _ => Command(vec![b"DUMP".to_vec(), key]),
    }
}

enum Answers {
    Equal(Vec<Reply>),
    Differ(Finding),
}

fn ask(
    judge: &mut Client,
    subject: &mut Client,
    questions: &[Command],
    rules: Rules,
) -> Result<Answers, (&'static str, io::Error)> {
    let a = judge.pipeline(questions).map_err(|e| ("judge", e))?;
    let b = subject.pipeline(questions).map_err(|e| ("subject", e))?;
    let mut database = String::new();
    for (question, (a, b)) in questions.iter().zip(a.iter().zip(&b)) {
        if question.word(0) == "SELECT" {
            database = question.word(1);
        }
        match compare(question, a, b, rules) {
            Verdict::Same => {}
            verdict => {
                let why = match verdict {
                    Verdict::Different(why) if !why.is_empty() => format!("\n  {why}"),
                    _ => String::new(),
                };
                return Ok(Answers::Differ(format!(
                    "data in database {database}: {question}\n  judge:   {a}\n  subject: {b}{why}"
                )));
            }
        }
    }
    Ok(Answers::Equal(a))
}

type Place = (usize, Vec<u8>);

fn types_of(questions: &[Command], replies: &[Reply]) -> BTreeMap<Place, String> {
    let mut types = BTreeMap::new();
    let mut database = 0;
    for (question, reply) in questions.iter().zip(replies) {
        match question.word(0).as_str() {
            "SELECT" => database = question.word(1).parse().unwrap_or(database),
            "TYPE" => {
                let kind = String::from_utf8_lossy(reply.bytes().unwrap_or_default()).into_owned();
                types.insert((database, question.0[1].clone()), kind);
            }
            _ => {}
        }
    }
    types
}

fn all_keys(client: &mut Client) -> io::Result<Vec<BTreeSet<Vec<u8>>>> {
    let mut commands = Vec::new();
    for database in 0..DATABASES {
        commands.push(Command::of(["SELECT", &database.to_string()]));
        commands.push(Command::of(["KEYS", "*"]));
    }
    let replies = client.pipeline(&commands)?;
    let keys = |reply: &Reply| {
        let items = reply.items().ok_or_else(|| {
            let what = format!("expected an array from KEYS *, got {reply}");
            io::Error::new(io::ErrorKind::InvalidData, what)
        })?;
        Ok(items
            .iter()
            .filter_map(|k| k.bytes().map(<[u8]>::to_vec))
            .collect())
    };
    replies.iter().skip(1).step_by(2).map(keys).collect()
}
