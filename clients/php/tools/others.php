<?php

declare(strict_types=1);

/**
 * Commands of Redis 7.0 that our server does not have, or of which it has less than a Redis, so that its table does not
 * tell of them; and some that the table has, which are told here in the words of this client's methods.
 *
 * A command's name => what it does, how long that takes, its arguments, where its keys are (as in Table::KEYS; none
 * where that is not told), and whether it changes nothing. Texts are empty where a method is written by hand, or there
 * is none.
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
