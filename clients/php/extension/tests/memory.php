<?php

declare(strict_types=1);

// Makes every call succeed and fail once under valgrind, to detect leaks and uninitialized memory.

use Undercroft\Native\Connection;
use Undercroft\Native\Parser;
use Undercroft\Native\Store;

$path = '/dev/shm/undercroft-valgrind-' . getmypid();

function attempt(callable $call): void
{
    try {
        $call();
    } catch (Throwable) {
    }
}

for ($round = 0; $round < 3; $round++) {
    $store = new Store($path);
    $store->set('a', str_repeat('x', 100));
    $store->set('long', str_repeat('x', 5_000));
    $store->set('timed', 'x', 100_000);
    $text = 'referenced';
    $all = [$store->get('a'), $store->get('long'), $store->get('none'), $store->mget(['a', 'long', 1]),
        $store->incr('n'),
        $store->mset(['x' => 1, 2 => 'two', 'd' => 0.5]), $store->exists('a', 'x'), $store->ttl('timed'),
            $store->expire('x', 5_000),
        $store->execute(['HSET', 'h', 'f', 'v', 'g', &$text]), $store->execute(['HGETALL', 'h']),
        $store->execute(['RPUSH', 'l', ...range(1, 40)]), $store->execute(['LRANGE', 'l', 0, -1]),
        $store->execute(['ZADD', 'z', 1.5, 'm']), $store->execute(['ZRANGE', 'z', 0, -1, 'WITHSCORES']),
        $store->pipeline([['GET', 'a'], ['LPUSH', 'a', 'x'], ['INCR', &$text]]), $store->transaction([['INCR', 'n'],
            ['GET', 'a']])];
    foreach ([fn () => $store->get('l'), fn () => $store->execute(['NOSUCH']), fn () => $store->execute([]),
        fn () => $store->execute(['GET', new stdClass()]), fn () => $store->execute([&$text, []]),
            fn () => $store->mset(['a' => []]),
        fn () => $store->pipeline([['GET', []]]), fn () => $store->pipeline([[]]), fn () => $store->pipeline(['x']),
        fn () => $store->pipeline([[&$text], []]), fn () => $store->transaction([['NOSUCH']]),
            fn () => $store->transaction([]),
        fn () => $store->set('a', 'b', -1), fn () => $store->del([]), fn () => new Store('/dev/null/x'),
            fn () => new Store($path, ['x' => 1]),
        fn () => $store->execute(['GET',
            new class { public function __toString(): string { throw new Exception('no'); } }]),
        fn () => $store->execute(['GET', new class { public function __toString(): string { return 'a'
            . rand(); } }])] as $wrong) {
        attempt($wrong);
    }
    $store->subscribe(['c'], ['d*']);
    $store->publish('c', 'hello');
    $all[] = $store->message(0);
    $all[] = $store->message(0.001);
    $store->execute(['MULTI']);
    $store->execute(['SET', 'a', 'queued']);
    if ($round === 1) {
        $store->close();
    }
    unset($store);

    $parser = new Parser();
    $replies = "*3\r\n$3\r\nabc\r\n%1\r\n+k\r\n,1.5\r\n-ERR x\r\n>1\r\n:1\r\n|1\r\n+a\r\n+b\r\n#t\r\n=5\r\ntxt:a\r\n";
    foreach (str_split($replies, 7) as $piece) {
        $parser->feed($piece);
        while ($parser->next()) {
            $round === 0 || $all[] = $parser->reply();
        }
    }
    $parser->feed("*2\r\n%1\r\n*1\r\n:1\r\n+v\r\n+x\r\n");
    attempt(fn () => $parser->next());

    foreach (["+OK\r\n", "$5\r\nab", '', "*2\r\n+a\r\n:x\r\n", "-ERR x\r\n", ">1\r\n+p\r\n*1\r\n:1\r\n"] as $answer) {
        $listener = stream_socket_server("unix://$path.sock");
        $connection = new Connection("unix://$path.sock", 1.0, 5.0);
        $other = stream_socket_accept($listener);
        fwrite($other, $answer);
        stream_socket_shutdown($other, STREAM_SHUT_WR);
        attempt(fn () => $connection->execute(['GET', 1, 2.5, &$text]));
        attempt(fn () => $connection->pipeline([['GET', 'x'], ['GET', 'y']]));
        attempt(fn () => $connection->execute([[]]));
        attempt(fn () => $connection->receive(0.0));
        unset($connection, $other, $listener);
        unlink("$path.sock");
    }
    // Open more persistent connections than the process retains.
    $listener = stream_socket_server("unix://$path.sock");
    $others = [];
    for ($number = 0; $number < 70; $number++) {
        $connection = new Connection("unix://$path.sock", 1.0, 5.0, 'of ' . intdiv($number, 2));
        $connection->isReused() || $others[] = stream_socket_accept($listener);
        $number % 7 === 0 && $connection->send([['PING']]);
        unset($connection);
    }
    unset($others, $listener);
    attempt(fn () => new Connection("unix://$path.sock", 1.0, 5.0, 'of 3'));
    unlink("$path.sock");
    attempt(fn () => new Connection('tcp://127.0.0.1:1', 0.1, 0.1));
    attempt(fn () => new Connection('nothing'));
}
foreach (glob("$path{.*/*,.*,-*,}", GLOB_BRACE) as $left) {
    is_dir($left) ? rmdir($left) : unlink($left);
}
