--TEST--
Store: commands given as words, replies of every type, pipelines, transactions
--EXTENSIONS--
undercroft
--FILE--
<?php
require __DIR__ . '/start.inc';

final class Word
{
    public function __toString(): string
    {
        return 'by ' . self::class;
    }
}

$store = open_store();
$do = fn (...$words) => $store->execute($words);
same('PONG', $do('PING'), 'status');
same('OK', $do('SET', 'a', 1), 'an integer as a word');
same('1', $do('GET', 'a'), 'string');
same(2, $do('INCR', 'a'), 'integer');
same(null, $do('GET', 'none'), 'nil');
same([], $do('LRANGE', 'none', 0, -1), 'empty list');
same(3, $do('RPUSH', 'list', 'x', '', PHP_INT_MIN), 'push');
same(['x', '', (string) PHP_INT_MIN], $do('LRANGE', 'list', 0, -1), 'list');
same(2, $do('HSET', 'hash', 'f', 'v', '7', 'seven'), 'hash');
same(['f' => 'v', 7 => 'seven'], $do('HGETALL', 'hash'), 'map');
same(2, $do('ZADD', 'zset', 1.5, 'm', INF, 'n'), 'doubles as words');
same(1.5, $do('ZSCORE', 'zset', 'm'), 'double');
same([['m', 1.5], ['n', INF]], $do('ZRANGE', 'zset', 0, -1, 'WITHSCORES'), 'scores');
foreach ([0.1, 1e300, -1.0, 1 / 3, 123456789012345678.0] as $number) {
    $do('ZADD', 'zset', $number, 'm');
    same($number, $do('ZSCORE', 'zset', 'm'), 'a double and back');
}
same(1, $do('SADD', 'set', new Word()), 'an object as a word');
same(['by Word'], $do('SMEMBERS', 'set'), 'set');
$text = 'referenced';
same('OK', $store->execute(['SET', 'b', &$text]), 'a reference as a word');
same('referenced', $do('GET', 'b'), 'its value');
$many = [];
for ($i = 0; $i < 5000; $i++) {
    $many[] = $i % 3 === 0 ? $i : "item $i";
}
same(5000, $do('RPUSH', 'many', ...$many), 'many words');
same(array_map('strval', $many), $do('LRANGE', 'many', 0, -1), 'many items');

foreach ([[true, 'bool'], [null, 'null'], [[], 'array'], [new stdClass(), 'stdClass']] as [$word, $type]) {
    $type = is_object($word) ? 'object' : $type;
    $why = thrown(fn () => $do('SET', 'b', $word));
    same(true, str_starts_with($why, 'TypeError: expected a string or a number as a command argument, got '), $why);
}
fails('ValueError: expected a number as a command argument, got NAN', fn () => $do('SET', 'b', NAN), 'nan');
fails('ValueError: expected a command, got an empty list', fn () => $store->execute([]), 'no words');
fails('ValueError: expected a command, got an empty list', fn () => $store->pipeline([[]]), 'no words');
fails('TypeError: expected a list of arguments as a command, got string', fn () => $store->pipeline(['PING']), 'no list');
same('referenced', $do('GET', 'b'), 'not changed');
fails('Undercroft\ServerException: ERR unknown command', fn () => $do('NOSUCH'), 'unknown');
fails('Undercroft\ServerException: ERR wrong number of arguments', fn () => $do('GET'), 'arity');

same([], $store->pipeline([]), 'no commands');
$replies = $store->pipeline([['SET', 'p', 1], ['INCRBY', 'p', 41], ['LPUSH', 'p', 'x'], ['MGET', 'p', 'none', &$text]]);
same(['OK', 42], array_slice($replies, 0, 2), 'a pipeline');
same('WRONGTYPE', $replies[2]->kind(), 'an error in its place');
same(['42', null, null], $replies[3], 'behind the error');
$commands = array_fill(0, 3000, ['INCR', 'p']);
same(range(43, 3042), $store->pipeline($commands), 'a long pipeline');

same(['OK', 2], $store->transaction([['SET', 't', 1], ['INCR', 't']]), 'a transaction');
$do('WATCH', 't');
open_store()->set('t', 'changed');
same(null, $store->transaction([['SET', 't', 'mine']]), 'a watched key changed');
same('changed', $do('GET', 't'), 'not set');
fails('Undercroft\ServerException: ERR unknown command', fn () => $store->transaction([['SET', 't', 'mine'],
    ['NOSUCH']]), 'a command that is none');
same('changed', $do('GET', 't'), 'not set either');
fails('ValueError: Undercroft\Native\Store::transaction(): Argument #1 ($commands) must contain at least one command',
    fn () => $store->transaction([]), 'no commands');

same('OK', $do('SELECT', 3), 'select');
same(null, $do('GET', 't'), 'another database');
same('changed', $store->get('t'), 'the calls stay in theirs');
same('changed', open_store()->execute(['GET', 't']), 'another object begins with its own');
same('OK', open_store(['db' => 3])->execute(['SET', 'd', 'three']), 'the option db');
same('three', open_store(['db' => 3])->get('d'), 'the option db');
same(null, open_store()->get('d'), 'the option db');

same('OK', $do('FEED.CREATE', 'feed', 'SIZE', 8), 'a feed');
same(1, $do('FEED.ADD', 'feed', 0, 'eight...'), 'an item');
echo 'done';
?>
--EXPECT--
done
