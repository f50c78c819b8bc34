//! Keyspace events, and the setting that selects which events are published. The setting applies to
//! all processes of the store (M3).

use undercroft_memory::Setting;

use crate::error::Error;
use crate::handle::store::Store;

/// A set of keyspace event classes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EventClasses(u64);

impl EventClasses {
    /// The letters of the event classes in `notify-keyspace-events`, in the order of the classes'
    /// bits.
    const LETTERS: &[u8] = b"KEg$lshzxetdmn";
    /// The letters that the letter `A` abbreviates.
    const ALL: &[u8] = b"g$lshzxetd";

    pub(crate) const fn of(letter: u8) -> u64 {
        let mut bit = 0;
        while Self::LETTERS[bit] != letter {
            bit += 1;
        }
        1 << bit
    }

    /// Returns the event classes whose letters occur in `text`. Ignores all other bytes.
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

    /// Returns the letters of the event classes.
    pub fn letters(self) -> String {
        let letters = Self::LETTERS.iter().enumerate();
        letters
            .filter(|(bit, _)| self.0 & 1 << bit != 0)
            .map(|(_, letter)| char::from(*letter))
            .collect()
    }

    pub(crate) fn has(self, class: u64) -> bool {
        self.0 & class != 0
    }

    /// Returns whether the set contains the class of `event`.
    pub(crate) fn tell_of(self, event: KeyEvent) -> bool {
        self.has(event.class())
    }
}

macro_rules! events {
    ($($event:ident $class:literal $name:literal,)*) => {
        /// A keyspace event, named as in Redis.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum KeyEvent {
            $(#[doc = concat!("`", $name, "`")] $event,)*
        }

        impl KeyEvent {
            /// Returns the name of the event, as published to clients.
            pub fn name(self) -> &'static str {
                match self {
                    $(KeyEvent::$event => $name,)*
                }
            }

            pub(crate) fn class(self) -> u64 {
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
    /// Returns the classes of the keyspace events that are published.
    #[inline(always)]
    pub fn told_events(&self) -> EventClasses {
        EventClasses(self.segment.setting(Setting::ToldEvents))
    }

    /// Sets the classes of keyspace events that all processes publish from now on.
    pub fn tell_events(&self, classes: EventClasses) -> Result<(), Error> {
        Ok(self.segment.set_setting(Setting::ToldEvents, classes.0)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn event_classes_are_parsed_from_letters() {
        let classes = |text: &str| EventClasses::from_letters(text.as_bytes());
        assert_eq!(classes("KA").letters(), "Kg$lshzxetd");
        assert_eq!(classes("Exm?n").letters(), "Exmn");
        assert_eq!(classes(""), EventClasses::default());
        assert!(classes("g").has(KeyEvent::Del.class()));
        assert!(!classes("g").has(KeyEvent::Set.class()));
    }
}
