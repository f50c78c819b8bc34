<?php

declare(strict_types=1);

/**
 * A process that forks while its client has a connection: `php forked.php WHAT URL OPTIONS`. It prints as JSON what the
 * parent and the child have seen.
 */

require __DIR__ . '/../autoload.php';

use Undercroft\Client;
use Undercroft\ConnectionException;
use Undercroft\Pipeline;

[, $what, $url, $options] = $argv;
$options = json_decode($options, true);
$client = new Client($url, $options);

/** Runs one function in a child, and another one meanwhile in this process. Returns what both return. */
function both(callable $parent, callable $child): array
{
    [$mine, $its] = stream_socket_pair(STREAM_PF_UNIX, STREAM_SOCK_STREAM, 0);
    $process = pcntl_fork();
    if ($process === 0) {
        fclose($mine);
        fwrite($its, json_encode($child()) . "\n");
        // It ends when the parent is done, as the end of a child ends connections of TLS.
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

/** The message of the exception of a call; '' where it throws none. */
function thrown(callable $call): string
{
    try {
        $call();
        return '';
    } catch (ConnectionException $error) {
        return $error->getMessage();
    }
}

/** Reads keys of this process alone, in every way; how many values were not its own. */
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
        // A write is never sent twice, so the end of the child must not have closed the connection.
        $told['set'] = $client->set('after', 'the child');
        break;
    case 'unused':
        // The child ends without a call; its connection is still the parent's, also where it is persistent.
        $before = $client->client('id');
        $told = both(static fn () => null, static fn () => null);
        $told['same'] = $client->client('id') === $before;
        break;
    case 'again':
        // A child that is done with the client, whose next client must not take the parent's connection.
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
        // A signal comes while the parent waits; its handler forks, and both processes return from it.
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
            // Waiting at the server, and asleep in the call that reads: PHP runs the handler behind that.
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
            // Now the parent's call ends as well.
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
