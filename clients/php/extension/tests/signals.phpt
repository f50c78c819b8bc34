--TEST--
Store: a signal that arrives while a call throws an exception still reaches its handler
--EXTENSIONS--
undercroft
pcntl
posix
--FILE--
<?php
require __DIR__ . '/start.inc';

const SIGNALS = 100;

$store = open_store();
$store->set('text', 'not a number');
[$here, $there] = stream_socket_pair(STREAM_PF_UNIX, STREAM_SOCK_STREAM, 0);
$parent = getmypid();
// The child sends a signal for each byte that it receives, and confirms it with a byte. The delay
// makes the signal arrive during one of the calls below.
if (pcntl_fork() === 0) {
    fclose($here);
    while (fread($there, 1) === 'x') {
        usleep(mt_rand(0, 100));
        posix_kill($parent, SIGUSR1);
        fwrite($there, 'k');
    }
    posix_kill(getmypid(), SIGKILL);
}
fclose($there);
stream_set_blocking($here, false);
$seen = 0;
pcntl_async_signals(true);
pcntl_signal(SIGUSR1, function () use (&$seen) {
    $seen++;
});
for ($sent = 1; $sent <= SIGNALS; $sent++) {
    fwrite($here, 'x');
    do {
        for ($call = 0; $call < 50; $call++) {
            try {
                $store->incr('text');
                echo "expected an error\n";
            } catch (Undercroft\ServerException) {
            }
        }
    } while (fread($here, 1) !== 'k');
}
same(SIGNALS, $seen, 'handled signals');

// If the call and a handler both throw, the handler's exception has the call's as its previous exception.
pcntl_signal(SIGUSR1, function () {
    throw new RuntimeException('from the handler');
});
$chained = 0;
for ($sent = 1; $sent <= SIGNALS; $sent++) {
    try {
        fwrite($here, 'x');
        while (true) {
            try {
                $store->incr('text');
            } catch (Undercroft\ServerException) {
            }
        }
    } catch (RuntimeException $caught) {
        $chained += $caught->getPrevious() instanceof Undercroft\ServerException ? 1 : 0;
    }
    stream_set_blocking($here, true);
    same('k', fread($here, 1), 'confirmation');
    stream_set_blocking($here, false);
}
same(true, $chained > 0, 'a handler that throws while a call throws');
fclose($here);
pcntl_wait($status);
echo "done\n";
?>
--EXPECT--
done
