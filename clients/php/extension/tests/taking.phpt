--TEST--
Store: removed data is put back if a signal handler throws before the result has arrived
--EXTENSIONS--
undercroft
pcntl
--FILE--
<?php
require __DIR__ . '/start.inc';
$clients = array_filter([__DIR__ . '/../../autoload.php', __DIR__ . '/../../../../clients/php/autoload.php'], is_file(...));
require reset($clients);
// Load all classes first, because a handler that throws while PHP loads a class ends the program.
require dirname(reset($clients)) . '/preload.php';

final class Alarm extends Exception
{
}

$store = open_store();
$client = new Undercroft\Client('undercroft://' . store_path());
$isArmed = false;
$takes = true;
$thrown = 0;
pcntl_async_signals(true);
pcntl_signal(SIGALRM, function () use (&$isArmed, &$takes, &$thrown, $store) {
    if ($isArmed) {
        $isArmed = false;
        $thrown++;
        // If a handler itself removes items, these items are not put back.
        if ($takes) {
            same('1', $store->execute(['LPOP', 'other']) ?? '1', 'taken by the handler');
        }
        throw new Alarm();
    }
});

/** Removes items until handlers have thrown 200 times. Each item must be received once, in the original order. */
function take_all(string $what, callable $take): void
{
    global $store, $isArmed, $thrown;
    $store->del('queue', 'other');
    $pause = 'n=0; while [ $n -lt 60 ]; do n=$((n+1)); done';
    $send = 'while kill -ALRM ' . getmypid() . " 2>/dev/null; do $pause; done";
    $sender = proc_open(['sh', '-c', $send], [], $pipes);
    $pushed = $thrown = 0;
    $received = [];
    while (true) {
        if ($store->execute(['LLEN', 'queue']) === 0) {
            if ($thrown >= 200) {
                break;
            }
            $store->execute(['RPUSH', 'queue', ...range($pushed, $pushed + 999)]);
            $store->execute(['RPUSH', 'other', ...array_fill(0, 1000, 1)]);
            $pushed += 1000;
        }
        $taken = null;
        try {
            try {
                $isArmed = true;
                $taken = $take();
                $isArmed = false;
            } catch (Undercroft\StoreException $error) {
                $isArmed = false;
                same(true, str_contains($error->getMessage(), 'signal'), $error->getMessage());
            }
        } catch (Alarm) {
        }
        foreach ((array) $taken as $item) {
            if ($item !== null && $item !== 'queue') {
                $received[] = (int) $item;
            }
        }
    }
    proc_terminate($sender, SIGKILL);
    proc_close($sender);
    same($pushed, count($received), "$what: received");
    same(true, $received === range(0, $pushed - 1), "$what: each once, in their order");
}

$words = ['LPOP', 'queue'];
take_all('execute', function () use ($store, $words) {
    $taken = $store->execute($words);
    return $taken;
});
take_all('pipeline', function () use ($store, $words) {
    $taken = $store->pipeline([$words, $words]);
    return $taken;
});
take_all('transaction', function () use ($store, $words) {
    $taken = $store->transaction([$words, $words]);
    return $taken;
});
// Within MULTI, a command that a handler uses to remove items would be queued.
$takes = false;
take_all('MULTI by its words', function () use ($store, $words) {
    try {
        $store->execute(['MULTI']);
        $store->execute($words);
        // Return from here, because a handler may run at the end of the block.
        return $store->execute(['EXEC']);
    } catch (Alarm $alarm) {
        // If EXEC has run, there is no transaction left to discard, and DISCARD throws.
        thrown(fn () => $store->execute(['DISCARD']));
        throw $alarm;
    }
});
$takes = true;
take_all('lPop', function () use ($client) {
    $taken = $client->lPop('queue');
    return $taken;
});
take_all('lPop of several', function () use ($client) {
    $taken = $client->lPop('queue', 3);
    return $taken;
});
take_all('blPop', function () use ($client) {
    $taken = $client->blPop('queue', 1);
    return $taken;
});
take_all('a pipeline of the client', function () use ($client) {
    $taken = $client->pipeline(fn ($pipe) => $pipe->lPop('queue')->lPop('queue'));
    return $taken;
});
echo 'done';
?>
--EXPECT--
done
