<?php

declare(strict_types=1);

/**
 * Defines Redis 7.0 commands that the server's command table lacks or covers only in part. Some
 * commands in the table are also listed, to describe them in terms of this client's methods.
 *
 * An entry maps a command's name to its summary, time complexity, arguments, key positions and
 * whether it is read-only. Key positions have the format of Table::KEYS, and are empty if not
 * known. Texts are empty for commands without a generated method.
 */
return [
    'XACK' => ['Acknowledges entries of a consumer group.', 'O(1) for each entry', 'key group id [id ...]', '[1,1,1]',
        false],
    'XADD' => ['', '', '', '[1,1,1]', false],
    'XAUTOCLAIM' => ['Transfers entries that have been pending for too long to a consumer, in batches.', 'O(1)',
        'key group consumer min-idle-time start [COUNT count] [JUSTID]', '[1,1,1]', false],
    'XCLAIM' => ['', '', '', '[1,1,1]', false],
    'XDEL' => ['Removes entries from a stream.', 'O(1) for each entry', 'key id [id ...]', '[1,1,1]', false],
    'XGROUP' => ['Creates and removes consumer groups and their consumers.',
        'O(1); for DESTROY O(N) for N pending entries',
        'CREATE | SETID | DESTROY | CREATECONSUMER | DELCONSUMER key group [...]', '[2,2,1]', false],
    'XINFO' => ['Returns information about a stream, its groups or a group\'s consumers.', 'O(N) for N items returned',
        'STREAM | GROUPS | CONSUMERS key [...]', '[2,2,1]', true],
    'XLEN' => ['Returns the number of entries in a stream.', 'O(1)', 'key', '[1,1,1]', true],
    'XPENDING' => ['Lists the pending entries of a group, as a summary or one by one.', 'O(N) for N items returned',
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
    'FUNCTION' => ['Loads, lists, saves and removes function libraries.', 'O(N) for N libraries',
        'DELETE | DUMP | FLUSH | KILL | LIST | LOAD | RESTORE | STATS [...]', '', false],
    'ACL' => ['Shows users and changes their permissions.', 'O(N) for N items returned',
        'CAT | DELUSER | DRYRUN | GENPASS | GETUSER | LIST | LOAD | LOG | SAVE | SETUSER | USERS | WHOAMI [...]', '',
        false],
    'CLUSTER' => ['Shows and changes the state of a cluster.', 'O(N) for N items returned',
        'COUNTKEYSINSLOT | INFO | KEYSLOT | MYID | NODES | SHARDS | SLOTS [...]', '', false],
    'FAILOVER' => ['Promotes a replica to replace this server.', 'O(1)',
        '[TO host port [FORCE]] [ABORT] [TIMEOUT milliseconds]', '', false],
    'LATENCY' => ['Shows latency events.', 'O(N) for N items returned',
        'DOCTOR | GRAPH | HISTOGRAM | HISTORY | LATEST | RESET [...]', '', false],
    'MODULE' => ['Loads, lists and removes modules.', 'O(N) for N modules', 'LIST | LOAD | LOADEX | UNLOAD [...]',
        '', false],
    'REPLICAOF' => ['Makes a server a replica of another server, or with NO ONE a primary.', 'O(1)', 'host port', '',
        false],
    'SLAVEOF' => ['A deprecated alias of REPLICAOF.', 'O(1)', 'host port', '', false],
];
