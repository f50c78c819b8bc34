//! The work and the notifications that a transaction postpones until after its commit.
//!
//! Each run of a transaction starts with an empty outbox and returns it by value, so all work that
//! a rolled-back run queued is dropped with the outbox (W10). The outbox is a list in the order of
//! the changes, and a savepoint is a position to which the list can be cut back. Nothing in the
//! outbox is executed before the commit, and a failure to execute it cannot make the transaction
//! fail.

use crate::error::Error;
use crate::handle::events::{EventClasses, KeyEvent};
use crate::handle::expired_seen;
use crate::structures::roots::DATABASES;
use crate::transaction::message::QueuedMessage;
use crate::transaction::notice::{NoticedQueues, Queue};

/// The work and the notifications to handle after a transaction commits.
#[derive(Debug)]
pub(crate) struct Outbox {
    /// The classes of events that are published.
    classes: EventClasses,
    /// The nesting depth of changes that suppress events.
    muted: u32,
    /// Whether no key may be changed, because the store is a replica, or has too few.
    refuses: bool,
    /// The number of bytes that the transaction has recorded in rings of changed keys; see
    /// `tracking/record.rs`.
    pub(crate) recorded: u64,
    /// The reason why the transaction must fail: it changed a key of a replica, or the change could
    /// not be logged.
    failure: Option<Box<Error>>,
    /// The queued work and notifications. For most transactions this is `None`, which costs almost
    /// nothing.
    content: Option<Box<Content>>,
}

/// The content of an outbox after its transaction has ended. It is a single word, because every
/// change passes it on.
#[derive(Debug)]
pub(crate) struct Mail(pub(crate) Option<Box<Content>>);

/// The content of a nonempty outbox.
#[derive(Debug)]
pub(crate) struct Content {
    /// The classes of events that are published.
    pub(crate) classes: EventClasses,
    pub(crate) posts: Vec<Post>,
    pub(crate) noticed: NoticedQueues,
}

/// One piece of work or one notification to handle after the commit.
#[derive(Debug)]
pub(crate) enum Post {
    /// A key event to be published.
    Event(KeyEvent, usize, Box<[u8]>),
    /// A key that was removed because it had expired.
    Expired(usize, Box<[u8]>),
    /// A message to be sent.
    QueuedMessage(QueuedMessage),
    /// A use of the key with this hash in this shard, to be counted.
    Use(usize, u64),
    /// The databases were flushed, so their memory must be freed.
    Flushed,
}

/// A position in an outbox, to which it can be cut back.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Mark {
    posts: usize,
    noticed: usize,
    recorded: u64,
}

impl Outbox {
    /// Creates an empty outbox for events of these classes.
    #[inline(always)]
    pub(crate) fn new(classes: EventClasses, refuses: bool) -> Outbox {
        Outbox {
            classes,
            muted: 0,
            refuses,
            recorded: 0,
            failure: None,
            content: None,
        }
    }

    /// Returns whether any events are published.
    #[inline(always)]
    pub(crate) fn tells(&self) -> bool {
        self.classes != EventClasses::default()
    }

    /// Returns whether a changed key makes the transaction fail, because the store is a replica.
    #[inline(always)]
    pub(crate) fn refuses(&self) -> bool {
        self.refuses
    }

    /// Makes the transaction fail with an error, unless it already fails with another one.
    #[cold]
    pub(crate) fn fail(&mut self, error: Error) {
        self.failure.get_or_insert_with(|| Box::new(error));
    }

    #[cold]
    fn content(&mut self) -> &mut Content {
        self.content.get_or_insert_with(|| {
            Box::new(Content {
                classes: self.classes,
                posts: Vec::new(),
                noticed: NoticedQueues::default(),
            })
        })
    }

    /// Returns the reason why the transaction must fail, if there is one.
    pub(crate) fn check(&mut self) -> Result<(), Error> {
        self.failure.take().map_or(Ok(()), |failure| Err(*failure))
    }

    /// Adds one piece of work or one notification.
    #[cold]
    pub(crate) fn post(&mut self, post: Post) {
        self.content().posts.push(post);
    }

    /// Adds a key event, if its class is published.
    #[cold]
    pub(crate) fn tell(&mut self, event: KeyEvent, database: usize, key: &[u8]) {
        // Changes in internal dictionaries publish no events.
        if self.muted == 0 && self.classes.tell_of(event) && database < DATABASES {
            self.post(Post::Event(event, database, key.into()));
        }
    }

    /// Adds a key that was removed because it had expired.
    #[cold]
    pub(crate) fn expired(&mut self, database: usize, key: &[u8]) {
        self.post(Post::Expired(database, key.into()));
    }

    /// Suppresses events until the matching call to [`unmute`](Self::unmute). Calls can be nested.
    pub(crate) fn mute(&mut self) {
        self.muted += 1;
    }

    /// Ends the suppression of events that the matching call to [`mute`](Self::mute) started.
    pub(crate) fn unmute(&mut self) {
        self.muted -= 1;
    }

    /// Records a changed key's queue, to be served after the commit.
    #[cold]
    pub(crate) fn notice(&mut self, queue: Queue) {
        self.content().noticed.add(queue);
    }

    /// Records that all queues must be served after the commit.
    #[cold]
    pub(crate) fn notice_all(&mut self) {
        self.content().noticed.add_all();
    }

    /// Returns the current end of the outbox, to which [`cut`](Self::cut) can return.
    pub(crate) fn mark(&self) -> Mark {
        let content = self.content.as_ref();
        Mark {
            posts: content.map_or(0, |content| content.posts.len()),
            noticed: content.map_or(0, |content| content.noticed.count()),
            recorded: self.recorded,
        }
    }

    /// Drops all work and notifications added since the position `mark`, because the changes since
    /// then were rolled back. Expired keys that these changes removed exist again, so they are
    /// remembered as if a read had found them.
    pub(crate) fn cut(&mut self, mark: Mark) {
        self.recorded = mark.recorded;
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

    /// Ends the outbox at the end of the transaction, and returns its content. If the transaction
    /// must [`fail`](Self::fail), returns the reason and the outbox.
    #[inline(always)]
    pub(crate) fn close(mut self) -> Result<Mail, (Error, Outbox)> {
        match self.failure.take() {
            None => Ok(Mail(self.content)),
            Some(failure) => Err((*failure, self)),
        }
    }
}

impl Mail {
    /// Removes and returns the queues to serve.
    pub(crate) fn take_noticed(&mut self) -> NoticedQueues {
        match &mut self.0 {
            Some(content) => std::mem::take(&mut content.noticed),
            None => NoticedQueues::default(),
        }
    }
}
