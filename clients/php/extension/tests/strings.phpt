--TEST--
Store: calls for strings and keys, with values of every length
--EXTENSIONS--
undercroft
--FILE--
<?php
require __DIR__ . '/start.inc';
$store = open_store();
same(null, $store->get('none'), 'no key');
foreach ([0, 1, 2, 10, 511, 512, 513, 4096, 65536, 1_000_000] as $length) {
    $value = $length === 0 ? '' : substr(str_repeat("a\0b\xff", intdiv($length, 4) + 1), 0, $length);
    same(true, $store->set("v$length", $value), 'set');
    same($value, $store->get("v$length"), "get of $length");
    same(strlen($value), strlen($store->get("v$length")), "length of $length");
}
same(true, $store->set("bin\0ary", '1'), 'set of a key with a zero');
same('1', $store->get("bin\0ary"), 'such a key');
same(null, $store->get('bin'), 'not its beginning');
same(true, $store->set('', 'empty'), 'the empty key');
same('empty', $store->get(''), 'the empty key');
same(1, $store->incr('n'), 'incr of nothing');
same(-41, $store->incr('n', -42), 'incr by');
same('-41', $store->get('n'), 'a number as text');
fails('Undercroft\ServerException: ERR value is not an integer or out of range', fn () => $store->incr('v10'), 'incr');
fails('Undercroft\ServerException: ERR increment or decrement would overflow', fn () => [$store->set('n',
    (string) PHP_INT_MAX), $store->incr('n')], 'overflow');
same([null, '-41', ''], [$store->set('n', '-41') ? null : 0, ...$store->mget(['n', 'v0'])], 'mget');
same([], $store->mget([]), 'mget of none');
$many = [];
for ($i = 0; $i < 1000; $i++) {
    $many["many$i"] = "value$i";
}
same(true, $store->mset($many), 'mset');
same(array_values($many), $store->mget(array_keys($many)), 'mget of many');
same(true, $store->mset([7 => 8, 'double' => 1.5]), 'numbers as names and values');
same(['8', '1.5'], $store->mget([7, 'double']), 'numbers');
same(1000, $store->exists(...array_keys($many)), 'exists');
same(2, $store->exists('n', 'n', 'none'), 'exists twice');
same(1000, $store->del(...array_keys($many)), 'del');
same(0, $store->del('none'), 'del of none');
same(null, $store->ttl('none'), 'ttl of none');
same(-1, $store->ttl('n'), 'ttl of what stays');
same(true, $store->expire('n', 100_000), 'expire');
same(true, $store->ttl('n') > 90_000, 'ttl');
same(false, $store->expire('none', 1), 'expire of none');
same(true, $store->expire('n', 0), 'expire now');
same(null, $store->get('n'), 'expired');
same(true, $store->set('t', 'x', 100_000) && $store->ttl('t') > 90_000, 'set with a time');
same(true, $store->set('t', 'x') && $store->ttl('t') === -1, 'set without one');
same(true, $store->set('t', 'x', null) && $store->ttl('t') === -1, 'set with null');
foreach ([0, -1, PHP_INT_MIN, PHP_INT_MAX] as $time) {
    fails('ValueError: Undercroft\Native\Store::set(): Argument #3 ($ttl_ms) must be more than 0 milliseconds',
        fn () => $store->set('t', 'y', $time), 'a wrong time');
}
same('x', $store->get('t'), 'not changed');
$store->execute(['LPUSH', 'list', '1']);
$wrong = 'Undercroft\ServerException: WRONGTYPE Operation against a key holding the wrong kind of value';
same($wrong, thrown(fn () => $store->get('list')), 'get of a list');
same($wrong, thrown(fn () => $store->incr('list')), 'incr of a list');
same('WRONGTYPE', (function () use ($store) {
    try {
        $store->get('list');
    } catch (Undercroft\ServerException $error) {
        return $error->kind();
    }
})(), 'kind');
fails('TypeError: Undercroft\Native\Store::del(): Argument #2 must be of type string, array given',
    fn () => $store->del('t', []), 'del of an array');
fails('TypeError: expected a string or a number as a command argument, got bool',
    fn () => $store->mset(['t' => true]), 'mset of true');
same('x', $store->get('t'), 'not changed either');
$store->close();
$store->close();
fails('Undercroft\StoreException: the store is closed; create a new object for it', fn () => $store->get('t'),
    'closed');
fails('Undercroft\StoreException: the store is closed; create a new object for it',
    fn () => $store->execute(['PING']), 'closed');
echo 'done';
?>
--EXPECT--
done
