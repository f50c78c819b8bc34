<?php

declare(strict_types=1);

// Usage: php storm.php PORT MASTER KILLS STORE
//
// Sends concurrent requests that read, write and fail to PHP-FPM workers through nginx, while some
// of the workers are killed. MASTER is the process id of FPM's master.

use Undercroft\Native\Store;

[, $port, $master, $kills, $url] = $argv;

/** Returns the status and body of a response, or null if no response arrived. */
function ask(string $what): ?array
{
    global $port;
    $stream = @stream_socket_client("tcp://127.0.0.1:$port", $code, $words, 10);
    if ($stream === false) {
        return null;
    }
    stream_set_timeout($stream, 20);
    fwrite($stream, 'GET /?do=' . rawurlencode($what) . " HTTP/1.0\r\n\r\n");
    $answer = stream_get_contents($stream);
    fclose($stream);
    [$head, $body] = explode("\r\n\r\n", $answer, 2) + ['', ''];
    return preg_match('~^HTTP/1\.\d (\d+)~', $head, $found) ? [(int) $found[1], $body] : null;
}

function fail(string $why): never
{
    fwrite(STDERR, "error: $why\n");
    exit(1);
}

/** Returns the process ids of the workers. */
function workers(): array
{
    global $master;
    $children = trim((string) @file_get_contents("/proc/$master/task/$master/children"));
    return $children === '' ? [] : array_map('intval', explode(' ', $children));
}

$seed = (int) (getenv('UNDERCROFT_SEED') ?: random_int(1, PHP_INT_MAX));
echo "seed $seed\n";
mt_srand($seed);
$store = new Store($url);
$store->set('greeting', 'hello');

// The durations of a request's first call, in workers without an open store and in workers with an
// open store.
$first = $later = [];
for ($i = 0; $i < 60; $i++) {
    [$status, $body] = ask('first') ?? fail('no answer');
    $told = json_decode($body, true);
    $status === 200 && $told['greeting'] === 'hello' || fail("expected a greeting, got $status $body");
    if (isset($first[$told['pid']])) {
        $later[] = $told['ns'];
    } else {
        $first[$told['pid']] = $told['ns'];
    }
}
sort($later);
$firsts = array_values($first);
sort($firsts);
foreach (['fresh worker' => $firsts, 'worker that has the store open' => $later] as $where => $times) {
    printf("first call in a %s: %.2f us, at least %.2f (%d times)\n", $where, $times[intdiv(count($times), 2)] / 1000,
        $times[0] / 1000, count($times));
}

touch("$url.storm");
$askers = [];
foreach (['read', 'read', 'read', 'write', 'any', 'any'] as $number => $kind) {
    $child = pcntl_fork();
    if ($child === 0) {
        mt_srand($seed + $number);
        $any = ['memory', 'fatal', 'exit', 'exception', 'for ever', 'wait', 'read', 'write'];
        $good = 0;
        while (file_exists("$url.storm")) {
            $what = $kind === 'any' ? $any[mt_rand(0, 7)] : $kind;
            $answer = ask($what);
            // A killed worker does not reply. In that case nginx returns 502 or 504, or ends the
            // response after the header.
            if ($answer === null || in_array($answer[0], [502, 504], true) || $answer === [200, '']) {
                continue;
            }
            $expected = ['read' => 'read', 'write' => 'written', 'exit' => 'written'][$what] ?? null;
            $isGood = $expected === null ? $answer[0] === 500 : $answer === [200, $expected];
            $isGood || fail("$what was answered with $answer[0] $answer[1]");
            $good++;
        }
        exit($good > 0 ? 0 : 2);
    }
    $askers[] = $child;
}
for ($killed = 0; $killed < $kills;) {
    usleep(mt_rand(1_000, 30_000));
    $workers = workers();
    if ($workers !== []) {
        exec('kill -9 ' . $workers[array_rand($workers)] . ' 2>/dev/null', $lines, $code);
        $killed += $code === 0 ? 1 : 0;
    }
    // A killed worker must not hold a lock, so this write must succeed.
    $store->set('beside', (string) $killed) && $store->get('beside') === (string) $killed || fail('beside');
}
// Wait long enough for request_terminate_timeout to end some workers as well.
for ($i = 0; $i < 15; $i++) {
    usleep(100_000);
    $store->set('beside', 'still');
}
unlink("$url.storm");
foreach ($askers as $asker) {
    pcntl_waitpid($asker, $status);
    pcntl_wexitstatus($status) === 0 || fail("an asker ended with $status");
}
[$left, $right] = $store->mget(['left', 'right']);
$left === $right || fail("$left and $right in one transaction");
foreach (range(0, 20) as $i) {
    ask('write') === [200, 'written'] || ask('write') === [200, 'written'] || fail('no worker writes any more');
}
echo "$killed workers killed, $left transactions\n";
