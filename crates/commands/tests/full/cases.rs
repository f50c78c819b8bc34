//! Lists the commands that remove data, each with the setup before the store is full, the command
//! line, and the beginning of the reply.

/// A step that creates the data for a case.
pub(super) enum Setup {
    /// Runs a line once.
    Once(&'static str),
    /// Runs a line the given number of times, replacing `#` with the number of the iteration.
    Times(u64, &'static str),
}

/// A command that removes data, and its expected reply.
pub(super) struct Case {
    pub(super) setup: &'static [Setup],
    pub(super) line: &'static str,
    /// The beginning of the reply in its `Debug` form.
    pub(super) reply: &'static str,
}

use Setup::{Once, Times};

const HASH: &[Setup] = &[Times(2000, "HSET h f# value:#")];
const SMALL_HASH: &[Setup] = &[Once("HSET h a 1 b 2 c 3")];
const BIG_HASH: &[Setup] = &[Times(3000, "HSET h f# value:#")];
const SET: &[Setup] = &[Times(60, "SADD s m{#00..#99}")];
const NUMBERS: &[Setup] = &[Once("SADD s {0..500}")];
const SORTED: &[Setup] = &[Times(4000, "ZADD z # member:#")];
const SMALL_SORTED: &[Setup] = &[Once("ZADD z 1 a 2 b 3 c")];
const LIST: &[Setup] = &[Times(60, "RPUSH l item:{#00..#99}")];
const SAME: &[Setup] = &[Times(60, "RPUSH l item:{#00..#99} same")];
const SMALL_LIST: &[Setup] = &[Once("RPUSH l a b c")];
const LONG_LIST: &[Setup] = &[Times(2000, "RPUSH l {1..9}#")];
const STREAM: &[Setup] = &[Times(3000, "XADD x 1-# field value:#")];
const GROUP: &[Setup] = &[
    Times(2000, "XADD x 1-# field value:#"),
    Once("XGROUP CREATE x g 0"),
    Once("XREADGROUP GROUP g c COUNT 2000 STREAMS x >"),
];
const FEED: &[Setup] = &[
    Once("FEED.CREATE f SIZE 8 ATTRS 4"),
    Times(2000, "FEED.ADD f -1 % ATTRS 1"),
];
const FEED_IN_PARTS: &[Setup] = &[
    Once("FEED.CREATE f SIZE 8 ATTRS 4"),
    Times(1000, "FEED.ADD f -1 % ATTRS 1"),
    Times(1000, "FEED.ADD f 3 % ATTRS 2"),
];
const KEYS: &[Setup] = &[Times(3000, "SET k:# value:#")];
const ONE: &[Setup] = &[Once("SET k value")];

macro_rules! cases {
    ($($setup:expr, $line:expr => $reply:expr;)*) => {
        &[$(Case { setup: $setup, line: $line, reply: $reply }),*]
    };
}

/// All commands that remove data.
pub(super) const CASES: &[Case] = cases! {
    ONE, "DEL k" => "Integer(1)";
    KEYS, "DEL k:{0..3000}" => "Integer(3000)";
    KEYS, "UNLINK k:{0..3000}" => "Integer(3000)";
    HASH, "DEL h" => "Integer(1)";
    KEYS, "FLUSHDB" => "Simple";
    KEYS, "FLUSHALL" => "Simple";
    ONE, "GETDEL k" => "Bulk";
    &[Once("SET k value EX 1000")], "GETEX k PERSIST" => "Bulk";
    ONE, "GETEX k EXAT 1" => "Bulk";
    ONE, "EXPIRE k -1" => "Integer(1)";
    ONE, "PEXPIRE k -1" => "Integer(1)";
    ONE, "EXPIREAT k 1" => "Integer(1)";
    ONE, "PEXPIREAT k 1" => "Integer(1)";
    &[Once("SET k value EX 1000")], "PERSIST k" => "Integer(1)";
    &[Once("SET k value"), Once("SET o value")], "RENAME k o" => "Simple";
    &[Once("HSET k{1..2} f v"), Times(1000, "HSET o f# v")], "RENAME k1 o" => "Simple";
        BIG_HASH, "HDEL h f{1000..2000}" => "Integer(1000)";
    BIG_HASH, "HDEL h f{0..2500}" => "Integer(2500)";
    BIG_HASH, "HDEL h f{0..3000}" => "Integer(3000)";
    SMALL_HASH, "HDEL h a" => "Integer(1)";
    SET, "SREM s m{1000..2000}" => "Integer(990)";
    SET, "SREM s m{0..4500}" => "Integer(4455)";
    NUMBERS, "SREM s {100..200}" => "Integer(100)";
    SET, "SPOP s" => "Bulk";
    SET, "SPOP s 5000" => "";
    &[Once("SADD s a b c"), Once("SADD t d")], "SMOVE s t a" => "Integer(1)";
    SORTED, "ZREM z member:{2000..3000}" => "Integer(1000)";
    SORTED, "ZREM z member:{0..3500}" => "Integer(3500)";
    SMALL_SORTED, "ZREM z a" => "Integer(1)";
    SORTED, "ZREMRANGEBYRANK z 100 1500" => "Integer(1401)";
    SORTED, "ZREMRANGEBYSCORE z 100 1100" => "Integer(1001)";
    &[Times(2000, "ZADD z 0 member:#")], "ZREMRANGEBYLEX z [member:1 [member:1999" => "Integer(1111)";
    SORTED, "ZPOPMIN z 5000" => "";
    SORTED, "ZPOPMAX z 5000" => "";
    SORTED, "ZMPOP 1 z MIN COUNT 5000" => "";
    SORTED, "BZMPOP 0 1 z MAX COUNT 5000" => "";
    SORTED, "BZPOPMIN z 0" => "";
    SORTED, "BZPOPMAX z 0" => "";
    LIST, "LPOP l" => "Bulk";
    LIST, "LPOP l 5000" => "";
    LIST, "RPOP l 5000" => "";
    LONG_LIST, "LPOP l 9000" => "";
    SMALL_LIST, "LPOP l" => "Bulk";
    LIST, "LMPOP 1 l LEFT COUNT 5000" => "";
    LIST, "BLMPOP 0 1 l RIGHT COUNT 5000" => "";
    LIST, "BLPOP l 0" => "";
    LIST, "BRPOP l 0" => "";
    LIST, "LTRIM l 1000 2000" => "Simple";
    LIST, "LTRIM l 1 0" => "Simple";
    SMALL_LIST, "LTRIM l 1 1" => "Simple";
    LIST, "LREM l 1 item:5000" => "Integer(1)";
    SAME, "LREM l 0 same" => "Integer(60)";
    SMALL_LIST, "LREM l 0 b" => "Integer(1)";
    STREAM, "XTRIM x MAXLEN 1000" => "Integer(2000)";
    STREAM, "XTRIM x MINID 1-777" => "Integer(777)";
    STREAM, "XTRIM x MAXLEN 0" => "Integer(3000)";
    STREAM, "XDEL x 1-{1000..2000}" => "Integer(1000)";
    GROUP, "XACK x g 1-{0..1500}" => "Integer(1500)";
    GROUP, "XGROUP DELCONSUMER x g c" => "Integer(2000)";
    GROUP, "XGROUP DESTROY x g" => "Integer(1)";
    FEED, "FEED.DEL f 00000077" => "Integer(1)";
    FEED_IN_PARTS, "FEED.DELWHERE f 1" => "Integer(1000)";
    FEED, "FEED.DELWHERE f 1" => "Integer(2000)";
    FEED, "FEED.POP f LEFT 1000" => "";
    FEED, "FEED.POP f RIGHT" => "";
    FEED_IN_PARTS, "FEED.COMPACT f" => "";
};

/// Changes that need memory but are not refused at `maxmemory`, because their commands do not have
/// the `denyoom` flag, as in Redis. A store without a free block can refuse them, because they
/// remove nothing.
pub(super) const CHANGES: &[Case] = cases! {
    ONE, "EXPIRE k 1000" => "Integer(1)";
    ONE, "PEXPIRE k 100000" => "Integer(1)";
    ONE, "EXPIREAT k 99999999999" => "Integer(1)";
    ONE, "PEXPIREAT k 9999999999999" => "Integer(1)";
    ONE, "GETEX k EX 1000" => "Bulk";
    KEYS, "MOVE k:7 9" => "Integer(1)";
    KEYS, "RENAME k:7 a-longer-name-than-the-key-has-had" => "Simple";
    KEYS, "RENAMENX k:7 a-longer-name-than-the-key-has-had" => "Integer(1)";
    KEYS, "SWAPDB 0 9" => "Simple";
    SET, "SMOVE s t m110" => "Integer(1)";
    GROUP, "XCLAIM x g other 0 1-{1..500}" => "Array";
    GROUP, "XCLAIM x g other 0 1-{1..500} JUSTID" => "Array";
    GROUP, "XAUTOCLAIM x g other 0 0 COUNT 1000" => "Array";
    &[Times(2000, "XADD x 1-# field value:#"), Once("XGROUP CREATE x g 0")],
        "XREADGROUP GROUP g c COUNT 1000 STREAMS x >" => "Array";
    GROUP, "XREADGROUP GROUP g c COUNT 1000 STREAMS x 0" => "Array";
    GROUP, "XGROUP SETID x g 1-5" => "Simple";
};

/// Commands that change nothing. They need no memory in the store, even if they are the first
/// command of a process that opens a full store.
pub(super) const READS: &[Case] = cases! {
    KEYS, "WATCH k:7 absent" => "Simple";
    KEYS, "UNWATCH" => "Simple";
    KEYS, "TOUCH k:7" => "Integer(1)";
    KEYS, "SCAN 0 COUNT 1000" => "Array";
    KEYS, "RANDOMKEY" => "Bulk";
    KEYS, "DUMP k:7" => "Bulk";
    KEYS, "OBJECT IDLETIME k:7" => "Integer";
    KEYS, "MEMORY USAGE k:7" => "Integer";
    KEYS, "DBSIZE" => "Integer";
    KEYS, "INFO" => "";
    KEYS, "CLIENT LIST" => "";
    SET, "SMEMBERS s" => "";
    SET, "SSCAN s 0" => "Array";
    SET, "SORT_RO s ALPHA" => "Array";
    &[Once("PFADD p 1 2 3")], "PFCOUNT p" => "Integer(3)";
    GROUP, "XREAD STREAMS x 0" => "";
    GROUP, "XPENDING x g" => "Array";
};

/// Commands that write, do not have the `denyoom` flag, and are tested elsewhere, each with the
/// location of the test.
pub(super) const OTHERS: &[(&str, &str)] = &[
    (
        "function|delete",
        "clients/python/tests/robustness/test_full.py, as it needs an interpreter",
    ),
    (
        "function|flush",
        "clients/python/tests/robustness/test_full.py, as it needs an interpreter",
    ),
    (
        "migrate",
        "nowhere: it is refused, as there is no other server",
    ),
];
