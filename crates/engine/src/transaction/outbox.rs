//! What a transaction leaves to be done and told behind its commit.
//!
//! Each run of a transaction begins with an empty outbox and hands it over by value, so what a run queued that was rolled
//! back is gone with it (W10). It is one list in the order of the changes, with one mark and one cut: a savepoint is a
//! place in it. Nothing of it happens before the commit, and nothing in it can fail the transaction any more.

use crate::handle::events::{EventClasses, KeyEvent};
use crate::handle::expired_seen;
use crate::structures::roots::{DATABASES, Root};
use crate::transaction::effect::{Change, Effect};
use crate::transaction::message::Letter;
use crate::transaction::notice::{Noticed, Queue};

/// What is to be done and told once a transaction is committed.
#[derive(Debug)]
pub(crate) struct Outbox {
    /// The events that are told.
    classes: EventClasses,
    /// How many of the changes that run now have others tell of them.
    muted: u32,
    /// Whether somebody follows what becomes of keys.
    followed: bool,
    /// Nothing, and almost free, for most transactions.
    content: Option<Box<Content>>,
}

/// What was in an outbox when its transaction ended. One word, as every change hands it on.
#[derive(Debug)]
pub(crate) struct Mail(pub(crate) Option<Box<Content>>);

/// What is in an outbox that is not empty.
#[derive(Debug)]
pub(crate) struct Content {
    /// The events that are told.
    pub(crate) classes: EventClasses,
    pub(crate) posts: Vec<Post>,
    pub(crate) noticed: Noticed,
}

/// One thing to be done or told.
#[derive(Debug)]
pub(crate) enum Post {
    /// Something became of a key.
    Event(KeyEvent, usize, Box<[u8]>),
    /// A key was removed because it has expired.
    Expired(usize, Box<[u8]>),
    /// A message is to be sent.
    Letter(Letter),
    /// The key of this shard with this hash was used once more.
    Use(usize, u64),
    /// The memory of flushed databases is to be freed.
    Flushed,
    /// What became of keys, for who follows.
    Change(Change),
}

/// A place in an outbox.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Mark {
    posts: usize,
    noticed: usize,
}

impl Outbox {
    /// An empty outbox, for events of these classes.
    #[inline(always)]
    pub(crate) fn new(classes: EventClasses, followed: bool) -> Outbox {
        Outbox {
            classes,
            muted: 0,
            followed,
            content: None,
        }
    }

    /// Whether events are told at all.
    #[inline(always)]
    pub(crate) fn tells(&self) -> bool {
        self.classes != EventClasses::default()
    }

    /// Whether somebody follows what becomes of keys.
    #[inline(always)]
    pub(crate) fn is_followed(&self) -> bool {
        self.followed
    }

    /// Whether anybody hears which keys expired.
    #[inline(always)]
    pub(crate) fn names_expired(&self) -> bool {
        self.followed || self.tells()
    }

    #[cold]
    fn content(&mut self) -> &mut Content {
        self.content.get_or_insert_with(|| {
            Box::new(Content {
                classes: self.classes,
                posts: Vec::new(),
                noticed: Noticed::default(),
            })
        })
    }

    /// Adds something.
    #[cold]
    pub(crate) fn post(&mut self, post: Post) {
        self.content().posts.push(post);
    }

    /// Adds an event, where it is told.
    #[cold]
    pub(crate) fn tell(&mut self, event: KeyEvent, database: usize, key: &[u8]) {
        // The dictionaries behind the databases are no business of clients.
        if self.muted == 0 && self.classes.tell_of(event) && database < DATABASES {
            self.post(Post::Event(event, database, key.into()));
        }
    }

    /// Adds a key that was removed because it has expired.
    #[cold]
    pub(crate) fn expired(&mut self, database: usize, key: &[u8]) {
        self.post(Post::Expired(database, key.into()));
    }

    /// Adds a change for who follows.
    #[cold]
    pub(crate) fn follow(&mut self, database: usize, key: &[u8], effect: Effect) {
        if database < DATABASES {
            let change = Change::Key(database, key.into(), effect);
            self.post(Post::Change(change));
        }
    }

    /// Adds a change of all keys of a database's part of a shard for who follows.
    #[cold]
    pub(crate) fn follow_all(&mut self, root: Root) {
        let Root { shard, database } = root;
        if database < DATABASES {
            self.post(Post::Change(Change::All { database, shard }));
        }
    }

    /// Leaves events out from now on, until [`unmute`](Self::unmute) was called as often.
    pub(crate) fn mute(&mut self) {
        self.muted += 1;
    }

    /// Ends what [`mute`](Self::mute) began.
    pub(crate) fn unmute(&mut self) {
        self.muted -= 1;
    }

    /// Remembers that a key was changed that has a queue.
    #[cold]
    pub(crate) fn notice(&mut self, queue: Queue) {
        self.content().noticed.add(queue);
    }

    /// Remembers that all keys with queues may have been changed.
    #[cold]
    pub(crate) fn notice_all(&mut self) {
        self.content().noticed.add_all();
    }

    /// Where it ends now.
    pub(crate) fn mark(&self) -> Mark {
        self.content
            .as_ref()
            .map_or(Mark::default(), |content| Mark {
                posts: content.posts.len(),
                noticed: content.noticed.count(),
            })
    }

    /// Forgets what was added since a mark, as the changes behind it were undone. The expired keys among them are there
    /// again: they are remembered as a reader would.
    pub(crate) fn cut(&mut self, mark: Mark) {
        let Some(content) = &mut self.content else {
            return;
        };
        for post in content.posts.drain(mark.posts..) {
            if let Post::Expired(database, key) = post {
                expired_seen::remember_key(database, key.into());
            }
        }
        content.noticed.cut(mark.noticed);
    }

    /// The transaction has ended: nothing is added any more.
    #[inline(always)]
    pub(crate) fn close(self) -> Mail {
        Mail(self.content)
    }
}

impl Mail {
    /// Takes out whose queues are to be served.
    pub(crate) fn take_noticed(&mut self) -> Noticed {
        match &mut self.0 {
            Some(content) => std::mem::take(&mut content.noticed),
            None => Noticed::default(),
        }
    }
}
