--TEST--
Store: a value changes in the middle of every read
--EXTENSIONS--
undercroft
--SKIPIF--
<?php
if (!function_exists('undercroft_test_change_reads')) {
    die('skip needs a library with the feature "races"');
}
?>
--FILE--
<?php
require __DIR__ . '/start.inc';
$store = open_store();
$states = [null, ['SET', 'key', 'short'], ['SET', 'key', str_repeat('medium ', 70)],
    ['SET', 'key', str_repeat('long ', 1_000)], ['SET', 'key', str_repeat('longer ', 100_000)], ['SET', 'key', 42],
    ['RPUSH', 'key', 'one', 'two'], ['RPUSH', 'key', ...range(1, 2_000)], ['HSET', 'key', 'f', 'v'],
    ['SADD', 'key', 1, 2], ['ZADD', 'key', 1.5, 'm']];
$calls = [
    'get' => fn () => $store->get('key'),
    'mget' => fn () => $store->mget(['key', 'key']),
    'exists' => fn () => $store->exists('key'),
    'ttl' => fn () => $store->ttl('key'),
    'GET' => fn () => $store->execute(['GET', 'key']),
    'LRANGE' => fn () => $store->execute(['LRANGE', 'key', 0, -1]),
    'HGETALL' => fn () => $store->execute(['HGETALL', 'key']),
    'pipeline' => fn () => $store->pipeline([['STRLEN', 'key']]),
];
/** Returns the result of a call, or its error message, as text. */
function answer(callable $call): string
{
    try {
        $got = $call();
    } catch (Undercroft\ServerException $error) {
        return $error->getMessage();
    }
    // In a pipeline's list, replace each error by its message.
    $plain = fn ($each) => is_object($each) ? $each->getMessage() : $each;
    return serialize(is_array($got) ? array_map($plain, $got) : $got);
}
$tried = 0;
$made = undercroft_test_change_reads($store, [['PING']]);
$store->get('key');
foreach ($states as $from => $before) {
    foreach ($states as $to => $after) {
        // Prepare a command that changes the key to the new state atomically.
        $store->del('key', 'other');
        if ($after !== null) {
            $store->execute([$after[0], 'other', ...array_slice($after, 2)]);
        }
        $change = $after === null ? ['DEL', 'key'] : ['COPY', 'other', 'key', 'REPLACE'];
        foreach ($calls as $name => $call) {
            $store->execute($change);
            $expected = answer($call);
            $store->del('key');
            $before === null || $store->execute($before);
            undercroft_test_change_reads($store, [$change]);
            same($expected, answer($call), "$name: state $from became $to");
            $tried++;
        }
    }
}
$made = undercroft_test_change_reads($store, [['PING']]) - $made;
same(true, $made >= $tried, "$made changes were made in the midst of $tried reads");
echo 'done';
?>
--EXPECT--
done
