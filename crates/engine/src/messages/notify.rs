//! Keyspace notifications: messages about what becomes of keys (M3).
//!
//! Which classes of events are told is a word of the store, so every process
//! obeys it. A writer puts the events of its transaction into its outbox, and they
//! are published once that is committed: nobody hears of a change that was undone.
//! While nothing is to be told a transaction pays one load for it.

use std::io::Write as _;

use undercroft_memory::Setting;

use crate::error::Error;
use crate::messages::publish::Outgoing;
use crate::messages::receivers::Topic;
use crate::store::{Key, Store};
use crate::structures::dictionary;
use crate::transaction::access::Access;
use crate::transaction::writer::{Writer, root};

/// A set of classes of events.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EventClasses(u64);

impl EventClasses {
    /// The letters that stand for them in `notify-keyspace-events`, bit by bit.
    const LETTERS: &[u8] = b"KEg$lshzxetdmn";
    /// Those that `A` stands for.
    const ALL: &[u8] = b"g$lshzxetd";

    const fn of(letter: u8) -> u64 {
        let mut bit = 0;
        while Self::LETTERS[bit] != letter {
            bit += 1;
        }
        1 << bit
    }

    /// The classes whose letters are in a text; other bytes mean nothing.
    pub fn from_letters(text: &[u8]) -> EventClasses {
        let class = |letter: &u8| match letter {
            b'A' => Self::from_letters(Self::ALL).0,
            letter if Self::LETTERS.contains(letter) => Self::of(*letter),
            _ => 0,
        };
        EventClasses(
            text.iter()
                .fold(0, |classes, letter| classes | class(letter)),
        )
    }

    /// Their letters.
    pub fn letters(self) -> String {
        let letters = Self::LETTERS.iter().enumerate();
        letters
            .filter(|(bit, _)| self.0 & 1 << bit != 0)
            .map(|(_, letter)| char::from(*letter))
            .collect()
    }

    fn has(self, class: u64) -> bool {
        self.0 & class != 0
    }

    /// Whether an event's class is among them.
    pub(crate) fn tell_of(self, event: KeyEvent) -> bool {
        self.has(event.class())
    }
}

macro_rules! events {
    ($($event:ident $class:literal $name:literal,)*) => {
        /// What may become of a key, named as in Redis.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum KeyEvent {
            $(#[doc = concat!("`", $name, "`")] $event,)*
        }

        impl KeyEvent {
            /// Its name.
            pub fn name(self) -> &'static str {
                match self {
                    $(KeyEvent::$event => $name,)*
                }
            }

            fn class(self) -> u64 {
                match self {
                    $(KeyEvent::$event => const { EventClasses::of($class) },)*
                }
            }
        }
    };
}

events! {
    Append b'$' "append",
    CopyTo b'g' "copy_to",
    Del b'g' "del",
    Evicted b'e' "evicted",
    Expire b'g' "expire",
    Expired b'x' "expired",
    FeedAdd b'd' "feed.add",
    FeedCreate b'd' "feed.create",
    FeedDel b'd' "feed.del",
    FeedHide b'd' "feed.hide",
    FeedMove b'd' "feed.move",
    FeedPop b'd' "feed.pop",
    FeedSetAttr b'd' "feed.setattr",
    FeedShow b'd' "feed.show",
    GeoRadiusStore b'z' "georadiusstore",
    GeoSearchStore b'z' "geosearchstore",
    HDel b'h' "hdel",
    HIncrBy b'h' "hincrby",
    HIncrByFloat b'h' "hincrbyfloat",
    HSet b'h' "hset",
    IncrBy b'$' "incrby",
    IncrByFloat b'$' "incrbyfloat",
    KeyMiss b'm' "keymiss",
    LInsert b'l' "linsert",
    LPop b'l' "lpop",
    LPush b'l' "lpush",
    LRem b'l' "lrem",
    LSet b'l' "lset",
    LTrim b'l' "ltrim",
    MoveFrom b'g' "move_from",
    MoveTo b'g' "move_to",
    New b'n' "new",
    Persist b'g' "persist",
    PfAdd b'$' "pfadd",
    RPop b'l' "rpop",
    RPush b'l' "rpush",
    RenameFrom b'g' "rename_from",
    RenameTo b'g' "rename_to",
    Restore b'g' "restore",
    SAdd b's' "sadd",
    SDiffStore b's' "sdiffstore",
    SInterStore b's' "sinterstore",
    SPop b's' "spop",
    SRem b's' "srem",
    SUnionStore b's' "sunionstore",
    Set b'$' "set",
    SetBit b'$' "setbit",
    SetRange b'$' "setrange",
    SortStore b'l' "sortstore",
    XAdd b't' "xadd",
    XDel b't' "xdel",
    XGroupCreate b't' "xgroup-create",
    XGroupCreateConsumer b't' "xgroup-createconsumer",
    XGroupDelConsumer b't' "xgroup-delconsumer",
    XGroupDestroy b't' "xgroup-destroy",
    XGroupSetId b't' "xgroup-setid",
    XSetId b't' "xsetid",
    XTrim b't' "xtrim",
    ZAdd b'z' "zadd",
    ZDiffStore b'z' "zdiffstore",
    ZIncr b'z' "zincr",
    ZInterStore b'z' "zinterstore",
    ZPopMax b'z' "zpopmax",
    ZPopMin b'z' "zpopmin",
    ZRangeStore b'z' "zrangestore",
    ZRem b'z' "zrem",
    ZRemRangeByLex b'z' "zremrangebylex",
    ZRemRangeByRank b'z' "zremrangebyrank",
    ZRemRangeByScore b'z' "zremrangebyscore",
    ZUnionStore b'z' "zunionstore",
}

impl Store {
    /// The classes of events that are told.
    #[inline(always)]
    pub fn told_events(&self) -> EventClasses {
        EventClasses(self.segment.setting(Setting::ToldEvents))
    }

    /// Sets which events all processes tell of from now on.
    pub fn tell_events(&self, classes: EventClasses) -> Result<(), Error> {
        Ok(self.segment.set_setting(Setting::ToldEvents, classes.0)?)
    }
}

impl Outgoing<'_> {
    /// Sends what tells of an event, where somebody wants to hear of it in that way.
    pub(crate) fn tell(
        &mut self,
        classes: EventClasses,
        event: KeyEvent,
        database: usize,
        key: &[u8],
    ) {
        let name = event.name().as_bytes();
        for (class, kind, subject, body) in
            [(b'K', "keyspace", key, name), (b'E', "keyevent", name, key)]
        {
            if !classes.has(EventClasses::of(class)) {
                continue;
            }
            let mut channel = Vec::new();
            // Writing to a vector cannot fail.
            let _ = write!(channel, "__{kind}@{database}__:");
            channel.extend_from_slice(subject);
            self.send(Topic::Channel, &channel, body);
        }
    }
}

impl Access<'_> {
    /// The classes of events that are told; see [`Store::told_events`].
    pub fn told_events(&self) -> EventClasses {
        self.store.told_events()
    }

    /// Sets which events all processes tell of; see [`Store::tell_events`].
    pub fn tell_events(&self, classes: EventClasses) -> Result<(), Error> {
        self.store.tell_events(classes)
    }

    /// Whether it is told that keys are not there which somebody looks for.
    #[inline]
    pub fn tells_of_misses(&self) -> bool {
        self.told_events().has(KeyEvent::KeyMiss.class())
    }

    /// Tells that a key is not there which somebody looked for.
    pub fn tell_miss(&self, database: usize, key: &[u8]) {
        match self.running {
            Some(running) => running.tell(KeyEvent::KeyMiss, database, key),
            None => {
                let mut outbox = self.store.outbox();
                outbox.tell(KeyEvent::KeyMiss, database, key);
                self.store.deliver(outbox.close());
            }
        }
    }
}

impl Writer<'_, '_> {
    /// Tells what became of a key, once the transaction is committed.
    #[inline(always)]
    pub fn tell(&mut self, event: KeyEvent, database: usize, key: &Key<'_>) {
        if self.outbox.tells() {
            self.outbox.tell(event, database, key.bytes);
        }
    }

    /// Tells of the event, and of `del` behind it where the key is gone with it.
    #[inline(always)]
    pub(crate) fn tell_taken(
        &mut self,
        event: KeyEvent,
        database: usize,
        key: &Key<'_>,
        gone: bool,
    ) {
        self.tell(event, database, key);
        if gone {
            self.tell(KeyEvent::Del, database, key);
        }
    }

    /// Lets `body` change a key, and tells of one event instead of those it is
    /// made of; only of `del` where the key is not there afterwards.
    pub fn tell_as<R, E: From<Error>>(
        &mut self,
        event: KeyEvent,
        database: usize,
        key: &Key<'_>,
        body: impl FnOnce(&mut Self) -> Result<R, E>,
    ) -> Result<R, E> {
        if !self.outbox.tells() {
            return body(self);
        }
        let before = self.find(database, key)?.is_some();
        let result = self.quietly(body)?;
        let after = dictionary::find(self.view(), root(database, key), key)?.is_some();
        match (before, after) {
            (false, false) => {}
            (true, false) => self.tell(KeyEvent::Del, database, key),
            (_, true) => {
                if !before {
                    self.tell(KeyEvent::New, database, key);
                }
                self.tell(event, database, key);
            }
        }
        Ok(result)
    }

    /// Tells of nothing that `body` does, but that keys have expired.
    pub(crate) fn quietly<R>(&mut self, body: impl FnOnce(&mut Self) -> R) -> R {
        self.outbox.mute();
        let result = body(self);
        self.outbox.unmute();
        result
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes_are_letters() {
        let classes = |text: &str| EventClasses::from_letters(text.as_bytes());
        assert_eq!(classes("KA").letters(), "Kg$lshzxetd");
        assert_eq!(classes("Exm?n").letters(), "Exmn");
        assert_eq!(classes(""), EventClasses::default());
        assert!(classes("g").has(KeyEvent::Del.class()));
        assert!(!classes("g").has(KeyEvent::Set.class()));
    }
}
