<?php

declare(strict_types=1);

namespace Undercroft\Commands;

/** What is known of commands. Made by tools/generate.php of a server's command table. */
final class Table
{
    /** Commands that change nothing, which may be sent twice. */
    public const READS = [
        'BITCOUNT' => true, 'BITFIELD_RO' => true, 'BITPOS' => true, 'DBSIZE' => true, 'DUMP' => true,
        'ECHO' => true, 'EXISTS' => true, 'EXPIRETIME' => true, 'FEED.BETWEEN' => true,
        'FEED.COUNT' => true, 'FEED.INFO' => true, 'FEED.POS' => true, 'FEED.RANGE' => true,
        'GEODIST' => true, 'GEOHASH' => true, 'GEOPOS' => true, 'GEORADIUSBYMEMBER_RO' => true,
        'GEORADIUS_RO' => true, 'GEOSEARCH' => true, 'GET' => true, 'GETBIT' => true, 'GETRANGE' => true,
        'HEXISTS' => true, 'HGET' => true, 'HGETALL' => true, 'HKEYS' => true, 'HLEN' => true,
        'HMGET' => true, 'HRANDFIELD' => true, 'HSCAN' => true, 'HSTRLEN' => true, 'HVALS' => true,
        'INFO' => true, 'KEYS' => true, 'LCS' => true, 'LINDEX' => true, 'LLEN' => true, 'LOLWUT' => true,
        'LPOS' => true, 'LRANGE' => true, 'MGET' => true, 'PEXPIRETIME' => true, 'PFCOUNT' => true,
        'PING' => true, 'PTTL' => true, 'RANDOMKEY' => true, 'SCAN' => true, 'SCARD' => true, 'SDIFF' => true,
        'SINTER' => true, 'SINTERCARD' => true, 'SISMEMBER' => true, 'SMEMBERS' => true,
        'SMISMEMBER' => true, 'SORT_RO' => true, 'SRANDMEMBER' => true, 'SSCAN' => true, 'STRLEN' => true,
        'SUBSTR' => true, 'SUNION' => true, 'TIME' => true, 'TOUCH' => true, 'TTL' => true, 'TYPE' => true,
        'XINFO' => true, 'XLEN' => true, 'XPENDING' => true, 'XRANGE' => true, 'XREVRANGE' => true,
        'ZCARD' => true, 'ZCOUNT' => true, 'ZDIFF' => true, 'ZINTER' => true, 'ZINTERCARD' => true,
        'ZLEXCOUNT' => true, 'ZMSCORE' => true, 'ZRANDMEMBER' => true, 'ZRANGE' => true,
        'ZRANGEBYLEX' => true, 'ZRANGEBYSCORE' => true, 'ZRANK' => true, 'ZREVRANGE' => true,
        'ZREVRANGEBYLEX' => true, 'ZREVRANGEBYSCORE' => true, 'ZREVRANK' => true, 'ZSCAN' => true,
        'ZSCORE' => true, 'ZUNION' => true,
    ];

    /**
     * Where the keys of commands are among their words: the first, the last (from the end where negative) and the step;
     * or the word with their number, which stands before them.
     */
    public const KEYS = [
        'APPEND' => [1, 1, 1], 'BITCOUNT' => [1, 1, 1], 'BITFIELD' => [1, 1, 1], 'BITFIELD_RO' => [1, 1, 1],
        'BITOP' => [2, -1, 1], 'BITPOS' => [1, 1, 1], 'BLMOVE' => [1, 2, 1], 'BLMPOP' => [2], 'BLPOP' => [1, -2, 1],
        'BRPOP' => [1, -2, 1], 'BRPOPLPUSH' => [1, 2, 1], 'BZMPOP' => [2], 'BZPOPMAX' => [1, -2, 1],
        'BZPOPMIN' => [1, -2, 1], 'COPY' => [1, 2, 1], 'DECR' => [1, 1, 1], 'DECRBY' => [1, 1, 1],
        'DEL' => [1, -1, 1], 'DUMP' => [1, 1, 1], 'EVAL' => [2], 'EVALSHA' => [2], 'EVALSHA_RO' => [2],
        'EVAL_RO' => [2], 'EXISTS' => [1, -1, 1], 'EXPIRE' => [1, 1, 1], 'EXPIREAT' => [1, 1, 1],
        'EXPIRETIME' => [1, 1, 1], 'FCALL' => [2], 'FCALL_RO' => [2], 'FEED.ADD' => [1, 1, 1],
        'FEED.BETWEEN' => [1, 1, 1], 'FEED.COMPACT' => [1, 1, 1], 'FEED.COUNT' => [1, 1, 1],
        'FEED.CREATE' => [1, 1, 1], 'FEED.DEL' => [1, 1, 1], 'FEED.DELWHERE' => [1, 1, 1],
        'FEED.HIDE' => [1, 1, 1], 'FEED.INFO' => [1, 1, 1], 'FEED.MOVE' => [1, 1, 1], 'FEED.POP' => [1, 1, 1],
        'FEED.POS' => [1, 1, 1], 'FEED.RANGE' => [1, 1, 1], 'FEED.SETATTR' => [1, 1, 1], 'FEED.SHOW' => [1, 1, 1],
        'GEOADD' => [1, 1, 1], 'GEODIST' => [1, 1, 1], 'GEOHASH' => [1, 1, 1], 'GEOPOS' => [1, 1, 1],
        'GEORADIUS' => [1, 1, 1], 'GEORADIUSBYMEMBER' => [1, 1, 1], 'GEORADIUSBYMEMBER_RO' => [1, 1, 1],
        'GEORADIUS_RO' => [1, 1, 1], 'GEOSEARCH' => [1, 1, 1], 'GEOSEARCHSTORE' => [1, 2, 1], 'GET' => [1, 1, 1],
        'GETBIT' => [1, 1, 1], 'GETDEL' => [1, 1, 1], 'GETEX' => [1, 1, 1], 'GETRANGE' => [1, 1, 1],
        'GETSET' => [1, 1, 1], 'HDEL' => [1, 1, 1], 'HEXISTS' => [1, 1, 1], 'HGET' => [1, 1, 1],
        'HGETALL' => [1, 1, 1], 'HINCRBY' => [1, 1, 1], 'HINCRBYFLOAT' => [1, 1, 1], 'HKEYS' => [1, 1, 1],
        'HLEN' => [1, 1, 1], 'HMGET' => [1, 1, 1], 'HMSET' => [1, 1, 1], 'HRANDFIELD' => [1, 1, 1],
        'HSCAN' => [1, 1, 1], 'HSET' => [1, 1, 1], 'HSETNX' => [1, 1, 1], 'HSTRLEN' => [1, 1, 1],
        'HVALS' => [1, 1, 1], 'INCR' => [1, 1, 1], 'INCRBY' => [1, 1, 1], 'INCRBYFLOAT' => [1, 1, 1],
        'LCS' => [1, 2, 1], 'LINDEX' => [1, 1, 1], 'LINSERT' => [1, 1, 1], 'LLEN' => [1, 1, 1], 'LMOVE' => [1, 2, 1],
        'LMPOP' => [1], 'LPOP' => [1, 1, 1], 'LPOS' => [1, 1, 1], 'LPUSH' => [1, 1, 1], 'LPUSHX' => [1, 1, 1],
        'LRANGE' => [1, 1, 1], 'LREM' => [1, 1, 1], 'LSET' => [1, 1, 1], 'LTRIM' => [1, 1, 1], 'MGET' => [1, -1, 1],
        'MIGRATE' => [3, 3, 1], 'MOVE' => [1, 1, 1], 'MSET' => [1, -1, 2], 'MSETNX' => [1, -1, 2],
        'PERSIST' => [1, 1, 1], 'PEXPIRE' => [1, 1, 1], 'PEXPIREAT' => [1, 1, 1], 'PEXPIRETIME' => [1, 1, 1],
        'PFADD' => [1, 1, 1], 'PFCOUNT' => [1, -1, 1], 'PFDEBUG' => [2, 2, 1], 'PFMERGE' => [1, -1, 1],
        'PSETEX' => [1, 1, 1], 'PTTL' => [1, 1, 1], 'RENAME' => [1, 2, 1], 'RENAMENX' => [1, 2, 1],
        'RESTORE' => [1, 1, 1], 'RPOP' => [1, 1, 1], 'RPOPLPUSH' => [1, 2, 1], 'RPUSH' => [1, 1, 1],
        'RPUSHX' => [1, 1, 1], 'SADD' => [1, 1, 1], 'SCARD' => [1, 1, 1], 'SDIFF' => [1, -1, 1],
        'SDIFFSTORE' => [1, -1, 1], 'SET' => [1, 1, 1], 'SETBIT' => [1, 1, 1], 'SETEX' => [1, 1, 1],
        'SETNX' => [1, 1, 1], 'SETRANGE' => [1, 1, 1], 'SINTER' => [1, -1, 1], 'SINTERCARD' => [1],
        'SINTERSTORE' => [1, -1, 1], 'SISMEMBER' => [1, 1, 1], 'SMEMBERS' => [1, 1, 1], 'SMISMEMBER' => [1, 1, 1],
        'SMOVE' => [1, 2, 1], 'SORT' => [1, 1, 1], 'SORT_RO' => [1, 1, 1], 'SPOP' => [1, 1, 1],
        'SPUBLISH' => [1, 1, 1], 'SRANDMEMBER' => [1, 1, 1], 'SREM' => [1, 1, 1], 'SSCAN' => [1, 1, 1],
        'SSUBSCRIBE' => [1, -1, 1], 'STRLEN' => [1, 1, 1], 'SUBSTR' => [1, 1, 1], 'SUNION' => [1, -1, 1],
        'SUNIONSTORE' => [1, -1, 1], 'SUNSUBSCRIBE' => [1, -1, 1], 'TOUCH' => [1, -1, 1], 'TTL' => [1, 1, 1],
        'TYPE' => [1, 1, 1], 'UNLINK' => [1, -1, 1], 'WATCH' => [1, -1, 1], 'XACK' => [1, 1, 1], 'XADD' => [1, 1, 1],
        'XAUTOCLAIM' => [1, 1, 1], 'XCLAIM' => [1, 1, 1], 'XDEL' => [1, 1, 1], 'XGROUP' => [2, 2, 1],
        'XINFO' => [2, 2, 1], 'XLEN' => [1, 1, 1], 'XPENDING' => [1, 1, 1], 'XRANGE' => [1, 1, 1],
        'XREVRANGE' => [1, 1, 1], 'XSETID' => [1, 1, 1], 'XTRIM' => [1, 1, 1], 'ZADD' => [1, 1, 1],
        'ZCARD' => [1, 1, 1], 'ZCOUNT' => [1, 1, 1], 'ZDIFF' => [1], 'ZDIFFSTORE' => [1, 1, 1],
        'ZINCRBY' => [1, 1, 1], 'ZINTER' => [1], 'ZINTERCARD' => [1], 'ZINTERSTORE' => [1, 1, 1],
        'ZLEXCOUNT' => [1, 1, 1], 'ZMPOP' => [1], 'ZMSCORE' => [1, 1, 1], 'ZPOPMAX' => [1, 1, 1],
        'ZPOPMIN' => [1, 1, 1], 'ZRANDMEMBER' => [1, 1, 1], 'ZRANGE' => [1, 1, 1], 'ZRANGEBYLEX' => [1, 1, 1],
        'ZRANGEBYSCORE' => [1, 1, 1], 'ZRANGESTORE' => [1, 2, 1], 'ZRANK' => [1, 1, 1], 'ZREM' => [1, 1, 1],
        'ZREMRANGEBYLEX' => [1, 1, 1], 'ZREMRANGEBYRANK' => [1, 1, 1], 'ZREMRANGEBYSCORE' => [1, 1, 1],
        'ZREVRANGE' => [1, 1, 1], 'ZREVRANGEBYLEX' => [1, 1, 1], 'ZREVRANGEBYSCORE' => [1, 1, 1],
        'ZREVRANK' => [1, 1, 1], 'ZSCAN' => [1, 1, 1], 'ZSCORE' => [1, 1, 1], 'ZUNION' => [1],
        'ZUNIONSTORE' => [1, 1, 1],
    ];

    /** Commands that have no keys. */
    public const KEYLESS = [
        'ACL' => true, 'ASKING' => true, 'AUTH' => true, 'BGREWRITEAOF' => true, 'BGSAVE' => true,
        'CLIENT' => true, 'CLUSTER' => true, 'COMMAND' => true, 'CONFIG' => true, 'DBSIZE' => true,
        'DEBUG' => true, 'DISCARD' => true, 'ECHO' => true, 'EXEC' => true, 'FAILOVER' => true,
        'FLUSHALL' => true, 'FLUSHDB' => true, 'FUNCTION' => true, 'HELLO' => true, 'INFO' => true,
        'KEYS' => true, 'LASTSAVE' => true, 'LATENCY' => true, 'LOLWUT' => true, 'MEMORY' => true,
        'MODULE' => true, 'MONITOR' => true, 'MULTI' => true, 'OBJECT' => true, 'PFSELFTEST' => true,
        'PING' => true, 'PSUBSCRIBE' => true, 'PSYNC' => true, 'PUBLISH' => true, 'PUBSUB' => true,
        'PUNSUBSCRIBE' => true, 'QUIT' => true, 'RANDOMKEY' => true, 'READONLY' => true,
        'READWRITE' => true, 'REPLCONF' => true, 'REPLICAOF' => true, 'RESET' => true, 'ROLE' => true,
        'SAVE' => true, 'SCAN' => true, 'SCRIPT' => true, 'SELECT' => true, 'SHUTDOWN' => true,
        'SLAVEOF' => true, 'SLOWLOG' => true, 'SUBSCRIBE' => true, 'SWAPDB' => true, 'SYNC' => true,
        'TIME' => true, 'UNSUBSCRIBE' => true, 'UNWATCH' => true, 'WAIT' => true,
    ];

    /** Commands that wait, and which of their words is the time-out; from the end where negative. */
    public const WAITS = [
        'BLMOVE' => 5, 'BLMPOP' => 1, 'BLPOP' => -1, 'BRPOP' => -1, 'BRPOPLPUSH' => 3, 'BZMPOP' => 1,
        'BZPOPMAX' => -1, 'BZPOPMIN' => -1,
    ];
}
