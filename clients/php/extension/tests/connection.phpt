--TEST--
Connection: servers whose replies are split, invalid, late, incomplete or missing
--EXTENSIONS--
undercroft
--FILE--
<?php
require __DIR__ . '/start.inc';
use Undercroft\Native\Connection;

/** Runs a client against a server, which is a function that receives the server's end of the connection. */
function against(callable $server, callable $client, float $timeout = 10.0): void
{
    $path = store_path() . '.sock';
    @unlink($path);
    $listener = stream_socket_server("unix://$path");
    $child = pcntl_fork();
    if ($child === 0) {
        $stream = stream_socket_accept($listener, 10);
        stream_set_write_buffer($stream, 0);
        $server($stream);
        exit(0);
    }
    $connection = new Connection("unix://$path", 5.0, $timeout);
    $client($connection);
    unset($connection);
    fclose($listener);
    kill($child);
    unlink($path);
}

/** Returns a server that waits for a command and then sends the given pieces. */
function sends(string ...$pieces): callable
{
    return function ($stream) use ($pieces): void {
        fread($stream, 8192);
        foreach ($pieces as $piece) {
            fwrite($stream, $piece);
            usleep(1000);
        }
        // Keep the connection open until the client closes it.
        while (!feof($stream)) {
            fread($stream, 8192);
        }
    };
}

$lost = 'Undercroft\ConnectionException: lost the connection to unix://' . store_path() . '.sock: the server closed it';
against(sends("+PO", "NG", "\r", "\n"), fn ($c) => same('PONG', $c->execute(['PING']), 'in pieces'));
against(sends("-ERR no\r\n"), function ($c) {
    fails('Undercroft\ServerException: ERR no', fn () => $c->execute(['PING']), 'an error');
    same(true, $c->isOpen(), 'after an error');
});
against(sends(">2\r\n+push\r\n:1\r\n+O", "K\r\n"), fn ($c) => same('OK', $c->execute(['PING']), 'pushes are skipped'));
against(sends(":1\r\n>1\r\n:5\r\n-ERR x\r\n", "*1\r\n-ERR y\r\n"), function ($c) {
    [$one, $two, $three] = $c->pipeline([['A'], ['B', 1], ['C', 1.5]]);
    same([1, 'ERR x', 'ERR y'], [$one, $two->getMessage(), $three[0]->getMessage()], 'a pipeline');
});
against(sends(">1\r\n+m\r\n", "+x\r\n-ERR e\r\n"), function ($c) {
    $c->send([['A'], ['B']]);
    same(['m'], $c->receive(), 'a push');
    same(true, $c->isPush(), 'is told');
    same('x', $c->receive(), 'a reply');
    same(false, $c->isPush(), 'is none');
    same('ERR e', $c->receive()->getMessage(), 'an error is returned');
    fails('Undercroft\TimeoutException: ', fn () => $c->receive(0.01), 'none came');
    same(true, $c->isOpen(), 'and it goes on');
    fails('Undercroft\TimeoutException: ', fn () => $c->execute(['X'], 0.01), 'no answer');
    same(false, $c->isOpen(), 'which may come late');
    fails('Undercroft\ConnectionException: ', fn () => $c->execute(['X']), 'closed');
});
foreach (['', "$10\r\nabc", '+OK', "*3\r\n:1\r\n", "$1000000000000\r\nx"] as $half) {
    $server = function ($stream) use ($half): void {
        fread($stream, 8192);
        fwrite($stream, $half);
    };
    against($server, function ($c) use ($half, $lost) {
        same($lost, thrown(fn () => $c->execute(['PING'])), "half a reply: $half");
        same(false, $c->isOpen(), 'closed');
    });
    against(sends($half), function ($c) use ($half) {
        fails('Undercroft\TimeoutException: ', fn () => $c->execute(['PING']), "late: $half");
        same(false, $c->isOpen(), 'closed');
    }, 0.05);
}
foreach (["HTTP/1.1 400 Bad Request\r\n\r\n", "$5\r\nabcdefg\r\n", "*1\r\n:x\r\n", "\0\0\0\r\n"] as $wrong) {
    against(sends($wrong), function ($c) use ($wrong) {
        fails('Undercroft\ProtocolException: unix://', fn () => $c->execute(['PING']), "wrong: $wrong");
        same(false, $c->isOpen(), 'closed');
    });
}
// Send much more data than a socket buffers, in both directions.
$echo = function ($stream): void {
    $reply = "$1000\r\n" . str_repeat('r', 1000) . "\r\n";
    // The length of each command: *2, $1, E, $1000, and the long word.
    $length = 4 + 4 + 3 + 7 + 1_002;
    for ($got = $sent = 0; $sent < 5_000; ) {
        $bytes = fread($stream, 65536);
        $got += strlen($bytes);
        // Reply to each command immediately, so that both ends block until the other end reads.
        for (; $sent < intdiv($got, $length); $sent++) {
            fwrite($stream, $reply);
        }
    }
    fread($stream, 1);
};
against($echo, function ($c) {
    $replies = $c->pipeline(array_fill(0, 5_000, ['E', str_repeat('w', 1000)]));
    same(5_000, count($replies), 'both ways');
    same([str_repeat('r', 1000)], array_values(array_unique($replies)), 'each reply');
});
// Signals arrive while the client waits, which then continues or throws.
pcntl_async_signals(true);
$seen = 0;
pcntl_signal(SIGALRM, function () use (&$seen) { $seen++; });
$slow = function ($stream): void {
    fread($stream, 8192);
    usleep(1_300_000);
    fwrite($stream, "+late\r\n");
    fread($stream, 8192);
};
against($slow, function ($c) use (&$seen) {
    pcntl_alarm(1);
    same('late', $c->execute(['PING']), 'a signal');
    same(1, $seen, 'its handler has run');
});
against($slow, function ($c) {
    pcntl_signal(SIGALRM, fn () => $c->execute(['NESTED']));
    pcntl_alarm(1);
    same(true, str_contains(thrown(fn () => $c->execute(['PING'])), 'in use by the call that the signal interrupted'),
        'nested');
    same(false, $c->isOpen(), 'closed');
});
pcntl_signal(SIGALRM, SIG_IGN);

foreach (['unix:///no/such/socket', 'tcp://127.0.0.1:1', 'tcp://', 'tcp://x', 'tcp://127.0.0.1:', 'udp://x:1', '',
    'unix://' . str_repeat('x', 200), 'tcp://no-such-host.invalid:1', 'tcp://[::1]:1'] as $address) {
    $why = thrown(fn () => new Connection($address, 2.0, 1.0));
    same(true, str_starts_with($why, "Undercroft\\ConnectionException: cannot connect to $address: "), $why);
    same(1, substr_count($why, 'cannot connect'), $why);
}
$c = (new ReflectionClass(Connection::class));
same(true, $c->isFinal(), 'final');
against(sends("+OK\r\n"), function ($c) {
    fails('ValueError: expected a command, got an empty list', fn () => $c->execute([]), 'no words');
    fails('TypeError: ', fn () => $c->execute([true]), 'a wrong word');
    same([], $c->pipeline([]), 'no commands');
    same('OK', $c->execute(['PING']), 'it goes on');
    $c->close();
    $c->close();
    same(false, $c->isOpen(), 'closed');
});
echo 'done';
?>
--EXPECT--
done
