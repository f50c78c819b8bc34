//! Runs calls on a stage (a store and the states of its keys), and collects the replies.

use std::collections::HashSet;
use std::panic::{AssertUnwindSafe, catch_unwind};

use undercroft_commands::reply::{Recorder, Tree};
use undercroft_commands::session::Session;
use undercroft_commands::{Context, execute};
use undercroft_engine::{Error, Ranges, Store};
use undercroft_testkit::race::{Answers, KEYS, Stage};

use crate::alone::Alone;

/// The number of bytes by which the size of an arena (a value's private memory area) can vary,
/// depending on how the value was created.
const AHEAD: u64 = 64 << 10;

/// The replies to a call, and the contents of its keys after the call.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Outcome {
    /// The replies, or an error: the number of items that a reply was missing, or the reason why
    /// the call could not run.
    replies: Result<Vec<Tree>, String>,
    /// The items and the expiry of each key.
    left: Vec<Option<(Ranges, Option<u64>)>>,
}

/// A client of the store that the stage (the test's store and key states) manages.
pub(crate) struct Runner {
    host: Alone,
    session: Session,
    pub(crate) store: Store,
}

/// Returns a stage (a store and the states of its keys) whose states are created by commands.
pub(crate) fn stage(shards: usize) -> Stage {
    let host = Alone::new();
    let mut session = host.session();
    let stage = Stage::new(shards);
    stage.fill(|store, database, words| {
        session.database = database as u32;
        let mut reply = Recorder::new();
        let mut context = Context::new(&mut session, host.host(), store);
        execute(&mut context, words, &mut reply).expect("no process holds a lock");
        let replies = reply.finish().expect("a whole reply");
        assert!(!matches!(replies[..], [Tree::Error(_)]), "{replies:?}");
    });
    stage
}

impl Runner {
    pub(crate) fn new(stage: &Stage, write: bool) -> Runner {
        let host = Alone::new();
        let store = stage.open(write);
        store.interrupt_reads(Some(stage.hook()));
        Runner {
            session: host.session(),
            host,
            store,
        }
    }

    /// Runs a command. Returns the number of changes to the store, and the number of heap accesses.
    pub(crate) fn count(&mut self, words: &[Vec<u8>], stage: &Stage) -> (u64, u64) {
        let words: Vec<&[u8]> = words.iter().map(Vec::as_slice).collect();
        let mut context = Context::new(&mut self.session, self.host.host(), &self.store);
        execute(&mut context, &words, &mut Recorder::new()).expect("no process holds a lock");
        stage.calm()
    }

    /// Runs a command. If `writes` is set, the outcome includes the contents of the keys.
    pub(crate) fn call(
        &mut self,
        words: &[Vec<u8>],
        stage: &Stage,
        writes: bool,
    ) -> (Outcome, u64) {
        let replies = self.replies(words);
        let (changes, _) = stage.calm();
        let left = if writes { self.left() } else { Vec::new() };
        (Outcome { replies, left }, changes)
    }

    /// Runs a read command, and returns only its replies.
    pub(crate) fn read(&mut self, words: &[Vec<u8>]) -> Outcome {
        Outcome {
            replies: self.replies(words),
            left: Vec::new(),
        }
    }

    fn replies(&mut self, words: &[Vec<u8>]) -> Result<Vec<Tree>, String> {
        let words: Vec<&[u8]> = words.iter().map(Vec::as_slice).collect();
        let mut reply = Recorder::new();
        let mut context = Context::new(&mut self.session, self.host.host(), &self.store);
        let ran = catch_unwind(AssertUnwindSafe(|| {
            execute(&mut context, &words, &mut reply)
        }));
        match ran {
            Ok(Ok(())) => reply
                .finish()
                .map_err(|missing| format!("{missing} items are missing")),
            Ok(Err(blocked)) => Err(format!("blocked: {blocked}")),
            Err(_) => {
                self.session = self.host.session();
                Err("a panic".into())
            }
        }
    }

    fn left(&self) -> Vec<Option<(Ranges, Option<u64>)>> {
        let read = |key: &&[u8]| {
            let key = self.store.key(key);
            let read = self.store.read(self.store.shards_of([&key]), |reader| {
                let Some(entry) = reader.find(0, &key)? else {
                    return Ok(None);
                };
                let mut items = Ranges::new();
                entry.append_items(reader.view(), &mut items)?;
                Ok::<_, Error>(Some((items, entry.expiry(reader.view())?)))
            });
            read.expect("a whole store")
        };
        KEYS.iter().map(read).collect()
    }
}

impl Outcome {
    /// Returns the beginning of the replies as text.
    pub(crate) fn summary(&self) -> String {
        let text = format!("{:?}", self.replies);
        let start: String = text.chars().take(200).collect();
        format!("{start} ({} characters)", text.len())
    }

    /// Returns an excerpt of the replies that begins shortly before the first difference from
    /// another outcome.
    pub(crate) fn unlike(&self, other: &Outcome) -> String {
        let [own, others] = [self, other].map(|outcome| format!("{:?}", outcome.replies));
        let mut pairs = own.chars().zip(others.chars());
        let same = pairs.position(|(own, other)| own != other).unwrap_or(0);
        let part: String = own
            .chars()
            .skip(same.saturating_sub(100))
            .take(200)
            .collect();
        format!("{part} ({} characters)", own.len())
    }

    /// Returns whether this outcome is possible for a call whose undisturbed outcome is `fresh`.
    /// `all` contains the items from which a random reply is chosen.
    pub(crate) fn is_as(&self, fresh: &Outcome, answers: Answers, all: Option<&Outcome>) -> bool {
        let (Ok(replies), Ok(fresh_replies)) = (&self.replies, &fresh.replies) else {
            return self == fresh;
        };
        let (mut items, mut usual) = (leaves(replies), leaves(fresh_replies));
        match (answers, all.map(|all| &all.replies)) {
            (Answers::Unordered, _) => {
                items.sort_unstable();
                usual.sort_unstable();
                items == usual && self.left == fresh.left
            }
            (Answers::Size, _) => {
                let mut pairs = items.iter().zip(&usual);
                items.len() == usual.len()
                    && pairs.all(|(item, usual)| item == usual || item.is_about(usual))
                    && self.left == fresh.left
            }
            // Errors are handled by the last case, because their texts must be equal.
            (Answers::Random(_), Some(Ok(all))) if !usual.is_empty() && usual[0].is_value() => {
                let known: HashSet<Leaf> = leaves(all).into_iter().collect();
                items.len() == usual.len()
                    && is_aggregate(replies) == is_aggregate(fresh_replies)
                    && items.iter().all(|item| known.contains(item))
            }
            _ => self == fresh,
        }
    }
}

/// A string or a number in a reply, in `Debug` format.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
struct Leaf(String);

impl Leaf {
    fn is_value(&self) -> bool {
        self.0.starts_with("Bulk")
    }

    /// Returns whether both leaves are sizes of a value with an arena (a private memory area) and
    /// differ at most by the arena's unused memory.
    fn is_about(&self, other: &Leaf) -> bool {
        let [size, usual] = [self, other].map(|leaf| {
            let digits = leaf.0.strip_prefix("Integer(")?.strip_suffix(')')?;
            digits.parse::<u64>().ok()
        });
        size.zip(usual)
            .is_some_and(|(size, usual)| size.min(usual) >= AHEAD && size.abs_diff(usual) <= AHEAD)
    }
}

fn is_aggregate(replies: &[Tree]) -> bool {
    matches!(replies, [Tree::Array(_) | Tree::Set(_) | Tree::Map(_)])
}

/// Returns all strings and numbers in the replies.
fn leaves(replies: &[Tree]) -> Vec<Leaf> {
    let mut all = Vec::new();
    for reply in replies {
        match reply {
            Tree::Array(items) | Tree::Set(items) | Tree::Push(items) => all.extend(leaves(items)),
            Tree::Map(pairs) => {
                for (key, value) in pairs {
                    all.extend(leaves(std::slice::from_ref(key)));
                    all.extend(leaves(std::slice::from_ref(value)));
                }
            }
            leaf => all.push(Leaf(format!("{leaf:?}"))),
        }
    }
    all
}
