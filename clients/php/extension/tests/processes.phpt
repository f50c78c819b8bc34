--TEST--
Store: forks, kills, and files that are replaced, removed, foreign or full
--EXTENSIONS--
undercroft
--FILE--
<?php
require __DIR__ . '/start.inc';
$store = open_store();
$store->set('a', 'parent');
$store->execute(['WATCH', 'a']);
$store->subscribe(['c']);
same(0, in_child(function () use ($store) {
    same('parent', $store->get('a'), 'a child reads');
    $store->set('b', 'child');
    same(1, $store->execute(['INCR', 'n']), 'a child runs commands');
    same(1, $store->publish('c', 'from the child') > 0 ? 1 : 0, 'a child sends');
    open_store()->set('c', 'opened in the child');
}), 'a child');
same('child', $store->get('b'), 'written by a child');
same('opened in the child', $store->get('c'), 'written by a child');
same(['message', 'c', 'from the child'], $store->message(5), 'sent by a child');

// Kill children at any moment during a write. Each key must then have a complete value, either old or new.
for ($round = 0; $round < 30; $round++) {
    $child = pcntl_fork();
    if ($child === 0) {
        for ($i = 0; ; $i++) {
            $store->set('killed', str_repeat(chr(97 + $i % 26), 1 + $i * 37 % 3000));
            $store->execute(['RPUSH', 'queue', "$i"]);
            $store->transaction([['INCR', 'left'], ['INCR', 'right']]);
        }
    }
    while ($store->get('killed') === null) {
        usleep(100);
    }
    usleep(mt_rand(0, 3000));
    kill($child);
    $value = $store->get('killed');
    same(str_repeat($value[0], strlen($value)), $value, 'one value');
    [$left, $right] = $store->mget(['left', 'right']);
    same($left, $right, 'both or none');
}
same(true, $store->set('killed', 'after'), 'no lock was left behind');

// After a file was replaced, opening it again opens a different store.
rename(store_path(), store_path() . '-old');
same(null, open_store()->get('a'), 'a new store');
open_store()->set('a', 'new');
same('parent', $store->get('a'), 'who has the old one open reads on');
same('new', open_store()->get('a'), 'the new one is kept');
unset($store);
unlink(store_path() . '-old');

// A store without users stays mapped until its file is replaced.
$mapped = function (): array {
    preg_match_all('~(\d+) +(' . store_path() . '(?:-old)?(?: \(deleted\))?)$~m',
        file_get_contents('/proc/self/maps'), $found);
    return array_combine($found[1], $found[2]);
};
same([store_path()], array_values($mapped()), 'still mapped');
unlink(store_path());
open_store()->set('a', 'newest');
same([store_path()], array_values($mapped()), 'the new one alone');

file_put_contents(store_path() . '-foreign', str_repeat('foreign ', 2000));
$why = thrown(fn () => new Undercroft\Native\Store(store_path() . '-foreign'));
same(true, str_starts_with($why, 'Undercroft\StoreException: '), $why);
same(str_repeat('foreign ', 2000), file_get_contents(store_path() . '-foreign'), 'not changed');
unlink(store_path() . '-foreign');
foreach (['/no/such/directory/store', '', 'undercroft://', "/tmp", 'redis://x'] as $url) {
    $why = thrown(fn () => new Undercroft\Native\Store($url));
    same(true, str_starts_with($why, 'Undercroft\StoreException: '), "$url: $why");
}
fails('ValueError: ', fn () => new Undercroft\Native\Store("/tmp/a\0b"), 'a zero in a name');

// A full store refuses writes with OOM, and reads and deletions still work.
unlink(store_path());
$small = open_store(['maxmemory' => 4 << 20]);
$stored = 0;
try {
    for (; $stored < 100; $stored++) {
        $small->set("big$stored", str_repeat('x', 100_000));
    }
    echo "never full\n";
} catch (Undercroft\ServerException $full) {
    same('OOM', $full->kind(), 'full');
}
same(true, $stored > 10, "$stored values");
same(true, strlen($small->get('big0')) === 100_000, 'read when it is full');
same(1, $small->del('big0'), 'deleted when it is full');
$why = thrown(fn () => open_store(['maxmemory' => 8 << 20, 'strict' => true]));
same(true, str_starts_with($why, 'Undercroft\StoreException: '), "another maxmemory, strictly: $why");
$warning = '';
set_error_handler(function (int $level, string $text) use (&$warning): bool {
    $warning = $text;
    return true;
}, E_WARNING);
same('nothing', substr(thrown(fn () => open_store(['maxmemory' => 8 << 20])), 0, 7), 'another maxmemory');
restore_error_handler();
same(true, str_contains($warning, 'has maxmemory 4194304, not the requested 8388608'), "another maxmemory: $warning");
foreach ([['db' => 16], ['db' => -1], ['db' => '1'], ['maxmemory' => -2], ['policy' => 'none'], ['timeout' => 0],
    ['timeout' => NAN], ['nosuch' => 1], [1]] as $options) {
    $why = thrown(fn () => open_store($options));
    same(1, preg_match('~^(ValueError|Undercroft.StoreException): ~', $why), json_encode($options,
        JSON_PARTIAL_OUTPUT_ON_ERROR) . " $why");
}
fails('Error: ', fn () => clone $small, 'not cloned');
fails('Exception: ', fn () => serialize($small), 'not serialized');
fails('Error: ', fn () => $small->__construct(store_path()), 'constructed once');

// Use more stores than a process keeps open.
for ($i = 0; $i < 40; $i++) {
    $each = new Undercroft\Native\Store(store_path() . "-$i");
    $each->set('number', (string) $i);
    $each->close();
}
for ($i = 0; $i < 40; $i++) {
    same((string) $i, (new Undercroft\Native\Store(store_path() . "-$i"))->get('number'), "store $i");
    unlink(store_path() . "-$i");
}
echo 'done';
?>
--EXPECT--
done
