//! Tests, for every command, that an item delivered to the mailbox of a client that died still
//! belongs to its key (M5). Each command runs on a store with such an item, and on a store in which
//! the item has never left its key. The two outcomes must be equal. The test fails if a command in
//! the table has no case.

use std::collections::BTreeSet;
use std::mem::ManuallyDrop;
use std::path::Path;

use undercroft_commands::reply::Tree;
use undercroft_commands::table::with_subcommands;
use undercroft_engine::Store;
use undercroft_engine::lists::End;
use undercroft_engine::waiting::{Take, WaitOutcome, Waiters, Wanted};

use super::Client;

/// At least one line for each command that concerns keys. The lines use the key `k`. The key `d`
/// does not exist.
pub(super) const LINES: &str = "APPEND k x|BITCOUNT k|BITFIELD k GET u8 0|BITFIELD_RO k GET u8 0|BITOP NOT d k|BITPOS k 1|\
    BLMOVE k d LEFT RIGHT 0.01|BLMPOP 0.01 1 k LEFT|BLPOP k 0.01|BRPOP k 0.01|BRPOPLPUSH k d 0.01|BZMPOP 0.01 1 k MIN|\
    BZPOPMAX k 0.01|BZPOPMIN k 0.01|COPY k d|DBSIZE|DECR k|DECRBY k 2|DEL k|DUMP k|EXISTS k|EXPIRE k 100|\
    EXPIREAT k 99999999999|EXPIRETIME k|FEED.ADD k -1 new|FEED.ADD k 1 new ATTRS 3:1:0|\
    FEED.ADD k * new one|FEED.BETWEEN k [o +|FEED.COMPACT k|FEED.COUNT k|\
    FEED.CREATE k SIZE 3|FEED.CREATE d SIZE 3 ATTRS 4|FEED.DEL k one|FEED.DELWHERE k 0::|FEED.HIDE k one|FEED.INFO k|\
    FEED.MOVE k one -1|FEED.POP k LEFT|FEED.POS k one|FEED.RANGE k 0 9|FEED.SETATTR k one 1::|FEED.SHOW k two|FLUSHALL|FLUSHDB|GEOADD k 1 1 a|GEODIST k one one|GEOHASH k one|GEOPOS k one|\
    GEORADIUS k 1 1 1 m|GEORADIUS_RO k 1 1 1 m|\
    GEORADIUSBYMEMBER k one 1 m|GEORADIUSBYMEMBER_RO k one 1 m|GEOSEARCH k FROMMEMBER one BYRADIUS 1 m|\
    GEOSEARCHSTORE d k FROMMEMBER one BYRADIUS 1 m|GET k|GETBIT k 1|GETDEL k|GETEX k|GETRANGE k 0 1|GETSET k x|HDEL k f|\
    HEXISTS k f|HGET k f|HGETALL k|HINCRBY k f 1|HINCRBYFLOAT k f 1|HKEYS k|HLEN k|HMGET k f|HMSET k f v|HRANDFIELD k|\
    HSCAN k 0|HSET k f v|HSETNX k f v|HSTRLEN k f|HVALS k|INCR k|INCRBY k 2|INCRBYFLOAT k 2|INFO keyspace|KEYS *|LCS k d|\
    LINDEX k 0|LINSERT k BEFORE one zero|LLEN k|LMOVE k d LEFT RIGHT|LMPOP 1 k LEFT|LPOP k|LPOS k one|LPUSH k zero|\
    LPUSHX k zero|LRANGE k 0 -1|LREM k 0 one|LSET k 0 x|LTRIM k 1 0|MEMORY USAGE k|MGET k d|MOVE k 1|MSET k v|MSETNX k v|\
    OBJECT ENCODING k|OBJECT FREQ k|OBJECT IDLETIME k|OBJECT REFCOUNT k|PERSIST k|PEXPIRE k 100000|\
    PEXPIREAT k 99999999999999|PEXPIRETIME k|PFADD k a|PFCOUNT k|PFDEBUG ENCODING k|PFMERGE d k|PSETEX k 100000 v|PTTL k|\
    RANDOMKEY|RENAME k d|RENAMENX k d|RESTORE k 0 x|RPOP k|RPOPLPUSH k d|RPUSH k two|RPUSHX k two|SADD k m|SCAN 0|SCARD k|\
    SDIFF k|SDIFFSTORE d k|SET k v|SET k v NX|SETBIT k 1 1|SETEX k 100 v|SETNX k v|SETRANGE k 0 v|SINTER k|SINTERCARD 1 k|\
    SINTERSTORE d k|SISMEMBER k m|SMEMBERS k|SMISMEMBER k m|SMOVE k d m|SORT k ALPHA|SORT k ALPHA STORE d|SORT_RO k ALPHA|\
    SPOP k|SRANDMEMBER k|SREM k m|SSCAN k 0|STRLEN k|SUBSTR k 0 1|SUNION k|SUNIONSTORE d k|SWAPDB 0 1|TOUCH k|TTL k|\
    TYPE k|UNLINK k|WATCH k|\
    XACK k g 1-1|XADD k * f v|XADD k MAXLEN 1 * f v|XADD d 1-1 f v|XAUTOCLAIM k g e 0 0|XCLAIM k g e 0 1-1 2-1 FORCE|XDEL k 1-1|\
    XGROUP CREATE k h 0|XGROUP CREATE d h 0 MKSTREAM|XGROUP CREATECONSUMER k g e|XGROUP DELCONSUMER k g c|XGROUP DESTROY k g|\
    XGROUP SETID k g 0|XINFO CONSUMERS k g|XINFO GROUPS k|XINFO STREAM k|XLEN k|XPENDING k g|XRANGE k - +|\
    XREAD STREAMS k 0|XREADGROUP GROUP g c STREAMS k >|XREADGROUP GROUP g c STREAMS k 0|XREVRANGE k + -|XSETID k 9-9|\
    XTRIM k MAXLEN 1|ZADD k 2 two|ZADD k NX 2 one|ZCARD k|ZCOUNT k 0 9|ZDIFF 1 k|ZDIFFSTORE d 1 k|\
    ZINCRBY k 2 one|ZINTER 1 k|ZINTERCARD 1 k|ZINTERSTORE d 1 k|ZLEXCOUNT k - +|ZMPOP 1 k MIN|ZMSCORE k one|ZPOPMAX k|\
    ZPOPMIN k|ZRANDMEMBER k|ZRANGE k 0 -1|ZRANGEBYLEX k - +|ZRANGEBYSCORE k 0 9|ZRANGESTORE d k 0 -1|ZRANK k one|\
    ZREM k one|ZREMRANGEBYLEX k - +|ZREMRANGEBYRANK k 0 -1|ZREMRANGEBYSCORE k 0 9|ZREVRANGE k 0 -1|\
    ZREVRANGEBYLEX k + -|ZREVRANGEBYSCORE k 9 0|ZREVRANK k one|ZSCAN k 0|ZSCORE k one|ZUNION 1 k|ZUNIONSTORE d 1 k";

/// Commands that do not concern keys, or that need another server.
const OTHERS: &str = "acl asking auth bgrewriteaof bgsave client cluster command config debug discard echo eval eval_ro evalsha \
    evalsha_ro exec fcall fcall_ro function hello lastsave latency lolwut memory memory|doctor memory|help \
    memory|malloc-stats memory|purge memory|stats migrate module monitor multi object object|help pfselftest ping \
    psubscribe psync publish pubsub punsubscribe quit readonly readwrite replconf replica.wait replicaof reset role save script \
    select shutdown slaveof slowlog spublish ssubscribe subscribe sunsubscribe sync time unsubscribe unwatch wait waitaof xgroup \
    xgroup|help \
    xinfo xinfo|help";

/// Returns the name of the command that a line calls, as in the command table.
fn name_of(line: &str) -> String {
    let mut words = line.split(' ').map(str::to_ascii_lowercase);
    let first = words.next().unwrap_or_default();
    let both = format!("{first}|{}", words.next().unwrap_or_default());
    let is_there = with_subcommands().any(|command| command.name == both);
    if is_there { both } else { first }
}

#[test]
fn every_command_in_the_table_has_a_case() {
    let cases: BTreeSet<String> = LINES.split('|').map(name_of).collect();
    let others: Vec<&str> = OTHERS.split_whitespace().collect();
    let has_none = |name: &str| {
        let family = name.split('|').next().unwrap_or_default();
        let of_family = !["object", "memory"].contains(&family) && others.contains(&family);
        !cases.contains(name) && !others.contains(&name) && !of_family
    };
    let without: Vec<&str> = with_subcommands()
        .map(|command| command.name)
        .filter(|name| has_none(name))
        .collect();
    assert!(without.is_empty(), "{without:?}");
}

/// Simulates a client in another process that waits for `k`, receives the items that `line` adds,
/// and dies.
fn give_to_the_dead(client: &mut Client, take: Take, line: &str) {
    let path = client.path();
    let dying = Store::open(&path, true).expect("the same store");
    let mut waiters = ManuallyDrop::new(Waiters::new(&dying));
    let wanted = Wanted {
        database: 0,
        keys: &[b"k"],
        take,
    };
    let begun = waiters.begin(&wanted).expect("room");
    assert!(matches!(begun, WaitOutcome::Waiting(_)));
    client.run(line);
    assert_eq!(client.run("EXISTS k"), Tree::Integer(0), "it was served");
    dying.abandon();
    client.open_anew();
}

impl Client {
    pub(super) fn path(&self) -> std::path::PathBuf {
        self.directory.path().join("store")
    }

    /// Reopens the store with a new handle, which has no cached knowledge of which processes are
    /// alive.
    fn open_anew(&mut self) {
        let path: &Path = &self.path();
        self.store = Store::open(path, true).expect("the same store");
    }

    /// Runs a command. Returns its reply and the resulting contents of the store.
    fn outcome(&mut self, line: &str) -> (String, String) {
        let reply = format!("{:?}", self.run(line));
        let mut held = String::new();
        for database in ["0", "1"] {
            self.run(&format!("SELECT {database}"));
            for key in ["k", "d"] {
                let value = self.run(&format!("DUMP {key}"));
                held.push_str(&format!("{database}/{key}: {value:?} "));
            }
        }
        self.run("SELECT 0");
        let report = self.store.check().expect("the store can be checked");
        assert_eq!(report.problems, Vec::<String>::new(), "{line}");
        (reply, held)
    }
}

#[test]
fn item_given_to_a_dead_client_belongs_to_its_key() {
    let items = Take::Items {
        end: End::Left,
        count: 9,
    };
    let members = Take::Scored {
        highest: false,
        count: 9,
    };
    let (mut with, mut without) = (Client::new(None), Client::new(None));
    let mut wrong = Vec::new();
    for (take, start) in [(items, "RPUSH k one"), (members, "ZADD k 1 one")] {
        for line in LINES.split('|') {
            with.run("FLUSHALL");
            without.run("FLUSHALL");
            without.run(start);
            without.open_anew();
            give_to_the_dead(&mut with, take, start);
            let (found, expected) = (with.outcome(line), without.outcome(line));
            if found != expected {
                wrong.push(format!(
                    "{start}, {line}: {found:?} instead of {expected:?}"
                ));
            }
            for client in [&mut with, &mut without] {
                client.session.reset();
            }
        }
    }
    assert!(
        wrong.is_empty(),
        "{} lines:\n{}",
        wrong.len(),
        wrong.join("\n")
    );
}

#[test]
fn item_given_to_a_dead_client_is_seen_by_transactions_and_watches() {
    let items = Take::Items {
        end: End::Left,
        count: 9,
    };
    let mut client = Client::new(None);
    give_to_the_dead(&mut client, items, "RPUSH k one");
    for line in ["MULTI", "LLEN k", "LPOP k"] {
        client.run(line);
    }
    let replies = vec![Tree::Integer(1), Tree::Bulk(b"one".to_vec())];
    assert_eq!(client.run("EXEC"), Tree::Array(replies));
    // Returning the item to its key would change a key that is already being watched.
    give_to_the_dead(&mut client, items, "RPUSH k two");
    for line in ["WATCH k", "MULTI", "LLEN k"] {
        client.run(line);
    }
    // EXEC succeeds, because WATCH returned the item to its key before it began to watch the key.
    assert_eq!(client.run("EXEC"), Tree::Array(vec![Tree::Integer(1)]));
}
