//! Lists calls of every command that takes keys as arguments or only reads. The matrix runs each
//! call over pairs of states.

use super::Answers::{Exact, Random, Size, Unordered};

/// How to compare a reply with the reply of an undisturbed call.
#[derive(Clone, Copy, Debug)]
pub enum Answers {
    /// The reply must match byte for byte.
    Exact,
    /// The reply must contain the same items, in any order.
    Unordered,
    /// The reply must match, except that sizes in bytes can differ by memory that an arena (the
    /// pages of one large object) reserves in advance.
    Size,
    /// The reply is random. It must have the same number of items, and each item must also be in
    /// the reply of this other call.
    Random(&'static str),
}

/// Test calls for one command. The keys `k` and `j` change during a call, and `d` does not exist.
#[derive(Clone, Copy, Debug)]
pub struct Case {
    /// The command's name in the table of commands.
    pub command: &'static str,
    /// How to compare the replies.
    pub answers: Answers,
    /// The command lines to call.
    pub lines: &'static [&'static str],
}

const fn case(command: &'static str, lines: &'static [&'static str]) -> Case {
    Case {
        command,
        answers: Exact,
        lines,
    }
}

const fn random(command: &'static str, all: &'static str, lines: &'static [&'static str]) -> Case {
    Case {
        command,
        answers: Random(all),
        lines,
    }
}

const fn unordered(command: &'static str, lines: &'static [&'static str]) -> Case {
    Case {
        command,
        answers: Unordered,
        lines,
    }
}

/// Commands that take keys as arguments or only read, but are not tested: they block, or depend on
/// a session, a script or another server.
pub const OTHERS: &[&str] = &[
    "blmove",
    "blmpop",
    "blpop",
    "brpop",
    "brpoplpush",
    "bzmpop",
    "bzpopmax",
    "bzpopmin",
    "eval",
    "eval_ro",
    "evalsha",
    "evalsha_ro",
    "fcall",
    "fcall_ro",
    "lolwut",
    "migrate",
    "pfselftest",
    "watch",
];

/// All cases.
pub const CASES: &[Case] = &[
    // Commands on strings.
    case("get", &["GET k"]),
    case(
        "set",
        &[
            "SET k new",
            "SET k new GET",
            "SET k new NX",
            "SET k new XX KEEPTTL",
        ],
    ),
    case(
        "getex",
        &["GETEX k", "GETEX k PERSIST", "GETEX k PXAT 1900000050000"],
    ),
    case("getdel", &["GETDEL k"]),
    case("getset", &["GETSET k new"]),
    case("setnx", &["SETNX k new"]),
    case("setex", &["SETEX k 100 new"]),
    case("psetex", &["PSETEX k 100000 new"]),
    case("mget", &["MGET k", "MGET k j k", "MGET d k j"]),
    case("mset", &["MSET k new j other"]),
    case("msetnx", &["MSETNX k new j other"]),
    case("append", &["APPEND k more"]),
    case("strlen", &["STRLEN k"]),
    case(
        "getrange",
        &["GETRANGE k 0 -1", "GETRANGE k 3 20", "GETRANGE k -6000 -2"],
    ),
    case("setrange", &["SETRANGE k 2 xyz"]),
    case("substr", &["SUBSTR k 1 -1"]),
    case("incr", &["INCR k"]),
    case("decr", &["DECR k"]),
    case("incrby", &["INCRBY k 5"]),
    case("decrby", &["DECRBY k 5"]),
    case("incrbyfloat", &["INCRBYFLOAT k 0.5"]),
    case(
        "lcs",
        &["LCS k j LEN", "LCS k j", "LCS k j IDX WITHMATCHLEN"],
    ),
    // Commands on bits.
    case("setbit", &["SETBIT k 9 1"]),
    case("getbit", &["GETBIT k 9", "GETBIT k 30000"]),
    case(
        "bitcount",
        &["BITCOUNT k", "BITCOUNT k 1 -2", "BITCOUNT k 5 4000 BIT"],
    ),
    case(
        "bitpos",
        &["BITPOS k 1", "BITPOS k 0 2", "BITPOS k 1 9 -1 BIT"],
    ),
    case(
        "bitop",
        &["BITOP AND d k j", "BITOP NOT d k", "BITOP XOR k k j"],
    ),
    case(
        "bitfield",
        &["BITFIELD k GET u16 100", "BITFIELD k SET u8 8 7 GET i5 3"],
    ),
    case("bitfield_ro", &["BITFIELD_RO k GET u16 100 GET i64 0"]),
    // Commands on keys of any type.
    case("del", &["DEL k j"]),
    case("unlink", &["UNLINK k j"]),
    case("exists", &["EXISTS k", "EXISTS k j k d"]),
    case("type", &["TYPE k"]),
    unordered("keys", &["KEYS *", "KEYS k*"]),
    unordered(
        "scan",
        &[
            "SCAN 0 COUNT 100",
            "SCAN 0 COUNT 100 TYPE hash",
            "SCAN 0 MATCH k",
        ],
    ),
    random("randomkey", "KEYS *", &["RANDOMKEY"]),
    case("rename", &["RENAME k j", "RENAME k d"]),
    case("renamenx", &["RENAMENX k j", "RENAMENX k d"]),
    case("copy", &["COPY k j", "COPY k d", "COPY k j REPLACE"]),
    case("move", &["MOVE k 5"]),
    case("touch", &["TOUCH k j"]),
    case("dump", &["DUMP k"]),
    case("restore", &["RESTORE k 0 nothing", "RESTORE d 0 nothing"]),
    case(
        "expire",
        &["EXPIRE k 100", "EXPIRE k 100 GT", "EXPIRE k -1"],
    ),
    case("pexpire", &["PEXPIRE k 100000 XX"]),
    case("expireat", &["EXPIREAT k 1900000100"]),
    case("pexpireat", &["PEXPIREAT k 1900000100000 NX"]),
    case("ttl", &["TTL k"]),
    case("pttl", &["PTTL k"]),
    case("expiretime", &["EXPIRETIME k"]),
    case("pexpiretime", &["PEXPIRETIME k"]),
    case("persist", &["PERSIST k"]),
    case("object|encoding", &["OBJECT ENCODING k"]),
    case("object|idletime", &["OBJECT IDLETIME k"]),
    case("object|freq", &["OBJECT FREQ k"]),
    case("object|refcount", &["OBJECT REFCOUNT k"]),
    case(
        "sort",
        &[
            "SORT k ALPHA",
            "SORT k",
            "SORT k ALPHA STORE d",
            "SORT k BY nosort GET #",
        ],
    ),
    case(
        "sort_ro",
        &[
            "SORT_RO k ALPHA",
            "SORT_RO k LIMIT 1 5 DESC",
            "SORT_RO k BY nosort",
        ],
    ),
    Case {
        command: "memory|usage",
        answers: Size,
        lines: &["MEMORY USAGE k", "MEMORY USAGE k SAMPLES 0"],
    },
    case("dbsize", &["DBSIZE"]),
    case("swapdb", &["SWAPDB 0 0"]),
    case("debug", &["DEBUG OBJECT k"]),
    // Commands on hashes.
    case("hset", &["HSET k m0 new", "HSET k m0 new unknown new"]),
    case("hsetnx", &["HSETNX k m0 new"]),
    case("hmset", &["HMSET k m0 new m1 new"]),
    case("hget", &["HGET k m0", "HGET k m19", "HGET k unknown"]),
    case("hmget", &["HMGET k m0", "HMGET k m0 unknown m3 m19 m63"]),
    case("hgetall", &["HGETALL k"]),
    case("hdel", &["HDEL k m0 m1 unknown"]),
    case("hexists", &["HEXISTS k m0", "HEXISTS k m30"]),
    case("hlen", &["HLEN k"]),
    case("hkeys", &["HKEYS k"]),
    case("hvals", &["HVALS k"]),
    case("hstrlen", &["HSTRLEN k m0", "HSTRLEN k m50"]),
    case("hincrby", &["HINCRBY k m1 5"]),
    case("hincrbyfloat", &["HINCRBYFLOAT k m1 0.5"]),
    random(
        "hrandfield",
        "HGETALL k",
        &[
            "HRANDFIELD k",
            "HRANDFIELD k 3",
            "HRANDFIELD k 1000",
            "HRANDFIELD k -7",
            "HRANDFIELD k 2 WITHVALUES",
            "HRANDFIELD k 1000 WITHVALUES",
            "HRANDFIELD k -7 WITHVALUES",
        ],
    ),
    case(
        "hscan",
        &[
            "HSCAN k 0 COUNT 1000",
            "HSCAN k 0 COUNT 5 MATCH m1*",
            "HSCAN k 0",
        ],
    ),
    // Commands on HyperLogLogs.
    case("pfadd", &["PFADD k s1 d1"]),
    case("pfcount", &["PFCOUNT k", "PFCOUNT k j", "PFCOUNT k j d"]),
    case("pfmerge", &["PFMERGE d k j", "PFMERGE k j"]),
    case(
        "pfdebug",
        &["PFDEBUG ENCODING k", "PFDEBUG DECODE k", "PFDEBUG GETREG k"],
    ),
    // Commands on lists.
    case("lpush", &["LPUSH k new newer"]),
    case("rpush", &["RPUSH k new newer"]),
    case("lpushx", &["LPUSHX k new"]),
    case("rpushx", &["RPUSHX k new"]),
    case("lpop", &["LPOP k", "LPOP k 3"]),
    case("rpop", &["RPOP k", "RPOP k 3"]),
    case("llen", &["LLEN k"]),
    case(
        "lrange",
        &[
            "LRANGE k 0 -1",
            "LRANGE k 0 0",
            "LRANGE k -5 -2",
            "LRANGE k 200 1200",
        ],
    ),
    case("lindex", &["LINDEX k 0", "LINDEX k -1", "LINDEX k 8"]),
    case("lset", &["LSET k 0 new"]),
    case("linsert", &["LINSERT k BEFORE 1005 new"]),
    case("lrem", &["LREM k 0 1005"]),
    case("ltrim", &["LTRIM k 1 -2"]),
    case(
        "lpos",
        &[
            "LPOS k 1005",
            "LPOS k 1005 COUNT 0",
            "LPOS k 1005 RANK -1 MAXLEN 500",
        ],
    ),
    case("lmove", &["LMOVE k j LEFT RIGHT", "LMOVE k k RIGHT LEFT"]),
    case("rpoplpush", &["RPOPLPUSH k j"]),
    case("lmpop", &["LMPOP 2 k j LEFT COUNT 3"]),
    // Commands on feeds.
    case(
        "feed.create",
        &["FEED.CREATE k SIZE 8", "FEED.CREATE d SIZE 8"],
    ),
    case(
        "feed.add",
        &[
            "FEED.ADD k -1 new00001 ATTRS 1:0:1 new00002",
            "FEED.ADD k 0 new00001",
            "FEED.ADD k 5 new00001",
            "FEED.ADD k * m0000100 zzzzzzzz a0000000 ATTRS 1:0:1",
        ],
    ),
    case("feed.del", &["FEED.DEL k m0000004 m0000006 unknown0"]),
    case(
        "feed.delwhere",
        &["FEED.DELWHERE k 3::", "FEED.DELWHERE k a1<2 HIDDEN"],
    ),
    case(
        "feed.move",
        &["FEED.MOVE k m0000004 0", "FEED.MOVE k m0000004 2"],
    ),
    case("feed.setattr", &["FEED.SETATTR k m0000004 15::0"]),
    case("feed.hide", &["FEED.HIDE k m0000004 m0000008"]),
    case("feed.show", &["FEED.SHOW k m0000000 m0000006"]),
    case(
        "feed.range",
        &[
            "FEED.RANGE k 0 3",
            "FEED.RANGE k 0 1000 ALL WITHATTRS",
            "FEED.RANGE k -20 10 HIDDEN REV",
            "FEED.RANGE k 300 40 WHERE 3::1",
        ],
    ),
    case(
        "feed.between",
        &[
            "FEED.BETWEEN k - +",
            "FEED.BETWEEN k (m0000006 [m00003 LIMIT 3 90 ALL WITHATTRS",
            "FEED.BETWEEN k [m00001 + WHERE 3::1 REV",
        ],
    ),
    case(
        "feed.count",
        &[
            "FEED.COUNT k",
            "FEED.COUNT k ALL WHERE a0>12",
            "FEED.COUNT k HIDDEN",
        ],
    ),
    case(
        "feed.pos",
        &["FEED.POS k m0000008 ALL", "FEED.POS k m0000008"],
    ),
    case("feed.pop", &["FEED.POP k LEFT", "FEED.POP k RIGHT 3"]),
    Case {
        command: "feed.info",
        answers: Size,
        lines: &["FEED.INFO k"],
    },
    case("feed.compact", &["FEED.COMPACT k"]),
    // Commands on sets.
    case("sadd", &["SADD k m0 new"]),
    case("srem", &["SREM k m0 m1 5"]),
    case(
        "sismember",
        &["SISMEMBER k m0", "SISMEMBER k 50", "SISMEMBER k unknown"],
    ),
    case("smismember", &["SMISMEMBER k m0 m2 50 unknown"]),
    case("scard", &["SCARD k"]),
    case("smembers", &["SMEMBERS k"]),
    random("spop", "SMEMBERS k", &["SPOP k", "SPOP k 3"]),
    random(
        "srandmember",
        "SMEMBERS k",
        &[
            "SRANDMEMBER k",
            "SRANDMEMBER k 3",
            "SRANDMEMBER k 1000",
            "SRANDMEMBER k -7",
        ],
    ),
    case("smove", &["SMOVE k j m0"]),
    case("sinter", &["SINTER k", "SINTER k j"]),
    case("sinterstore", &["SINTERSTORE d k j"]),
    case(
        "sintercard",
        &["SINTERCARD 2 k j", "SINTERCARD 2 k j LIMIT 3"],
    ),
    case("sunion", &["SUNION k", "SUNION k j"]),
    case("sunionstore", &["SUNIONSTORE d k j"]),
    case("sdiff", &["SDIFF k", "SDIFF k j", "SDIFF j k"]),
    case("sdiffstore", &["SDIFFSTORE d k j"]),
    case(
        "sscan",
        &[
            "SSCAN k 0 COUNT 1000",
            "SSCAN k 0 COUNT 5 MATCH m1*",
            "SSCAN k 0",
        ],
    ),
    // Commands on sorted sets.
    case("zadd", &["ZADD k 5 m0", "ZADD k XX GT CH 500 m0 1 unknown"]),
    case("zrem", &["ZREM k m0 m2"]),
    case("zcard", &["ZCARD k"]),
    case(
        "zscore",
        &["ZSCORE k m0", "ZSCORE k m18", "ZSCORE k unknown"],
    ),
    case("zmscore", &["ZMSCORE k m0 unknown m18"]),
    case("zincrby", &["ZINCRBY k 5 m0"]),
    case("zrank", &["ZRANK k m0", "ZRANK k m18"]),
    case("zrevrank", &["ZREVRANK k m0", "ZREVRANK k m18"]),
    case("zcount", &["ZCOUNT k -inf +inf", "ZCOUNT k (20 60"]),
    case("zlexcount", &["ZLEXCOUNT k - +", "ZLEXCOUNT k [m0 (m3"]),
    case(
        "zrange",
        &[
            "ZRANGE k 0 -1",
            "ZRANGE k 0 -1 WITHSCORES",
            "ZRANGE k 1 5 REV",
            "ZRANGE k (20 60 BYSCORE LIMIT 1 5",
            "ZRANGE k [m0 [m3 BYLEX",
        ],
    ),
    case(
        "zrevrange",
        &["ZREVRANGE k 0 -1 WITHSCORES", "ZREVRANGE k 0 2"],
    ),
    case(
        "zrangebyscore",
        &[
            "ZRANGEBYSCORE k -inf +inf WITHSCORES",
            "ZRANGEBYSCORE k 10 40",
        ],
    ),
    case(
        "zrevrangebyscore",
        &["ZREVRANGEBYSCORE k +inf -inf WITHSCORES LIMIT 0 9"],
    ),
    case(
        "zrangebylex",
        &["ZRANGEBYLEX k - +", "ZRANGEBYLEX k [m0 (m3"],
    ),
    case("zrevrangebylex", &["ZREVRANGEBYLEX k + -"]),
    case(
        "zrangestore",
        &["ZRANGESTORE d k 0 -1", "ZRANGESTORE k j 0 3"],
    ),
    case("zremrangebyrank", &["ZREMRANGEBYRANK k 0 3"]),
    case("zremrangebyscore", &["ZREMRANGEBYSCORE k 10 40"]),
    case("zremrangebylex", &["ZREMRANGEBYLEX k [m0 [m3"]),
    case("zpopmin", &["ZPOPMIN k", "ZPOPMIN k 3"]),
    case("zpopmax", &["ZPOPMAX k", "ZPOPMAX k 3"]),
    case("zmpop", &["ZMPOP 2 k j MIN COUNT 3"]),
    random(
        "zrandmember",
        "ZRANGE k 0 -1 WITHSCORES",
        &[
            "ZRANDMEMBER k",
            "ZRANDMEMBER k 3",
            "ZRANDMEMBER k 1000",
            "ZRANDMEMBER k -7",
            "ZRANDMEMBER k 1000 WITHSCORES",
            "ZRANDMEMBER k -7 WITHSCORES",
        ],
    ),
    case(
        "zscan",
        &[
            "ZSCAN k 0 COUNT 1000",
            "ZSCAN k 0 COUNT 5 MATCH m1*",
            "ZSCAN k 0",
        ],
    ),
    case(
        "zunion",
        &["ZUNION 2 k j", "ZUNION 2 k j WITHSCORES AGGREGATE MAX"],
    ),
    case("zunionstore", &["ZUNIONSTORE d 2 k j WEIGHTS 2 3"]),
    case("zinter", &["ZINTER 2 k j WITHSCORES"]),
    case("zinterstore", &["ZINTERSTORE d 2 k j"]),
    case(
        "zintercard",
        &["ZINTERCARD 2 k j", "ZINTERCARD 2 k j LIMIT 3"],
    ),
    case("zdiff", &["ZDIFF 2 k j WITHSCORES", "ZDIFF 2 j k"]),
    case("zdiffstore", &["ZDIFFSTORE d 2 k j"]),
    // Commands on geospatial positions.
    case("geoadd", &["GEOADD k 1 2 m0"]),
    case("geopos", &["GEOPOS k m0 unknown m18"]),
    case("geodist", &["GEODIST k m0 m18 km"]),
    case("geohash", &["GEOHASH k m0 unknown m18"]),
    case(
        "geosearch",
        &[
            "GEOSEARCH k FROMLONLAT 20 20 BYRADIUS 3000 km ASC WITHDIST",
            "GEOSEARCH k FROMMEMBER m0 BYBOX 5000 5000 km",
        ],
    ),
    case(
        "geosearchstore",
        &["GEOSEARCHSTORE d k FROMMEMBER m0 BYBOX 5000 5000 km"],
    ),
    case(
        "georadius",
        &[
            "GEORADIUS k 20 20 3000 km",
            "GEORADIUS k 20 20 3000 km STORE d",
        ],
    ),
    case("georadius_ro", &["GEORADIUS_RO k 20 20 3000 km WITHCOORD"]),
    case("georadiusbymember", &["GEORADIUSBYMEMBER k m0 3000 km"]),
    case(
        "georadiusbymember_ro",
        &["GEORADIUSBYMEMBER_RO k m0 3000 km COUNT 5"],
    ),
    // Commands on streams.
    case(
        "xadd",
        &["XADD k 900-1 f v", "XADD k MAXLEN 3 900-* f v g w"],
    ),
    case("xlen", &["XLEN k"]),
    case(
        "xrange",
        &[
            "XRANGE k - +",
            "XRANGE k (3-1 200 COUNT 7",
            "XRANGE k 900 +",
        ],
    ),
    case(
        "xrevrange",
        &["XREVRANGE k + -", "XREVRANGE k 200 3 COUNT 7"],
    ),
    case(
        "xread",
        &["XREAD STREAMS k j 2-1 0", "XREAD COUNT 3 STREAMS j k $ 100"],
    ),
    case("xdel", &["XDEL k 1-1 3-1 200-1 900-1"]),
    case("xtrim", &["XTRIM k MAXLEN 4", "XTRIM k MINID ~ 150"]),
    case("xsetid", &["XSETID k 900-1"]),
    case("xgroup|create", &["XGROUP CREATE k h 3"]),
    case("xgroup|setid", &["XGROUP SETID k g $"]),
    case("xgroup|destroy", &["XGROUP DESTROY k g"]),
    case("xgroup|createconsumer", &["XGROUP CREATECONSUMER k g e"]),
    case("xgroup|delconsumer", &["XGROUP DELCONSUMER k g c"]),
    case(
        "xreadgroup",
        &[
            "XREADGROUP GROUP g c COUNT 3 STREAMS k >",
            "XREADGROUP GROUP g c STREAMS k 0",
        ],
    ),
    case("xack", &["XACK k g 1-1 2-1 3-1"]),
    case("xpending", &["XPENDING k g", "XPENDING k g - + 9 c"]),
    case("xclaim", &["XCLAIM k g d 0 1-1 2-1 900-1"]),
    case("xautoclaim", &["XAUTOCLAIM k g d 0 0 COUNT 5"]),
    case("xinfo|stream", &["XINFO STREAM k", "XINFO STREAM k FULL"]),
    case("xinfo|groups", &["XINFO GROUPS k"]),
    case("xinfo|consumers", &["XINFO CONSUMERS k g"]),
];
