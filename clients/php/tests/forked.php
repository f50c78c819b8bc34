<?php

declare(strict_types=1);

/**
 * Forks while a client is connected: `php forked.php WHAT URL OPTIONS`. Prints the results of the
 * parent and the child as JSON.
 */

require __DIR__ . '/../autoload.php';

use Undercroft\Client;
use Undercroft\ConnectionException;
use Undercroft\Pipeline;

[, $what, $url, $options] = $argv;
$options = json_decode($options, true);
$client = new Client($url, $options);

/**
 * Runs one function in the parent and another function in a child, in parallel. Returns both
 * results.
 */
function both(callable $parent, callable $child): array
{
    [$mine, $its] = stream_socket_pair(STREAM_PF_UNIX, STREAM_SOCK_STREAM, 0);
    $process = pcntl_fork();
    if ($process === 0) {
        fclose($mine);
        fwrite($its, json_encode($child()) . "\n");
        // Exit only after the parent has finished, because an exiting child closes the parent's TLS
        // connections.
        fread($its, 1);
        exit(0);
    }
    fclose($its);
    $told = ['parent' => $parent()];
    $told['child'] = json_decode((string) fgets($mine), true);
    fclose($mine);
    pcntl_waitpid($process, $status);
    $told['status'] = pcntl_wexitstatus($status);
    return $told;
}

/** Returns the message of the exception that a call throws, or '' if the call does not throw. */
function thrown(callable $call): string
{
    try {
        $call();
        return '';
    } catch (ConnectionException $error) {
        return $error->getMessage();
    }
}

/**
 * Reads this process' keys with single calls, pipelines and transactions. Returns the number of
 * wrong replies.
 */
function wrong(Client $client, string $own): int
{
    $wrong = 0;
    for ($turn = 0; $turn < 300; $turn++) {
        $key = "{fork}$own:" . $turn % 50;
        $wrong += (int) ($client->get($key) !== $key);
        $wrong += (int) ($client->pipeline()->get($key)->get("{fork}none")->execute() !== [$key, null]);
        $wrong += (int) ($client->transaction(static fn (Pipeline $queue) => $queue->get($key)) !== [$key]);
    }
    return $wrong;
}

switch ($what) {
    case 'reads':
        foreach (['parent', 'child'] as $own) {
            for ($number = 0; $number < 50; $number++) {
                $client->set("{fork}$own:$number", "{fork}$own:$number");
            }
        }
        $told = both(static fn () => wrong($client, 'parent'), static fn () => wrong($client, 'child'));
        // Writes are never resent, so this write fails if the child closed the connection when it
        // exited.
        $told['set'] = $client->set('after', 'the child');
        break;
    case 'unused':
        // The child exits without making a call. The parent must keep its connection, even a
        // persistent connection.
        $before = $client->client('id');
        $told = both(static fn () => null, static fn () => null);
        $told['same'] = $client->client('id') === $before;
        break;
    case 'again':
        // The child destroys its client. A new client in the child must not reuse the parent's
        // connection.
        $before = $client->client('id');
        $told = both(static fn () => null, static function () use (&$client, $url, $options): int {
            $client = null;
            gc_collect_cycles();
            return (new Client($url, $options))->client('id');
        });
        $told['same'] = [$told['child'] === $before, $client->client('id') === $before];
        break;
    case 'watch':
        $client->set('k', '1');
        $client->watch('k');
        $told = both(static fn () => null, static fn () => [
            thrown(static fn () => $client->transaction()->set('k', 'of the child')->execute()),
            $client->get('k'),
        ]);
        $told['ran'] = $client->transaction()->incr('k')->execute();
        break;
    case 'subscription':
        $loop = $client->pubSubLoop(['subscribe' => 'news']);
        $loop->next(5.0);
        $told = both(static fn () => $loop->next(5.0)?->payload, static function () use ($loop, $client): array {
            $seen = [thrown(static fn () => $loop->next(5.0)), thrown(static fn () => $loop->subscribe('news'))];
            $seen[] = $loop->next(5.0)?->kind;
            $client->publish('news', 'of the child');
            $seen[] = $loop->next(5.0)?->payload;
            return $seen;
        });
        break;
    case 'handler':
        // A signal arrives while the parent waits. The signal handler forks, and both processes
        // return from the handler.
        $other = new Client($url, $options);
        [$mine, $its] = stream_socket_pair(STREAM_PF_UNIX, STREAM_SOCK_STREAM, 0);
        $child = -1;
        pcntl_async_signals(true);
        pcntl_signal(SIGUSR1, static function () use (&$child): void {
            $child = pcntl_fork();
        });
        $parent = getmypid();
        $signaller = pcntl_fork();
        if ($signaller === 0) {
            // Wait until the server blocks the parent's call and the parent sleeps in the read. PHP
            // runs the handler after that read.
            while (($other->info('clients')['Clients']['blocked_clients'] ?? 1) < 1
                || !preg_match('~\) S ~', (string) file_get_contents("/proc/$parent/stat"))) {
                usleep(1000);
            }
            posix_kill($parent, SIGUSR1);
            exit(0);
        }
        try {
            $item = $client->blPop('list', 30);
        } catch (ConnectionException $error) {
            $item = $error->getMessage();
        }
        if ($child === 0) {
            // This push also ends the parent's blocking call.
            $other->rPush('list', 'item');
            fwrite($its, json_encode([$item, $client->get('none')]));
            exit(0);
        }
        fclose($its);
        $told = ['parent' => $item, 'child' => json_decode(stream_get_contents($mine), true)];
        pcntl_waitpid($signaller, $status);
        pcntl_waitpid($child, $status);
        break;
}
echo json_encode($told);
