<?php

declare(strict_types=1);

namespace Undercroft\Commands;

use Undercroft\Serializer\Serializer;

/** The families of methods, and which one each method is of. Made by tools/generate.php. */
final class Families
{
    public const NAMES = [
        'Strings', 'Lists', 'Hashes', 'Sets', 'SortedSets', 'Keys', 'Server', 'Streams', 'StreamsWritten', 'Written',
    ];

    /** By the names of methods in small letters. */
    private const OF = [
        'append' => 'Strings', 'bitcount' => 'Strings', 'bitfield' => 'Strings', 'bitfieldro' => 'Strings',
        'bitop' => 'Strings', 'bitpos' => 'Strings', 'decr' => 'Strings', 'decrby' => 'Strings',
        'getbit' => 'Strings', 'getdel' => 'Strings', 'getex' => 'Strings', 'getrange' => 'Strings',
        'getset' => 'Strings', 'incr' => 'Strings', 'incrby' => 'Strings', 'incrbyfloat' => 'Strings',
        'lcs' => 'Strings', 'mget' => 'Strings', 'mset' => 'Strings', 'msetnx' => 'Strings',
        'pfadd' => 'Strings', 'pfcount' => 'Strings', 'pfmerge' => 'Strings', 'psetex' => 'Strings',
        'setbit' => 'Strings', 'setex' => 'Strings', 'setnx' => 'Strings', 'setrange' => 'Strings',
        'strlen' => 'Strings', 'substr' => 'Strings',
        'blmove' => 'Lists', 'blmpop' => 'Lists', 'blpop' => 'Lists', 'brpop' => 'Lists',
        'brpoplpush' => 'Lists', 'lindex' => 'Lists', 'linsert' => 'Lists', 'llen' => 'Lists',
        'lmove' => 'Lists', 'lmpop' => 'Lists', 'lpop' => 'Lists', 'lpos' => 'Lists', 'lpush' => 'Lists',
        'lpushx' => 'Lists', 'lrange' => 'Lists', 'lrem' => 'Lists', 'lset' => 'Lists', 'ltrim' => 'Lists',
        'rpop' => 'Lists', 'rpoplpush' => 'Lists', 'rpush' => 'Lists', 'rpushx' => 'Lists',
        'hdel' => 'Hashes', 'hexists' => 'Hashes', 'hget' => 'Hashes', 'hgetall' => 'Hashes',
        'hincrby' => 'Hashes', 'hincrbyfloat' => 'Hashes', 'hkeys' => 'Hashes', 'hlen' => 'Hashes',
        'hmget' => 'Hashes', 'hmset' => 'Hashes', 'hrandfield' => 'Hashes', 'hsetnx' => 'Hashes',
        'hstrlen' => 'Hashes', 'hvals' => 'Hashes',
        'sadd' => 'Sets', 'scard' => 'Sets', 'sdiff' => 'Sets', 'sdiffstore' => 'Sets', 'sinter' => 'Sets',
        'sintercard' => 'Sets', 'sinterstore' => 'Sets', 'sismember' => 'Sets', 'smembers' => 'Sets',
        'smismember' => 'Sets', 'smove' => 'Sets', 'spop' => 'Sets', 'srandmember' => 'Sets',
        'srem' => 'Sets', 'sunion' => 'Sets', 'sunionstore' => 'Sets',
        'bzmpop' => 'SortedSets', 'bzpopmax' => 'SortedSets', 'bzpopmin' => 'SortedSets',
        'geoadd' => 'SortedSets', 'geodist' => 'SortedSets', 'geohash' => 'SortedSets',
        'geopos' => 'SortedSets', 'georadius' => 'SortedSets', 'georadiusbymember' => 'SortedSets',
        'georadiusbymemberro' => 'SortedSets', 'georadiusro' => 'SortedSets', 'geosearch' => 'SortedSets',
        'geosearchstore' => 'SortedSets', 'zcard' => 'SortedSets', 'zcount' => 'SortedSets',
        'zdiff' => 'SortedSets', 'zdiffstore' => 'SortedSets', 'zincrby' => 'SortedSets',
        'zinter' => 'SortedSets', 'zintercard' => 'SortedSets', 'zinterstore' => 'SortedSets',
        'zlexcount' => 'SortedSets', 'zmpop' => 'SortedSets', 'zmscore' => 'SortedSets',
        'zpopmax' => 'SortedSets', 'zpopmin' => 'SortedSets', 'zrandmember' => 'SortedSets',
        'zrange' => 'SortedSets', 'zrangebylex' => 'SortedSets', 'zrangebyscore' => 'SortedSets',
        'zrangestore' => 'SortedSets', 'zrank' => 'SortedSets', 'zrem' => 'SortedSets',
        'zremrangebylex' => 'SortedSets', 'zremrangebyrank' => 'SortedSets',
        'zremrangebyscore' => 'SortedSets', 'zrevrange' => 'SortedSets', 'zrevrangebylex' => 'SortedSets',
        'zrevrangebyscore' => 'SortedSets', 'zrevrank' => 'SortedSets', 'zscore' => 'SortedSets',
        'zunion' => 'SortedSets', 'zunionstore' => 'SortedSets',
        'copy' => 'Keys', 'del' => 'Keys', 'dump' => 'Keys', 'exists' => 'Keys', 'expire' => 'Keys',
        'expireat' => 'Keys', 'expiretime' => 'Keys', 'migrate' => 'Keys', 'move' => 'Keys',
        'object' => 'Keys', 'persist' => 'Keys', 'pexpire' => 'Keys', 'pexpireat' => 'Keys',
        'pexpiretime' => 'Keys', 'pttl' => 'Keys', 'randomkey' => 'Keys', 'rename' => 'Keys',
        'renamenx' => 'Keys', 'restore' => 'Keys', 'sort' => 'Keys', 'sortro' => 'Keys', 'touch' => 'Keys',
        'ttl' => 'Keys', 'type' => 'Keys', 'unlink' => 'Keys',
        'acl' => 'Server', 'auth' => 'Server', 'bgrewriteaof' => 'Server', 'bgsave' => 'Server',
        'client' => 'Server', 'cluster' => 'Server', 'command' => 'Server', 'config' => 'Server',
        'dbsize' => 'Server', 'debug' => 'Server', 'echo' => 'Server', 'failover' => 'Server',
        'flushall' => 'Server', 'flushdb' => 'Server', 'function' => 'Server', 'info' => 'Server',
        'lastsave' => 'Server', 'latency' => 'Server', 'lolwut' => 'Server', 'module' => 'Server',
        'ping' => 'Server', 'publish' => 'Server', 'pubsub' => 'Server', 'replicaof' => 'Server',
        'role' => 'Server', 'save' => 'Server', 'script' => 'Server', 'shutdown' => 'Server',
        'slaveof' => 'Server', 'slowlog' => 'Server', 'spublish' => 'Server', 'swapdb' => 'Server',
        'time' => 'Server', 'wait' => 'Server',
        'xack' => 'Streams', 'xautoclaim' => 'Streams', 'xdel' => 'Streams', 'xgroup' => 'Streams',
        'xinfo' => 'Streams', 'xlen' => 'Streams', 'xpending' => 'Streams', 'xsetid' => 'Streams',
        'xadd' => 'StreamsWritten', 'xclaim' => 'StreamsWritten', 'xrange' => 'StreamsWritten',
        'xread' => 'StreamsWritten', 'xreadgroup' => 'StreamsWritten', 'xrevrange' => 'StreamsWritten',
        'xtrim' => 'StreamsWritten',
        'eval' => 'Written', 'evalro' => 'Written', 'evalsha' => 'Written', 'evalsharo' => 'Written',
        'fcall' => 'Written', 'fcallro' => 'Written', 'hscan' => 'Written', 'hset' => 'Written',
        'keys' => 'Written', 'memory' => 'Written', 'scan' => 'Written', 'sscan' => 'Written',
        'zadd' => 'Written', 'zscan' => 'Written',
    ];

    /** The family of a method; null where no command has this name. */
    public static function of(string $method, string $prefix, ?Serializer $serializer): ?Family
    {
        $family = self::OF[strtolower($method)] ?? null;
        return $family === null ? null : self::make($family, $prefix, $serializer);
    }

    /** Loads a family. */
    public static function make(string $family, string $prefix, ?Serializer $serializer): Family
    {
        return match ($family) {
            'Strings' => new class ($prefix, $serializer) extends Family {
                use Packing;
                use Strings;
            },
            'Lists' => new class ($prefix, $serializer) extends Family {
                use Packing;
                use Lists;
            },
            'Hashes' => new class ($prefix, $serializer) extends Family {
                use Packing;
                use Hashes;
            },
            'Sets' => new class ($prefix, $serializer) extends Family {
                use Packing;
                use Sets;
            },
            'SortedSets' => new class ($prefix, $serializer) extends Family {
                use Packing;
                use SortedSets;
            },
            'Keys' => new class ($prefix, $serializer) extends Family {
                use Packing;
                use Keys;
            },
            'Server' => new class ($prefix, $serializer) extends Family {
                use Packing;
                use Server;
            },
            'Streams' => new class ($prefix, $serializer) extends Family {
                use Packing;
                use Streams;
            },
            'StreamsWritten' => new class ($prefix, $serializer) extends Family {
                use Packing;
                use StreamsWritten;
            },
            'Written' => new class ($prefix, $serializer) extends Family {
                use Packing;
                use Written;
            },
        };
    }
}
