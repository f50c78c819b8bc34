//! What a transaction leaves to be done and told behind its commit.
//!
//! Each run of a transaction begins with an empty outbox and hands it over by value, so what a run queued that was rolled
//! back is gone with it (W10). It is one list in the order of the changes, with one mark and one cut: a savepoint is a
//! place in it. Nothing of it happens before the commit, and nothing in it can fail the transaction any more.

use std::sync::atomic::Ordering;

use undercroft_memory::defer_signals;

use crate::messages::notify::{EventClasses, KeyEvent};
use crate::store::Store;
use crate::structures::roots::DATABASES;
use crate::structures::roots::Root;
use crate::transaction::backlog::Letter;
use crate::transaction::effect::{Change, Effect};
use crate::upkeep::expired;
use crate::waiting::{Noticed, Queue};

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
pub(crate) struct Mail(Option<Box<Content>>);

#[derive(Debug)]
struct Content {
    /// The events that are told.
    classes: EventClasses,
    posts: Vec<Post>,
    noticed: Noticed,
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
                expired::remember_key(database, key.into());
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

impl Store {
    /// An empty outbox. One load.
    #[inline(always)]
    pub(crate) fn outbox(&self) -> Outbox {
        Outbox {
            classes: self.told_events(),
            muted: 0,
            followed: self.is_followed.load(Ordering::Relaxed),
            content: None,
        }
    }

    /// Does and tells what a transaction left to be done behind its commit.
    #[inline(always)]
    pub(crate) fn deliver(&self, mail: Mail) {
        if let Some(content) = mail.0 {
            self.deliver_all(*content);
        }
    }

    #[cold]
    fn deliver_all(&self, content: Content) {
        // What was done stands, so nothing from here on is its error.
        let _deferred = defer_signals();
        if content
            .posts
            .iter()
            .any(|post| matches!(post, Post::Flushed))
        {
            // The keys are gone in any case; later writers free what is left.
            let _ = self.free_flushed();
        }
        let (classes, mut outgoing) = (content.classes, None);
        for post in content.posts {
            match post {
                Post::Flushed => {}
                Post::Change(change) => self.tell_follower(change),
                Post::Use(shard, hash) => self.count_use(shard, hash),
                Post::Event(event, database, key) => outgoing
                    .get_or_insert_with(|| self.outgoing())
                    .tell(classes, event, database, &key),
                Post::Expired(database, key) => {
                    if database < DATABASES {
                        self.expired.fetch_add(1, Ordering::Relaxed);
                    }
                    if classes.tell_of(KeyEvent::Expired) {
                        outgoing.get_or_insert_with(|| self.outgoing()).tell(
                            classes,
                            KeyEvent::Expired,
                            database,
                            &key,
                        );
                    }
                }
                Post::Letter(letter) => outgoing
                    .get_or_insert_with(|| self.outgoing())
                    .send_letter(&letter),
            }
        }
        if content.noticed.count() > 0 {
            self.serve_noticed(content.noticed);
        }
    }
}
