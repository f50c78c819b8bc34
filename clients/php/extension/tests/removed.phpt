--TEST--
Store: files removed or replaced while a store is open, and how names are resolved
--EXTENSIONS--
undercroft
--FILE--
<?php
require __DIR__ . '/start.inc';
use Undercroft\Native\Store;

$gone = 'was removed or replaced';
$url = 'undercroft://' . store_path();

/** Repeats a call until it has created the store again. A process checks the file once a second. */
function until_made(callable $call): void
{
    while (!file_exists(store_path())) {
        $call();
        clearstatcache();
    }
}

// After a removal, every call on an open object continues in the store that the name now refers to.
$store = open_store();
foreach ([
    'set' => fn () => $store->set('k', 'v'),
    'absent' => fn () => $store->get('absent'),
    'command' => fn () => $store->execute(['GETSET', 'k', 'v']),
    'size' => fn () => $store->execute(['DBSIZE']),
] as $what => $call) {
    $store->set('old', '1');
    unlink(store_path());
    until_made($call);
    same(null, $store->get('old'), "$what: a new store");
    same(0, $store->execute(['EXISTS', 'old']), "$what: a new store for commands");
    $store->set('new', '1');
    same('1', open_store()->get('new'), "$what: the one that is opened now");
}

// A pipeline during which the removal is noticed may throw once.
unlink(store_path());
until_made(function () use ($store): void {
    try {
        $store->pipeline([['SET', 'k', 'v'], ['GET', 'k']]);
    } catch (Undercroft\StoreException) {
    }
});

// A wait, a watch and a subscription in the old store end with an exception. The next call uses the new store.
$store->execute(['WATCH', 'k']);
$store->subscribe(['news']);
unlink(store_path());
same(true, str_contains(thrown(fn () => $store->message(null)), $gone), 'a wait for a message');
same(true, str_contains(thrown(fn () => $store->execute(['SET', 'k', 'v'])), $gone), 'a key is watched');
same(true, str_contains(thrown(fn () => $store->subscribe(['more'])), $gone), 'subscribed there');
$store->execute(['UNWATCH']);
same('OK', $store->execute(['SET', 'k', 'v']), 'nothing is watched');
$store->subscribe(['news']);
same(1, $store->publish('news', 'text'), 'subscribed anew');
same(['message', 'news', 'text'], $store->message(5), 'a message of the new store');
same('v', open_store()->get('k'), 'in the new store');

// With on_removed=error every call fails, even if the removed store was full.
unlink(store_path());
$strict = new Store("$url?on_removed=error", ['maxmemory' => 1 << 20]);
try {
    for ($i = 0; $i < 1000; $i++) {
        $strict->set("k$i", str_repeat('v', 10_000));
    }
    echo "never full\n";
} catch (Undercroft\ServerException $full) {
    same('OOM', $full->kind(), 'full');
}
unlink(store_path());
for ($i = 0; $i < 2; $i++) {
    $told = thrown(fn () => $strict->set('k', str_repeat('v', 10_000)));
    same(true, str_contains($told, $gone) && !str_contains($told, 'OOM'), $told);
}
same(false, file_exists(store_path()), 'made by no call');
same(true, str_contains(thrown(fn () => new Store("$url?on_removed=retry")), 'on_removed'), 'no such choice');

// Store names follow the same rules as in the other clients.
$told = thrown(fn () => new Store('x'));
same(true, str_contains($told, 'undercroft://x') && str_contains($told, './x'), $told);
same(true, str_contains(thrown(fn () => new Store('undercroft://x/16')), 'below 16'), 'no such database');
$name = 'php-test-' . getmypid();
$first = new Store("undercroft://$name/1");
$first->set('k', 'in 1');
same('in 1', (new Store("undercroft://$name", ['db' => 1]))->get('k'), 'database 1');
same(null, (new Store("undercroft://$name"))->get('k'), 'database 0');
unlink('/dev/shm/undercroft-' . fileowner("/proc/" . getmypid()) . "/$name");
echo 'done';
?>
--EXPECT--
done
