--TEST--
Connection: a persistent connection is reused only if no reply is pending, by one object at a time
--EXTENSIONS--
undercroft
--FILE--
<?php
require __DIR__ . '/start.inc';
use Undercroft\Native\Connection;

$path = store_path() . '.sock';
$listener = stream_socket_server("unix://$path");
$servers = [];

/** Opens or reuses the connection with the given name. The server accepts a new connection. */
function take(?string $name = 'mine', int $spin = 0): Connection
{
    global $path, $listener, $servers;
    $connection = new Connection("unix://$path", 5.0, 5.0, $name, $spin);
    if (!$connection->isReused()) {
        $servers[] = stream_socket_accept($listener, 5);
    }
    return $connection;
}

/** Runs a command whose reply the server has already sent. */
function answered(Connection $connection, string $answer): mixed
{
    global $servers;
    fwrite(end($servers), $answer);
    return $connection->execute(['PING']);
}

/** Uses and releases a connection, and returns whether the next object reuses it. */
function is_kept(callable $end): bool
{
    $connection = take();
    $end($connection);
    unset($connection);
    $next = take();
    $kept = $next->isReused();
    $next->close();
    return $kept;
}

same(true, is_kept(fn ($c) => same('OK', answered($c, "+OK\r\n"), 'an answer')), 'between two replies');
same(true, is_kept(fn ($c) => thrown(fn () => answered($c, "-ERR x\r\n"))), 'after an error');
same(false, is_kept(fn ($c) => $c->close()), 'closed');
same(false, is_kept(fn ($c) => $c->send([['GET', 'secret']])), 'a reply is on its way');
same(false, is_kept(fn ($c) => answered($c, "+OK\r\n+unasked\r\n")), 'more came than was asked for');
same(false, is_kept(fn ($c) => answered($c, "+OK\r\n+un")), 'half a reply came');
same(false, is_kept(function ($c) {
    same('OK', answered($c, "+OK\r\n"), 'an answer');
    fwrite(end($GLOBALS['servers']), "+late\r\n");
}), 'a reply comes when nobody reads');
same(false, is_kept(function ($c) {
    same('OK', answered($c, "+OK\r\n"), 'an answer');
    stream_socket_shutdown(end($GLOBALS['servers']), STREAM_SHUT_RDWR);
}), 'the server closed it');
same(false, is_kept(fn ($c) => fails('Undercroft\TimeoutException', fn () => $c->execute(['X'], 0.01), 'late')),
    'an answer that is late may still come');

// Two objects that exist at the same time use two connections, and both are kept.
[$one, $two] = [take(), take()];
same([false, false], [$one->isReused(), $two->isReused()], 'two at once');
unset($one, $two);
[$one, $two, $three, $other] = [take(), take(), take(), take('yours')];
same([true, true, false, false], array_map(fn ($each) => $each->isReused(), [$one, $two, $three, $other]), 'again');
unset($one, $two, $three, $other);
same(false, take(null)->isReused(), 'without a name it is never one of them');

// A child neither reuses nor closes the connection that its parent left.
$kept = take();
unset($kept);
same(0, in_child(fn () => take()->isReused() ? 1 : 0), 'a child');
same(true, take()->isReused(), 'its parent');
fails('ValueError', fn () => new Connection("unix://$path", 1.0, 1.0, null, 1001), 'no spin of so long');
same('OK', answered(take(null, 100), "+OK\r\n"), 'one that spins');
unlink($path);
echo 'done';
?>
--EXPECT--
done
