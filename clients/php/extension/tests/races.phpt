--TEST--
Store: a value changes in the midst of every read
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
$states = [null, 'short', str_repeat('medium ', 70), str_repeat('long ', 1_000), str_repeat('longer ', 100_000), '42'];
$calls = [
    'get' => fn () => $store->get('key'),
    'GET' => fn () => $store->execute(['GET', 'key']),
    'mget' => fn () => $store->mget(['key'])[0],
    'pipeline' => fn () => $store->pipeline([['GET', 'key']])[0],
];
$tried = 0;
$made = undercroft_test_change_reads($store, [['PING']]);
$store->get('key');
foreach ($states as $before) {
    foreach ($states as $after) {
        foreach ($calls as $name => $call) {
            $before === null ? $store->del('key') : $store->set('key', $before);
            $change = $after === null ? ['DEL', 'key'] : ['SET', 'key', $after];
            undercroft_test_change_reads($store, [$change]);
            $got = $call();
            same(true, $got === $after, "$name: " . strlen($before ?? '') . ' became ' . strlen($after ?? ''));
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
