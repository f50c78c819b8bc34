<?php

declare(strict_types=1);

/**
 * Forks at random moments during calls: `php forkload.php URL OPTIONS FORKS SEED`.
 *
 * A signal handler forks. The child makes calls of every kind, with the parent's client and with a
 * new client, while the parent continues. The program prints `done`, or the process and the call
 * that failed.
 */

require __DIR__ . '/../autoload.php';

use Undercroft\ArgumentException;
use Undercroft\Client;
use Undercroft\ConnectionException;
use Undercroft\Objects;
use Undercroft\Pipeline;
use Undercroft\Script;
use Undercroft\ServerException;
use Undercroft\Session\Handler;
use Undercroft\StoreException;

[, $url, $options, $forks, $seed] = $argv;
$options = json_decode($options, true);
mt_srand((int) $seed);

/**
 * Returns calls of every kind, on keys that begin with a given name. Each call returns whether its
 * results are correct.
 *
 * @return array<string, Closure(Client, string): bool>
 */
function calls(string $url, array $options): array
{
    return [
        'strings' => static fn (Client $c, string $own): bool => $c->set("$own:s", $own) && $c->get("$own:s") === $own
            && $c->append("$own:s", '+') === strlen($own) + 1 && $c->mGet("$own:s", 'none') === ["$own+", null],
        'large' => static fn (Client $c, string $own): bool => $c->set("$own:large", str_repeat($own, 20_000))
            && $c->get("$own:large") === str_repeat($own, 20_000),
        'numbers' => static fn (Client $c, string $own): bool => is_int($c->incr("$own:n"))
            && is_float($c->incrByFloat("$own:f", 0.5)) && $c->expire("$own:n", 100) && $c->ttl("$own:n") <= 100,
        'hashes' => static fn (Client $c, string $own): bool => is_int($c->hSet("$own:h", ['a' => $own, 'b' => 1]))
            && $c->hGetAll("$own:h") === ['a' => $own, 'b' => '1']
            && iterator_to_array($c->hScanIterator("$own:h")) === ['a' => $own, 'b' => '1'],
        'lists' => static fn (Client $c, string $own): bool => $c->del("$own:l") >= 0
            && $c->rPush("$own:l", 'a', $own) === 2 && $c->lRange("$own:l", 0, -1) === ['a', $own],
        'sets' => static fn (Client $c, string $own): bool => $c->sAdd("$own:set", $own) >= 0
            && iterator_to_array($c->sScanIterator("$own:set"), false) === [$own],
        'sorted sets' => static fn (Client $c, string $own): bool => $c->zAdd("$own:z", [$own => 1.5]) >= 0
            && $c->zRange("$own:z", 0, -1, ['withscores' => true]) === [$own => 1.5],
        'places' => static fn (Client $c, string $own): bool => $c->geoAdd("$own:g", 13.4, 52.5, $own) >= 0
            && $c->geoDist("$own:g", $own, $own) === 0.0,
        'counts' => static fn (Client $c, string $own): bool => $c->pfAdd("$own:p", [$own]) >= 0
            && $c->pfCount("$own:p") === 1 && $c->setBit("$own:bits", 7, 1) >= 0 && $c->bitCount("$own:bits") === 1,
        'streams' => static fn (Client $c, string $own): bool => is_string($id = $c->xAdd("$own:x", '*', ['f' => $own]))
            && $c->xRange("$own:x", $id, $id) === [$id => ['f' => $own]]
            && $c->xRead(["$own:x" => '0'], 1, block: 1) !== null,
        // Only the parent makes these blocking calls, which forks interrupt. Children wait in
        // `pops` and `messages` instead, because some servers check timeouts only every 100 ms.
        'waits' => static fn (Client $c, string $own): bool => $own !== 'parent'
            || $c->blPop("$own:none", 0.002) === null && $c->xRead(["$own:x" => '$'], block: 2) === null,
        'pops' => static fn (Client $c, string $own): bool => $c->rPush("$own:q", $own) > 0
            && $c->blPop("$own:q", 5) === ["$own:q", $own],
        'keys' => static fn (Client $c, string $own): bool => $c->set("$own:k", '1') && $c->exists("$own:k") === 1
            && in_array("$own:k", iterator_to_array($c->scanIterator("$own:*"), false), true)
            && $c->rename("$own:k", "$own:k2") && $c->type("$own:k2") === 'string',
        'scripts' => static function (Client $c, string $own): bool {
            try {
                $c->register('echoes', new Script('return ARGV[1]', keys: 0));
            } catch (ArgumentException) {
            }
            return $c->eval('return {KEYS[1], ARGV[1]}', 1, "$own:k", $own) === ["$own:k", $own]
                && $c->echoes($own) === $own;
        },
        'pipelines' => static fn (Client $c, string $own): bool => $c->pipeline(
            static fn (Pipeline $pipe) => $pipe->set("$own:p1", $own)->get("$own:p1")->get('none'),
        ) === [true, $own, null],
        'transactions' => static fn (Client $c, string $own): bool => $c->transaction(
            static fn (Pipeline $queue, Client $client) =>
                $queue->set("$own:t", (string) $client->get("$own:t"))->get('none'),
            watch: "$own:t") === [true, null],
        'watches' => static function (Client $c, string $own): bool {
            try {
                return $c->watch("$own:w") && $c->unwatch() && $c->multi()->get('none')->exec() === [null];
            } catch (ArgumentException $error) {
                // The client refuses the call if the fork interrupted a transaction() callback.
                return str_contains($error->getMessage(), 'another transaction()');
            }
        },
        'messages' => static function (Client $c, string $own): bool {
            $loop = $c->pubSubLoop(['subscribe' => "$own:channel"]);
            $isThere = $loop->next(5.0)?->kind === 'subscribe' && $c->publish("$own:channel", $own) > 0;
            $text = $loop->next(5.0)?->payload;
            $loop->stop();
            return $isThere && $text === $own;
        },
        'objects' => static fn (Client $c, string $own): bool =>
            ($objects = new Objects($c))->take($objects->putBytes($own))?->bytes === $own,
        'sessions' => static function (Client $c, string $own): bool {
            $handler = new Handler($c, "$own:session:");
            $handler->read('id');
            return $handler->write('id', $own) && $handler->close() && $c->get("$own:session:id") === $own;
        },
        'serializers' => static fn (Client $c, string $own): bool =>
            ($json = new Client($c->connection(), ['serializer' => 'json']))->set("$own:j", [$own])
            && $json->get("$own:j") === [$own],
        'new clients' => static fn (Client $c, string $own): bool => (new Client($url, $options))->set("$own:new", '1'),
        'feeds' => static function (Client $c, string $own): bool {
            try {
                $feed = $c->feed("$own:feed");
                return $c->del("$own:feed") >= 0 && $feed->create(strlen($own)) && $feed->add(0, $own) === 1
                    && $feed->range(0, 1) === [$own];
            } catch (ServerException $error) {
                // Redis servers do not have feeds.
                return str_contains($error->getMessage(), 'unknown command');
            }
        },
        'closes' => static function (Client $c, string $own): bool {
            $c->close();
            return $c->get("$own:none") === null;
        },
        'words' => static fn (Client $c, string $own): bool => $c->rawCommand('ECHO', $own) === $own
            && $c->time()[0] > 0 && is_array($c->info('server')),
    ];
}

/** Makes every call. Returns a description of the first failure, or '' if no call failed. */
function trouble(array $calls, Client $client, string $own): string
{
    foreach ($calls as $name => $call) {
        try {
            if ($call($client, $own) !== true) {
                return "$own, $name: a wrong result";
            }
        } catch (StoreException $error) {
            // A store reports a wait that a signal handler interrupted, because repeating the call
            // would restart its timeout.
            if ($own !== 'parent' || !str_contains($error->getMessage(), 'interrupted')) {
                return "$own, $name: {$error->getMessage()}";
            }
        } catch (Throwable $error) {
            return "$own, $name: " . get_debug_type($error) . " {$error->getMessage()} at {$error->getFile()}:"
                . $error->getLine();
        }
    }
    return '';
}

/** Sends the parent a signal, at a random moment, for each byte that it receives. */
function signaller(int $parent, mixed $asked): void
{
    // This process never uses the clients and handlers that it inherited from the parent.
    while (fread($asked, 1) === 'x') {
        usleep(mt_rand(0, 4000));
        posix_kill($parent, SIGUSR1);
    }
    posix_kill(getmypid(), SIGKILL);
}

[$ask, $asked] = stream_socket_pair(STREAM_PF_UNIX, STREAM_SOCK_STREAM, 0);
$parent = getmypid();
if (pcntl_fork() === 0) {
    fclose($ask);
    signaller($parent, $asked);
}
fclose($asked);
$client = new Client($url, $options);
$calls = calls($url, $options);
$left = (int) $forks;
$failed = '';
$made = [];
$running = '';
// Make every call once, so that all classes are loaded. A handler that interrupts PHP while it
// loads a class cannot use that class.
$failed = trouble($calls, $client, 'parent');
$inChild = static function (string $running) use ($client, $calls, $url, $options, $ask): never {
    $failed = '';
    pcntl_signal(SIGUSR1, SIG_IGN);
    $own = 'child' . getmypid();
    try {
        // If the parent has watches or subscriptions, the child's first call must throw.
        $client->get('none');
    } catch (Throwable $error) {
        $failed = $error instanceof ConnectionException && str_contains($error->getMessage(), 'parent process')
            ? '' : get_debug_type($error) . " {$error->getMessage()}";
    }
    $failed = $failed ?: trouble($calls, $client, $own) ?: trouble($calls, new Client($url, $options), "$own-new");
    $failed === '' || print("during $running: $failed\n");
    // Request the next signal.
    fwrite($ask, 'x');
    exit($failed === '' ? 0 : 1);
};
pcntl_async_signals(true);
pcntl_signal(SIGUSR1, static function () use (&$left, &$made, &$running, $inChild): void {
    $left--;
    $child = pcntl_fork();
    $child === 0 ? $inChild($running) : $made[] = $child;
});
fwrite($ask, 'x');
$names = array_keys($calls);
while ($left > 0 && $failed === '') {
    $running = $names[array_rand($names)];
    $failed = trouble([$running => $calls[$running]], $client, 'parent');
}
pcntl_signal(SIGUSR1, SIG_IGN);
foreach ($made as $child) {
    pcntl_waitpid($child, $status);
    $failed = $failed ?: ($status === 0 ? '' : "a child ended with $status");
}
// The signalling process ends when its input ends.
fclose($ask);
pcntl_wait($status);
echo $failed === '' ? "done\n" : "$failed\n";
