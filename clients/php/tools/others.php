<?php

declare(strict_types=1);

/**
 * Commands of Redis 7.0 that the server's command table lacks or covers only in part. Some commands
 * of the table are also listed, to describe them in terms of this client's methods.
 *
 * An entry maps a command's name to its summary, time complexity, arguments, key positions and
 * whether it is read-only. Key positions have the format of Table::KEYS, and are empty if not
 * known. Texts are empty for commands without a generated method.
 */
return [
    'XACK' => ['Marks entries as done for a group.', 'O(1) for each entry', 'key group id [id ...]', '[1,1,1]', false],
    'XADD' => ['', '', '', '[1,1,1]', false],
    'XAUTOCLAIM' => ['Gives a consumer entries that others have held for too long, some at a time.', 'O(1)',
        'key group consumer min-idle-time start [COUNT count] [JUSTID]', '[1,1,1]', false],
    'XCLAIM' => ['', '', '', '[1,1,1]', false],
    'XDEL' => ['Removes entries.', 'O(1) for each entry', 'key id [id ...]', '[1,1,1]', false],
    'XGROUP' => ['Makes and removes groups and their consumers.', 'O(1), of DESTROY O(N) in what is not done',
        'CREATE | SETID | DESTROY | CREATECONSUMER | DELCONSUMER key group [...]', '[2,2,1]', false],
    'XINFO' => ['Tells of a stream, its groups or a group\'s consumers.', 'O(N) in what it tells of',
        'STREAM | GROUPS | CONSUMERS key [...]', '[2,2,1]', true],
    'XLEN' => ['Counts the entries of a stream.', 'O(1)', 'key', '[1,1,1]', true],
    'XPENDING' => ['Tells which entries are not done yet: in sum, or one by one.', 'O(N) in what it tells of',
        'key group [[IDLE ms] start end count [consumer]]', '[1,1,1]', true],
    'XRANGE' => ['', '', '', '[1,1,1]', true],
    'XREAD' => ['', '', '', '', false],
    'XREADGROUP' => ['', '', '', '', false],
    'XREVRANGE' => ['', '', '', '[1,1,1]', true],
    'XSETID' => ['Sets the last ID of a stream.', 'O(1)',
        'key last-id [ENTRIESADDED entries-added] [MAXDELETEDID max-deleted-id]', '[1,1,1]', false],
    'XTRIM' => ['', '', '', '[1,1,1]', false],
    'EVAL_RO' => ['', '', '', '[2]', false],
    'EVALSHA_RO' => ['', '', '', '[2]', false],
    'FCALL' => ['', '', '', '[2]', false],
    'FCALL_RO' => ['', '', '', '[2]', false],
    'FUNCTION' => ['Loads, lists, saves and removes libraries of functions.', 'O(N) in what it works on',
        'DELETE | DUMP | FLUSH | KILL | LIST | LOAD | RESTORE | STATS [...]', '', false],
    'ACL' => ['Tells of users and changes what they may do.', 'O(N) in what it tells of',
        'CAT | DELUSER | DRYRUN | GENPASS | GETUSER | LIST | LOAD | LOG | SAVE | SETUSER | USERS | WHOAMI [...]', '',
        false],
    'BGREWRITEAOF' => ['Writes the append-only file anew, in the background.', 'O(1)', '', '', false],
    'CLUSTER' => ['Tells of a cluster and changes it.', 'O(N) in what it tells of',
        'COUNTKEYSINSLOT | INFO | KEYSLOT | MYID | NODES | SHARDS | SLOTS [...]', '', false],
    'FAILOVER' => ['Has a replica take this server\'s place.', 'O(1)',
        '[TO host port [FORCE]] [ABORT] [TIMEOUT milliseconds]', '', false],
    'LATENCY' => ['Tells what took long.', 'O(N) in what it tells of',
        'DOCTOR | GRAPH | HISTOGRAM | HISTORY | LATEST | RESET [...]', '', false],
    'MODULE' => ['Loads, lists and removes modules.', 'O(N) in what it tells of', 'LIST | LOAD | LOADEX | UNLOAD [...]',
        '', false],
    'REPLICAOF' => ['Makes a server a replica of another one, or none with NO ONE.', 'O(1)', 'host port', '', false],
    'SLAVEOF' => ['The former name of REPLICAOF.', 'O(1)', 'host port', '', false],
];
