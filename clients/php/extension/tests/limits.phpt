--TEST--
Store: fatal errors, limits and exits during and between calls leave no held locks and no partial changes
--EXTENSIONS--
undercroft
--FILE--
<?php
require __DIR__ . '/start.inc';
$store = open_store();
$store->set('big', str_repeat('x', 20_000_000));
$store->mset(array_fill_keys(array_map(fn ($i) => "key$i", range(1, 200)), str_repeat('y', 100_000)));
for ($i = 0; $i < 20; $i++) {
    $store->execute(['RPUSH', 'list', ...array_fill(0, 10_000, "item $i with some text behind it")]);
}
$begin = '$store = new Undercroft\Native\Store($path); register_shutdown_function(function () use ($store, $path) {'
    . ' $store->set("last", "words"); $other = new Undercroft\Native\Store($path);'
    . ' echo " then ", $store->get("last"), " ", $other->execute(["STRLEN", "big"]); });';
$scripts = [
    'memory ends in GET' => ['$x = $store->get("big");', 'Allowed memory size'],
    'memory ends in MGET' => ['$x = $store->mget(array_map(fn ($i) => "key$i", range(1, 200)));',
        'Allowed memory size'],
    'memory ends in a list' => ['$x = $store->execute(["LRANGE", "list", 0, -1]);', 'Allowed memory size'],
    'memory ends in a pipeline' => ['$x = $store->pipeline([["GET", "key1"], ["GET", "big"]]);', 'Allowed memory size'],
    'memory ends in words' => ['$x = $store->execute(["DEL", ...array_fill(0, 150000, "x")]);', 'Allowed memory size'],
    'memory ends in bytes' => ['$parser = new Undercroft\Native\Parser();'
        . ' for (;;) $parser->feed(str_repeat("x", 50_000));',
        'Allowed memory size'],
    'memory ends in a reply' => ['$parser = new Undercroft\Native\Parser();'
        . ' $parser->feed("*100000\r\n" . str_repeat("$20\r\n" . str_repeat("x", 20) . "\r\n", 100_000));'
        . ' $parser->next();',
        'Allowed memory size'],
    'time ends between calls' => ['set_time_limit(1); while (true) { $store->get("key1"); $store->set("key1", "z"); }',
        'Maximum execution time'],
    'exit' => ['$store->execute(["MULTI"]); exit("exit");', 'exit'],
    'an exception' => ['$store->execute(["WATCH", "key1"]); throw new Exception("nobody catches");',
        'nobody catches'],
    'a fatal error' => ['$store->subscribe(["c"]); no_such_function();', 'undefined function'],
    'a wrong word' => ['$store->execute(["SET", "key1", new stdClass()]);', 'expected a string or a number'],
];
foreach ($scripts as $name => [$script, $expected]) {
    [$printed, $status] = in_php("$begin $script", ['memory_limit' => '8M', 'display_errors' => '1']);
    same(1, preg_match("~$expected.* then words 20000000~s", $printed), "$name: $printed");
    same(true, $status === 255 || $name === 'exit', "$name ended with $status");
    same(true, $store->set('key1', 'after'), 'no lock was left behind');
}
same('20000000', (string) strlen($store->get('big')), 'not changed');
echo 'done';
?>
--EXPECT--
done
