//! Records the items that a command removes from the store and returns, so that they can be
//! restored if they do not reach the caller (M9).
//!
//! After a command commits, the reply can fail to reach the caller, because a signal handler raises
//! an exception or a string cannot be decoded. The language binding then has a [`Taken`] with the
//! command's words and its complete reply. With it, the binding restores list items in order at the
//! end from which they were removed, and members with their scores.

use undercroft_commands::reply::{Recorder, Tree};
use undercroft_commands::session::Session;
use undercroft_engine::{defer_signals, unlimited_patience};
use undercroft_numbers::double_text;

use crate::open_store::OpenStore;

/// The maximum number of attempts to restore items. A concurrent change can make an attempt fail.
const TRIES: usize = 64;

/// The kind of items that a command's reply contains and that are no longer in the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Holds {
    /// Items from the left or right end of the list named by the first argument.
    Items { left: bool },
    /// The name of a list, and one item from its left or right end.
    KeyAndItem { left: bool },
    /// The name of a list, and its items. The argument LEFT or RIGHT names the end.
    KeyAndItems,
    /// Members of the set named by the first argument.
    Members,
    /// Members and scores of the sorted set named by the first argument.
    Scores,
    /// The name of a sorted set, and its members with their scores.
    KeyAndScores,
    /// The string of the key named by the first argument.
    Text,
    /// The old string, which a new string has replaced.
    Replaced,
    /// Stream entries that the command marked as delivered to a consumer group.
    Entries,
    /// Values of the feed named by the first argument.
    Values,
}

/// The commands that remove items from the store and return them. The test
/// `every_write_command_is_classified_as_taking_or_not` compares this list with the table of
/// commands.
const TAKING: &[(&str, Holds)] = &[
    ("blmpop", Holds::KeyAndItems),
    ("blpop", Holds::KeyAndItem { left: true }),
    ("brpop", Holds::KeyAndItem { left: false }),
    ("bzmpop", Holds::KeyAndScores),
    ("bzpopmax", Holds::KeyAndScores),
    ("bzpopmin", Holds::KeyAndScores),
    ("feed.pop", Holds::Values),
    ("getdel", Holds::Text),
    ("getset", Holds::Replaced),
    ("lmpop", Holds::KeyAndItems),
    ("lpop", Holds::Items { left: true }),
    ("rpop", Holds::Items { left: false }),
    ("set", Holds::Replaced),
    ("spop", Holds::Members),
    ("xreadgroup", Holds::Entries),
    ("zmpop", Holds::KeyAndScores),
    ("zpopmax", Holds::Scores),
    ("zpopmin", Holds::Scores),
];

/// Returns the names of the commands that remove items from the store and return them.
pub fn taking() -> impl Iterator<Item = &'static str> {
    TAKING.iter().map(|(name, _)| *name)
}

/// Returns the kind of items that a command removes from the store and returns, or `None` if it
/// removes none.
#[inline]
fn holds(words: &[&[u8]]) -> Option<Holds> {
    let name = words.first()?;
    // Checking the first letter excludes most commands.
    let begins = name.first()?.to_ascii_lowercase();
    if !matches!(
        begins,
        b'b' | b'f' | b'g' | b'l' | b'r' | b's' | b'x' | b'z'
    ) {
        return None;
    }
    // Checking the lengths excludes GET, and SET without the GET option.
    if name.len() == "set".len() && (words.len() < 4 || begins != b's') {
        return None;
    }
    let found = TAKING
        .iter()
        .find(|(other, _)| name.eq_ignore_ascii_case(other.as_bytes()));
    let (_, holds) = *found?;
    match holds {
        // SET returns the old string only with the GET option.
        Holds::Replaced if words.len() > 3 => has(&words[3..], "GET").then_some(holds),
        Holds::Replaced if name.len() == "set".len() => None,
        _ => Some(holds),
    }
}

fn has(words: &[&[u8]], option: &str) -> bool {
    words
        .iter()
        .any(|word| word.eq_ignore_ascii_case(option.as_bytes()))
}

/// The items that a command removed from the store.
#[derive(Clone, Debug)]
pub struct Taken {
    holds: Holds,
    database: u32,
    words: Vec<Vec<u8>>,
    reply: Tree,
    /// The expiry time of the removed string, in Unix milliseconds, or a negative number if the
    /// string had no expiry.
    expires: i64,
    /// The items of the feed before the command: values with their attributes.
    items: Option<Tree>,
}

type Words = Vec<Vec<u8>>;

/// A function that runs a command on the store.
type Ask<'a> = dyn FnMut(&[&[u8]]) -> Option<Tree> + 'a;

impl Taken {
    /// Records stream entries that a typed call delivered to a consumer of a group.
    pub fn entries(
        database: usize,
        [stream, group, consumer]: [&[u8]; 3],
        is_acknowledged: bool,
        ids: impl Iterator<Item = String>,
    ) -> Taken {
        let mut words: Vec<&[u8]> = vec![b"XREADGROUP", b"GROUP", group, consumer];
        if is_acknowledged {
            words.push(b"NOACK");
        }
        words.extend([b"STREAMS", stream, b">"]);
        let bulk = |text: &[u8]| Tree::Bulk(text.to_vec());
        let entries = ids
            .map(|id| Tree::Array(vec![Tree::Bulk(id.into_bytes())]))
            .collect();
        Taken {
            holds: Holds::Entries,
            database: database as u32,
            words: words_of(&words),
            reply: Tree::Array(vec![Tree::Array(vec![bulk(stream), Tree::Array(entries)])]),
            expires: -1,
            items: None,
        }
    }

    /// Records the items that a command removed, as its reply contains them. Returns `None` if the
    /// command removes no items. `expires` is the expiry time of a removed string, in Unix
    /// milliseconds.
    pub fn of(
        database: usize,
        words: &[&[u8]],
        reply: Tree,
        expires: Option<u64>,
    ) -> Option<Taken> {
        Some(Taken {
            holds: holds(words)?,
            database: database as u32,
            words: words_of(words),
            reply,
            expires: expires.map_or(-1, |at| at as i64),
            items: None,
        })
    }

    /// Replaces the recorded reply with the complete reply of the command.
    pub fn with_reply(mut self, reply: Tree) -> Taken {
        self.reply = reply;
        self
    }

    /// Returns the reply of the command.
    pub fn reply(&self) -> &Tree {
        &self.reply
    }

    /// Returns the commands that restore the items, or `None` if the command removed no items.
    fn commands(&self, ask: &mut Ask<'_>) -> Option<Vec<Words>> {
        let found = leaves(&self.reply);
        if found.is_empty() || matches!(self.reply, Tree::Error(_)) {
            return None;
        }
        let key = || self.words.get(1).cloned().unwrap_or_default();
        let command = |name: &str, key: Vec<u8>, rest: Words| {
            let mut words = vec![name.as_bytes().to_vec(), key];
            words.extend(rest);
            words
        };
        let pushed = |left: bool, key: Vec<u8>, mut items: Words| {
            items.reverse();
            command(if left { "LPUSH" } else { "RPUSH" }, key, items)
        };
        let scored = |key: Vec<u8>, members: &[Vec<u8>]| {
            let mut rest = vec![b"NX".to_vec()];
            for pair in members.chunks_exact(2) {
                rest.extend([pair[1].clone(), pair[0].clone()]);
            }
            command("ZADD", key, rest)
        };
        let (first, rest) = found.split_first()?;
        let commands = match self.holds {
            Holds::Items { left } => vec![pushed(left, key(), found)],
            Holds::KeyAndItem { left } => vec![pushed(left, first.clone(), rest.to_vec())],
            Holds::KeyAndItems => {
                let is_left = |word: &&Vec<u8>| word.eq_ignore_ascii_case(b"left");
                let is_end = |word: &&Vec<u8>| is_left(word) || word.eq_ignore_ascii_case(b"right");
                // LEFT or RIGHT follows the keys. Only a count can follow LEFT or RIGHT.
                let end = self.words.iter().rfind(is_end);
                let left = end.as_ref().is_none_or(is_left);
                vec![pushed(left, first.clone(), rest.to_vec())]
            }
            Holds::Members => vec![command("SADD", key(), found)],
            Holds::Scores => vec![scored(key(), &found)],
            Holds::KeyAndScores => vec![scored(first.clone(), rest)],
            Holds::Text => vec![command("SET", key(), self.text_again(first, "NX"))],
            Holds::Replaced => {
                let key = key();
                ask(&[b"WATCH", &key])?;
                // If another client has set the key in the meantime, do not restore the old string.
                let now = ask(&[b"GET", &key]).as_ref().and_then(text);
                if now.as_ref() != self.words.get(2) {
                    return None;
                }
                vec![command("SET", key, self.text_again(first, "XX"))]
            }
            Holds::Entries => return self.entries_again(ask),
            Holds::Values => vec![self.values_again(key(), found, ask)],
        };
        Some(commands)
    }

    /// Returns the arguments of a SET command that restores a string and its expiry.
    fn text_again(&self, value: &[u8], condition: &str) -> Words {
        let mut words = vec![value.to_vec(), condition.as_bytes().to_vec()];
        if self.expires > 0 {
            words.extend([b"PXAT".to_vec(), self.expires.to_string().into_bytes()]);
        }
        words
    }

    /// Returns the command that restores items of a feed with their attributes, at the end from
    /// which they were removed.
    fn values_again(&self, key: Vec<u8>, mut values: Words, ask: &mut Ask<'_>) -> Words {
        let left = !self
            .words
            .get(2)
            .is_some_and(|end| end.eq_ignore_ascii_case(b"right"));
        let known = self.items.as_ref().map(leaves).unwrap_or_default();
        let info = ask(&[b"FEED.INFO", &key])
            .as_ref()
            .map(leaves)
            .unwrap_or_default();
        let mut order = info.windows(2).filter(|pair| pair[0] == b"order");
        let is_sorted = order.any(|pair| pair[1] == b"sorted");
        let place: &[u8] = match (is_sorted, left) {
            (true, _) => b"*",
            (false, true) => b"0",
            (false, false) => b"-1",
        };
        if !left {
            values.reverse();
        }
        let mut words = vec![b"FEED.ADD".to_vec(), key, place.to_vec()];
        for value in values {
            let attributes = known.chunks_exact(2).find(|pair| pair[0] == value);
            words.push(value);
            if let Some([_, attributes]) = attributes
                && !attributes.is_empty()
            {
                words.extend([b"ATTRS".to_vec(), attributes.clone()]);
            }
        }
        words
    }

    /// Returns the commands that reset the group, so that it delivers the stream entries again. If
    /// the group has delivered later entries in the meantime, the entries remain pending, and
    /// XAUTOCLAIM can find them.
    fn entries_again(&self, ask: &mut Ask<'_>) -> Option<Vec<Words>> {
        let streams: Vec<(&Tree, &Tree)> = match &self.reply {
            Tree::Map(pairs) => pairs
                .iter()
                .map(|(name, entries)| (name, entries))
                .collect(),
            Tree::Array(items) => items
                .iter()
                .filter_map(|item| match item {
                    Tree::Array(pair) => Some((pair.first()?, pair.get(1)?)),
                    _ => None,
                })
                .collect(),
            _ => return None,
        };
        let words: Vec<&[u8]> = self.words.iter().map(Vec::as_slice).collect();
        let (group, consumer) = (*words.get(2)?, *words.get(3)?);
        let streams_at = words
            .iter()
            .position(|word| word.eq_ignore_ascii_case(b"STREAMS"))?;
        let named = &words[streams_at + 1..];
        let (names, behind) = named.split_at(named.len() / 2);
        let is_acknowledged = has(&words[4..streams_at], "NOACK");
        let mut commands = Vec::new();
        for (name, entries) in streams {
            let (name, Tree::Array(entries)) = (text(name)?, entries) else {
                continue;
            };
            let place = names.iter().position(|other| *other == name);
            if place.and_then(|place| behind.get(place)) != Some(&&b">"[..]) {
                // These entries were already pending before the command, and still are.
                continue;
            }
            let ids: Words = entries
                .iter()
                .filter_map(|entry| match entry {
                    Tree::Array(parts) => parts.first().and_then(text),
                    _ => None,
                })
                .collect();
            let (Some(first), Some(last)) = (ids.first(), ids.last()) else {
                continue;
            };
            ask(&[b"WATCH", &name])?;
            let (delivered, read) = group_state(ask, &name, group)?;
            let start = |command: &[u8]| vec![command.to_vec(), name.clone(), group.to_vec()];
            if delivered == *last {
                if !is_acknowledged {
                    let mut gone = start(b"XACK");
                    gone.extend(ids.iter().cloned());
                    commands.push(gone);
                }
                let mut set = vec![b"XGROUP".to_vec(), b"SETID".to_vec(), name.clone()];
                set.extend([group.to_vec(), before(first)?]);
                if let Some(read) = read {
                    let read = read.saturating_sub(ids.len() as i64).max(0);
                    set.extend([b"ENTRIESREAD".to_vec(), read.to_string().into_bytes()]);
                }
                commands.push(set);
            } else if is_acknowledged {
                let mut pending = start(b"XCLAIM");
                pending.extend([consumer.to_vec(), b"0".to_vec()]);
                pending.extend(ids.iter().cloned());
                pending.extend([b"FORCE".to_vec(), b"JUSTID".to_vec()]);
                commands.push(pending);
            }
        }
        (!commands.is_empty()).then_some(commands)
    }
}

/// Returns the last id that a consumer group delivered, and the number of entries that the group
/// has read, if known.
fn group_state(ask: &mut Ask<'_>, name: &[u8], group: &[u8]) -> Option<(Vec<u8>, Option<i64>)> {
    let Tree::Array(groups) = ask(&[b"XINFO", b"GROUPS", name])? else {
        return None;
    };
    groups.iter().find_map(|found| {
        let pairs: Vec<(Vec<u8>, &Tree)> = match found {
            Tree::Map(pairs) => pairs
                .iter()
                .filter_map(|(name, value)| Some((text(name)?, value)))
                .collect(),
            Tree::Array(items) => items
                .chunks_exact(2)
                .filter_map(|pair| Some((text(&pair[0])?, &pair[1])))
                .collect(),
            _ => return None,
        };
        let field = |name: &str| pairs.iter().find(|(other, _)| other == name.as_bytes());
        if text(field("name")?.1)? != group {
            return None;
        }
        let read = match field("entries-read").map(|(_, value)| value) {
            Some(Tree::Integer(read)) => Some(*read),
            _ => None,
        };
        Some((text(field("last-delivered-id")?.1)?, read))
    })
}

/// Returns the largest id that is smaller than `id`.
fn before(id: &[u8]) -> Option<Vec<u8>> {
    let (time, number) = str::from_utf8(id).ok()?.split_once('-')?;
    let (time, number): (u64, u64) = (time.parse().ok()?, number.parse().ok()?);
    let (time, number) = match number.checked_sub(1) {
        Some(number) => (time, number),
        None => (time.checked_sub(1)?, u64::MAX),
    };
    Some(format!("{time}-{number}").into_bytes())
}

fn words_of(words: &[&[u8]]) -> Words {
    words.iter().map(|word| word.to_vec()).collect()
}

/// Returns the bytes of a reply that is not a collection.
fn text(tree: &Tree) -> Option<Vec<u8>> {
    Some(match tree {
        Tree::Bulk(bytes) | Tree::Simple(bytes) => bytes.clone(),
        Tree::Decimal(text) | Tree::BigNumber(text) => text.clone().into_bytes(),
        Tree::Integer(value) => value.to_string().into_bytes(),
        Tree::Double(value) => double_text(*value).to_vec(),
        _ => return None,
    })
}

/// Returns all strings in a reply, in order and at any nesting depth.
fn leaves(tree: &Tree) -> Words {
    match tree {
        Tree::Array(items) | Tree::Set(items) | Tree::Push(items) => {
            items.iter().flat_map(leaves).collect()
        }
        Tree::Map(pairs) => {
            let both = pairs.iter().flat_map(|(name, value)| [name, value]);
            both.flat_map(leaves).collect()
        }
        leaf => text(leaf).into_iter().collect(),
    }
}

impl OpenStore {
    /// Prepares to record the items that a command removes. Reads state that the reply does not
    /// contain, such as an expiry. Returns `None` if the command removes no items.
    #[inline]
    pub fn taking(&self, session: &Session, words: &[&[u8]]) -> Option<Taken> {
        holds(words).map(|holds| self.before_taking(holds, session, words))
    }

    fn before_taking(&self, holds: Holds, session: &Session, words: &[&[u8]]) -> Taken {
        let mut taken = Taken {
            holds,
            database: session.database,
            words: words_of(words),
            reply: Tree::Null,
            expires: -1,
            items: None,
        };
        match (holds, words.get(1)) {
            (Holds::Text | Holds::Replaced, Some(key)) => {
                // Ignore an error, because the command itself will report it.
                let found = self.store.access().expiry(taken.database as usize, key);
                if let Ok(Some(Some(at))) = found {
                    taken.expires = at as i64;
                }
            }
            (Holds::Values, Some(key)) => {
                let count = words.get(3).copied().unwrap_or(b"1");
                let mut asked: Vec<&[u8]> = vec![b"FEED.RANGE", key, b"0", count, b"WITHATTRS"];
                if words
                    .get(2)
                    .is_some_and(|end| end.eq_ignore_ascii_case(b"right"))
                {
                    asked.push(b"REV");
                }
                taken.items = self.ask(taken.database, &asked);
            }
            _ => {}
        }
        taken
    }

    /// Runs a command in a temporary session.
    fn ask(&self, database: u32, words: &[&[u8]]) -> Option<Tree> {
        let mut session = self.session();
        session.database = database;
        self.ask_in(&mut session, words)
    }

    fn ask_in(&self, session: &mut Session, words: &[&[u8]]) -> Option<Tree> {
        let mut recorder = Recorder::new();
        self.execute(session, words, &mut recorder).ok()?;
        recorder.finish().ok()?.pop()
    }

    /// Restores the items that a command removed, if any. Signal handlers run only afterward.
    ///
    /// # Errors
    /// Returns the reason why the items were not restored.
    pub fn give_back(&self, taken: &Taken) -> Result<(), String> {
        let _deferred = defer_signals();
        unlimited_patience(|| {
            let mut session = self.session();
            session.database = taken.database;
            for _ in 0..TRIES {
                let Some(commands) = taken.commands(&mut |words| self.ask_in(&mut session, words))
                else {
                    return Ok(());
                };
                match self.run_all(&mut session, &commands) {
                    Ok(true) => return Ok(()),
                    Ok(false) => {}
                    Err(reason) => return Err(reason),
                }
            }
            Err("other processes keep changing it".to_owned())
        })
    }

    /// Runs commands in a transaction. Returns false if a watched key has changed in the meantime.
    fn run_all(&self, session: &mut Session, commands: &[Words]) -> Result<bool, String> {
        let mut run = |words: &[&[u8]]| match self.ask_in(session, words) {
            Some(Tree::Error(text)) => Err(text),
            Some(reply) => Ok(reply),
            None => Err("another process holds a lock".to_owned()),
        };
        run(&[b"MULTI"])?;
        for command in commands {
            let words: Vec<&[u8]> = command.iter().map(Vec::as_slice).collect();
            run(&words)?;
        }
        match run(&[b"EXEC"])? {
            Tree::Array(replies) => {
                let errors = replies.into_iter().filter_map(|reply| match reply {
                    Tree::Error(text) => Some(text),
                    _ => None,
                });
                errors.take(1).next().map_or(Ok(true), Err)
            }
            _ => Ok(false),
        }
    }
}

#[cfg(test)]
mod tests {
    use undercroft_commands::table::{self, Flag};
    use undercroft_engine::{Options, Store};

    use super::*;

    /// Commands that write but whose replies contain no removed items. They return a number, a
    /// status, values that they stored or moved, or the replies of the commands in a script or a
    /// transaction.
    const OTHERS: &str = "append bitfield bitop blmove brpoplpush copy decr decrby del expire expireat feed.add feed.compact \
        feed.create feed.del feed.delwhere feed.move feed.setattr feed.hide feed.show flushall flushdb \
        function geoadd georadius georadiusbymember geosearchstore getex hdel hincrby hincrbyfloat hmset \
        hset hsetnx incr incrby incrbyfloat linsert lmove lpush lpushx lrem lset ltrim migrate move mset \
        msetnx persist pexpire pexpireat pfadd pfdebug pfmerge psetex rename renamenx restore rpoplpush \
        rpush rpushx sadd sdiffstore setbit setex setnx setrange sinterstore smove sort srem sunionstore \
        swapdb unlink xack xadd xautoclaim xclaim xdel xgroup xsetid xtrim zadd zdiffstore zincrby \
        zinterstore zrangestore zrem zremrangebylex zremrangebyrank zremrangebyscore zunionstore";

    #[test]
    fn every_write_command_is_classified_as_taking_or_not() {
        let writing = table::all().iter().filter(|command| {
            let is_writing = |flags: table::Flags| flags.has(Flag::Write);
            is_writing(command.flags) || command.subcommands.iter().any(|one| is_writing(one.flags))
        });
        let mut seen = 0;
        for command in writing {
            let takes = taking().any(|name| name == command.name);
            let other = OTHERS.split(' ').any(|name| name == command.name);
            assert!(
                takes != other,
                "{}: in one of TAKING and OTHERS",
                command.name
            );
            seen += 1;
        }
        assert_eq!(
            seen,
            TAKING.len() + OTHERS.split(' ').count(),
            "a name that is no command's"
        );
    }

    fn open() -> (tempfile::TempDir, OpenStore) {
        let directory = tempfile::tempdir_in("/dev/shm").expect("a directory in shared memory");
        let store = Store::open_or_create(&directory.path().join("store"), &Options::default());
        (directory, OpenStore::new(store.expect("a store")))
    }

    fn words(line: &str) -> Words {
        line.split(' ')
            .map(|word| word.as_bytes().to_vec())
            .collect()
    }

    fn run(store: &OpenStore, line: &str) -> Tree {
        let line = words(line);
        let line: Vec<&[u8]> = line.iter().map(Vec::as_slice).collect();
        store.ask(0, &line).expect("no lock is in the way")
    }

    /// Runs a command, and returns the record of the items that it removed.
    fn take(store: &OpenStore, line: &str) -> Taken {
        let line = words(line);
        let line: Vec<&[u8]> = line.iter().map(Vec::as_slice).collect();
        let session = store.session();
        let taken = store.taking(&session, &line).expect("a command that takes");
        let reply = store.ask(0, &line).expect("no lock is in the way");
        taken.with_reply(reply)
    }

    const MADE: &[&str] = &[
        "RPUSH l a b c d",
        "SADD s a b c d",
        "ZADD z 1.5 a 0.1 b 1.5 c inf d",
        "SET t text PXAT 99999999999999",
        "XADD x 5-0 f v",
        "XADD x 5-1 f v",
        "XADD x 9-0 f v",
        "XGROUP CREATE x g 0",
        "FEED.CREATE f SIZE 1 ATTRS 4",
        "FEED.ADD f 0 a ATTRS 3 b c ATTRS 5",
    ];

    /// Returns the contents of the store, as the replies of several commands.
    fn shown(store: &OpenStore) -> Vec<Tree> {
        let mut members = leaves(&run(store, "SMEMBERS s"));
        members.sort();
        let mut all = vec![Tree::Array(members.into_iter().map(Tree::Bulk).collect())];
        for line in [
            "LRANGE l 0 -1",
            "ZRANGE z 0 -1 WITHSCORES",
            "GET t",
            "PEXPIRETIME t",
            "XPENDING x g",
            "FEED.RANGE f 0 9 WITHATTRS",
        ] {
            all.push(run(store, line));
        }
        // The last field is the lag: the number of entries that the group has not read.
        all.extend(leaves(&run(store, "XINFO GROUPS x")).pop().map(Tree::Bulk));
        all
    }

    #[test]
    fn items_of_every_taking_command_are_restored() {
        let (_directory, store) = open();
        for line in MADE {
            assert!(
                !matches!(run(&store, line), Tree::Error(_)),
                "{line}: {:?}",
                run(&store, line)
            );
        }
        let before = shown(&store);
        let lines = [
            "LPOP l",
            "LPOP l 3",
            "lpop l 9",
            "RPOP l",
            "RPOP l 3",
            "BLPOP none l 0",
            "BRPOP none l 0",
            "LMPOP 2 none l LEFT COUNT 3",
            "LMPOP 2 none l RIGHT COUNT 3",
            "BLMPOP 0 2 none l RIGHT COUNT 2",
            "BLMPOP 0 1 l LEFT",
            "SPOP s",
            "SPOP s 3",
            "SPOP s 9",
            "ZPOPMIN z",
            "ZPOPMAX z 3",
            "ZPOPMIN z 9",
            "ZMPOP 2 none z MIN COUNT 3",
            "ZMPOP 1 z MAX",
            "BZPOPMIN none z 0",
            "BZPOPMAX z 0",
            "BZMPOP 0 1 z MAX COUNT 2",
            "GETDEL t",
            "GETSET t other",
            "SET t other GET",
            "SET t other EX 9 GET",
            "XREADGROUP GROUP g c STREAMS x >",
            "XREADGROUP GROUP g c COUNT 2 NOACK STREAMS x >",
            "XREADGROUP GROUP g c COUNT 1 BLOCK 0 STREAMS x >",
            "FEED.POP f LEFT",
            "FEED.POP f LEFT 2",
            "FEED.POP f RIGHT 2",
            "FEED.POP f RIGHT 9",
        ];
        for name in taking() {
            let is_tried = |line: &&str| {
                line.split(' ')
                    .next()
                    .is_some_and(|word| word.eq_ignore_ascii_case(name))
            };
            assert!(lines.iter().any(is_tried), "{name} is not tried");
        }
        for line in lines {
            let taken = take(&store, line);
            assert!(
                !leaves(&taken.reply).is_empty(),
                "{line} took nothing: {taken:?}"
            );
            assert_ne!(shown(&store), before, "{line} changed nothing");
            store
                .give_back(&taken)
                .unwrap_or_else(|reason| panic!("{line}: {reason}"));
            // `shown` does not report consumers, because restoring does not delete a consumer that
            // the command created.
            assert_eq!(shown(&store), before, "{line}");
        }
    }

    #[test]
    fn empty_and_failed_replies_restore_nothing() {
        let (_directory, store) = open();
        run(&store, "SET t text");
        for line in [
            "LPOP none",
            "LPOP t",
            "SPOP none 3",
            "ZMPOP 1 none MIN",
            "GETDEL none",
            "XREADGROUP GROUP g c STREAMS t >",
        ] {
            let taken = take(&store, line);
            store
                .give_back(&taken)
                .unwrap_or_else(|reason| panic!("{line}: {reason}"));
        }
        assert_eq!(run(&store, "DBSIZE"), Tree::Integer(1));
    }

    #[test]
    fn entries_stay_pending_if_the_group_has_read_later_ones() {
        let (_directory, store) = open();
        for line in &MADE[4..8] {
            run(&store, line);
        }
        let taken = take(&store, "XREADGROUP GROUP g c COUNT 1 NOACK STREAMS x >");
        run(&store, "XREADGROUP GROUP g other COUNT 1 STREAMS x >");
        store.give_back(&taken).expect("given back");
        let pending = leaves(&run(&store, "XPENDING x g - + 9"));
        assert!(pending.contains(&b"5-0".to_vec()), "{pending:?}");
    }

    #[test]
    fn concurrent_writes_are_not_overwritten() {
        let (_directory, store) = open();
        for line in ["GETDEL t", "GETSET t mine"] {
            run(&store, "SET t old");
            let taken = take(&store, line);
            run(&store, "SET t newer");
            store.give_back(&taken).expect("nothing is in the way");
            assert_eq!(run(&store, "GET t"), Tree::Bulk(b"newer".to_vec()));
        }
    }
}
