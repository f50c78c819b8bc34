//! Tests which commands count as an access to a key for eviction and OBJECT FREQ. As in Redis,
//! these are the commands that read or change the value.

use undercroft_commands::reply::Tree;
use undercroft_engine::eviction::{EvictionChange, EvictionPolicy};

use super::Client;

/// Each row contains a line that creates the key `k`, and the commands that access `k`.
pub(crate) const USING: [(&str, &str); 9] = [
    (
        "SET k 12",
        "GET k|TOUCH k|STRLEN k|DUMP k|APPEND k 3|SETRANGE k 0 3|GETRANGE k 0 1|MGET k|SET k 3|SET k 3 XX|SETNX k 3|\
         GETSET k 3|GETEX k|EXPIRE k 1000|PEXPIREAT k 99999999999999|EXPIRE k 1000 XX|PERSIST k|SETBIT k 1 1|GETBIT k 1|\
         BITCOUNT k|BITPOS k 1|BITFIELD k SET u8 0 1|BITFIELD_RO k GET u8 0|BITOP AND d k|COPY k d|LCS k k|INCR k|\
         DECRBY k 5|INCRBYFLOAT k 1|MSET k 3|RENAME k k",
    ),
    (
        "RPUSH k a b c",
        "LRANGE k 0 -1|LLEN k|LINDEX k 0|LPOS k a|LSET k 0 z|LINSERT k BEFORE a z|LINSERT k BEFORE no z|LREM k 0 no|\
         LREM k 1 a|LTRIM k 0 1|LPUSH k x|RPUSHX k x|LPOP k|RPOP k 1|LPOP k 0|LMPOP 1 k LEFT|LMOVE k d LEFT RIGHT|\
         RPOPLPUSH k k|BLPOP k 0|BLMOVE k d LEFT RIGHT 0|SORT k ALPHA|SORT_RO k ALPHA|SORT k ALPHA STORE d",
    ),
    (
        "HSET k f 1 g 2",
        "HGET k f|HMGET k f g|HGETALL k|HKEYS k|HLEN k|HSTRLEN k f|HEXISTS k f|HSET k f 2|HSETNX k f 3|HINCRBY k f 1|\
         HINCRBYFLOAT k f 1|HDEL k no|HDEL k f|HRANDFIELD k|HSCAN k 0",
    ),
    (
        "SADD k a b c",
        "SMEMBERS k|SISMEMBER k a|SMISMEMBER k a b|SCARD k|SADD k d|SADD k a|SREM k no|SREM k a|SPOP k|SRANDMEMBER k|\
         SSCAN k 0|SINTER k k|SUNION k x|SINTERCARD 1 k|SUNIONSTORE d k|SMOVE k d a|SMOVE k d no|SMOVE d k a",
    ),
    (
        "ZADD k 1 a 2 b",
        "ZSCORE k a|ZMSCORE k a|ZRANGE k 0 -1|ZRANGESTORE d k 0 -1|ZRANK k a|ZCARD k|ZCOUNT k 0 1|ZADD k 3 c|\
         ZADD k XX 3 no|ZADD k NX 3 a|ZADD k 1 a|ZINCRBY k 1 a|ZREM k no|ZREM k a|ZREMRANGEBYRANK k 5 6|ZPOPMIN k|\
         ZPOPMIN k 0|BZPOPMIN k 0|ZMPOP 1 k MIN|ZRANDMEMBER k|ZSCAN k 0|ZINTER 1 k|ZUNION 1 k|ZDIFF 1 k|\
         ZINTERCARD 1 k|ZUNIONSTORE d 1 k|SORT k ALPHA",
    ),
    (
        "PFADD k a",
        "PFADD k a|PFADD k b|PFCOUNT k|PFCOUNT k d|PFMERGE d k|PFMERGE k",
    ),
    (
        "GEOADD k 1 1 a",
        "GEOADD k 2 2 a|GEOPOS k a|GEODIST k a a|GEOHASH k a|GEOSEARCH k FROMMEMBER a BYRADIUS 1 m|\
         GEOSEARCHSTORE d k FROMMEMBER a BYRADIUS 1 m|GEORADIUS k 1 1 1 m",
    ),
    ("SADD k 1 2", "SADD k 3|SISMEMBER k 1|SORT k"),
    ("SET k v", "RENAME k d|RENAMENX k d"),
];

/// Commands that inspect the key without accessing its value, or that concern another key.
const NOT_USING: &str = "TYPE k|TTL k|PEXPIRETIME k|EXISTS k|OBJECT ENCODING k|OBJECT REFCOUNT k|OBJECT FREQ k|\
     MEMORY USAGE k|DEBUG OBJECT k|SCAN 0|KEYS *|RANDOMKEY|DEL no|DBSIZE|WATCH k";

/// An access count that is higher than that of a new key and far below the maximum.
const BEFORE: u8 = 100;

impl Client {
    /// Returns the access count of `k` after a command, starting from `BEFORE`. If `k` no longer
    /// exists, returns the count of `d`.
    fn uses_after(&mut self, start: &str, line: &str) -> u8 {
        self.run("FLUSHALL");
        self.run(start);
        let key = self.store.key(b"k");
        self.store.set_frequency(&key, BEFORE);
        let reply = self.run(line);
        assert!(!matches!(reply, Tree::Error(_)), "{line}: {reply:?}");
        let is_there = self
            .store
            .exists(0, &[b"k"])
            .expect("no process holds a lock")
            == 1;
        let key = self.store.key(if is_there { b"k" } else { b"d" });
        self.store.frequency(&key)
    }
}

#[test]
fn reading_a_value_counts_as_use_of_its_key() {
    let mut client = Client::new(None);
    for change in [
        EvictionChange::Policy(EvictionPolicy::AllKeysLfu),
        // Make every access count, without decay.
        EvictionChange::LfuLogFactor(0),
        EvictionChange::LfuDecayTime(0),
    ] {
        client.store.change_eviction(change).expect("it may write");
    }
    for (start, lines) in USING {
        for line in lines.split('|') {
            let uses = client.uses_after(start, line);
            assert!(uses > BEFORE, "{start}, {line}: {uses}");
        }
    }
    for line in NOT_USING.split('|') {
        assert_eq!(client.uses_after("SET k v", line), BEFORE, "{line}");
    }
}
