--TEST--
Connection: over RESP3, a server returns the same replies as the embedded store
--EXTENSIONS--
undercroft
--SKIPIF--
<?php
if (!is_executable((string) getenv('UNDERCROFT'))) {
    die('skip needs the program that $UNDERCROFT names');
}
?>
--FILE--
<?php
require __DIR__ . '/start.inc';
use Undercroft\Native\Connection;

$store = open_store();
$socket = store_path() . '.sock';
$server = proc_open([getenv('UNDERCROFT'), 'serve', store_path(), '--port', '0', '--unixsocket', $socket],
    [1 => ['file', '/dev/null', 'w'], 2 => ['file', '/dev/null', 'w']], $pipes);
for ($tries = 0; ; $tries++) {
    try {
        $connection = new Connection("unix://$socket", 5.0, 10.0);
        break;
    } catch (Undercroft\ConnectionException $error) {
        if ($tries > 2000) {
            throw $error;
        }
        usleep(5_000);
    }
}
same('3', (string) $connection->execute(['HELLO', 3])['proto'], 'RESP3');

$seed = (int) (getenv('UNDERCROFT_SEED') ?: random_int(1, PHP_INT_MAX));
mt_srand($seed);
/** Returns the result of a call, or its error as text, so that the server and the store can be compared. */
function plain(callable $call): mixed
{
    try {
        return $call();
    } catch (Undercroft\ServerException $error) {
        return "error {$error->getMessage()}";
    }
}
$reads = [['GET', 'string'], ['MGET', 'string', 'none', 'hash'], ['HGETALL', 'hash'], ['LRANGE', 'list', 0, -1],
    ['SMEMBERS', 'set'],
    ['ZRANGE', 'zset', 0, -1, 'WITHSCORES'], ['ZSCORE', 'zset', 'a'], ['XRANGE', 'stream', '-', '+'], ['XINFO',
        'STREAM', 'stream'],
    ['TYPE', 'set'], ['TTL', 'none'], ['GET', 'list'], ['NOSUCH'], ['GET'], ['ZRANDMEMBER', 'none', 3], ['STRLEN',
        'string'],
    ['HRANDFIELD', 'none', 1, 'WITHVALUES'], ['ZMSCORE', 'zset', 'a', 'none'], ['LPOS', 'list', '5', 'COUNT', 0],
    ['OBJECT', 'ENCODING', 'zset'], ['COMMAND', 'INFO', 'get'], ['EXISTS', 'string', 'string'], ['HEXISTS', 'hash',
        'f1'],
    ['XREAD', 'STREAMS', 'stream', '0'], ['ZRANGEBYLEX', 'zset', '-', '+'], ['GEOPOS', 'geo', 'rome', 'none'],
        ['KEYS', 'no*'],
    ['FEED.RANGE', 'feed', 0, 10], ['FEED.INFO', 'feed']];
$bytes = function (): string {
    $bytes = '';
    for ($length = mt_rand(0, mt_rand(0, 3) ? 20 : 3_000); $length > 0; $length--) {
        $bytes .= chr(mt_rand(0, 255));
    }
    return $bytes;
};
$writes = [fn () => ['SET', 'string', $bytes()], fn () => ['HSET', 'hash', 'f' . mt_rand(0, 20), $bytes()],
    fn () => ['RPUSH', 'list', mt_rand(0, 9), $bytes()], fn () => ['SADD', 'set', mt_rand(-9, 9)],
    fn () => ['ZADD', 'zset', mt_rand() / 7, chr(mt_rand(97, 120))], fn () => ['XADD', 'stream', 'MAXLEN', 20, '*',
        'f', $bytes()],
    fn () => ['LTRIM', 'list', -30, -1], fn () => ['INCRBYFLOAT', 'float', '0.1'], fn () => ['SETEX', 'string', 1000,
        mt_rand()],
    fn () => ['GEOADD', 'geo', mt_rand(-90, 90), mt_rand(-80, 80), 'rome'], fn () => ['DEL', 'set']];
$store->execute(['FEED.CREATE', 'feed', 'SIZE', 4]);
$store->execute(['FEED.ADD', 'feed', 0, 'four']);
$compared = 0;
for ($round = 0; $round < 150; $round++) {
    $write = $writes[array_rand($writes)]();
    $round % 2 ? plain(fn () => $store->execute($write)) : plain(fn () => $connection->execute($write));
    foreach ($reads as $words) {
        $here = plain(fn () => $store->execute($words));
        $there = plain(fn () => $connection->execute($words));
        if (serialize($here) !== serialize($there)) {
            echo "seed $seed, round $round: ", json_encode($words), ': ', json_encode($here,
                JSON_PARTIAL_OUTPUT_ON_ERROR), ' embedded, ',
                json_encode($there, JSON_PARTIAL_OUTPUT_ON_ERROR), " from the server\n";
            break 2;
        }
        $compared++;
    }
}
$errors = fn (array $replies) => array_map(fn ($each) => $each instanceof Exception ? $each->getMessage() : $each,
    $replies);
same($errors($store->pipeline($reads)), $errors($connection->pipeline($reads)), 'a pipeline');
$big = str_repeat("long\r\n", 1_000_000);
same('OK', $connection->execute(['SET', 'big', $big]), 'a long value');
same(true, $store->get('big') === $big, 'embedded');
same(true, $connection->execute(['GET', 'big']) === $big, 'from the server');

// A subscribed connection receives messages that the store publishes.
$connection->send([['SUBSCRIBE', 'channel']]);
same(['subscribe', 'channel', 1], $connection->receive(), 'subscribed');
same(1, $store->publish('channel', 'hello'), 'a message');
same(['message', 'channel', 'hello'], $connection->receive(10.0), 'received');
same(true, $connection->isPush(), 'as a push');

proc_terminate($server, 9);
proc_close($server);
fails('Undercroft\ConnectionException: lost the connection to ', fn () => $connection->execute(['PING']), 'killed');
same('hello', $store->set('after', 'hello') ? $store->get('after') : null, 'the store goes on');
unlink($socket);
echo $compared > 4_000 ? 'done' : $compared;
?>
--EXPECT--
done
