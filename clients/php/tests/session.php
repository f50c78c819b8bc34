<?php

declare(strict_types=1);

/**
 * Runs a request with a session: `php session.php URL ID WHAT`.
 *
 * If WHAT is a number, the request increments a counter that many times, with a new session_start()
 * each time. Otherwise it stores `mark` and prints its progress, and WHAT selects how the request
 * ends. UNDERCROFT_LEASE is the number of seconds for which the lock outlives the request on a
 * server that cannot report whether connections are open.
 */

require __DIR__ . '/../autoload.php';

use Undercroft\Client;
use Undercroft\Session\Handler;

[, $url, $id, $what] = $argv;

/** A client that prints `seen` when exists() finds a session. */
final class Telling extends Client
{
    public function exists(string|array ...$keys): mixed
    {
        $found = parent::exists(...$keys);
        echo $found === 1 ? "seen\n" : '';
        return $found;
    }
}

$options = ['native' => getenv('UNDERCROFT_ENGINE') === 'native'];
$client = str_starts_with($what, 'wait') ? new Telling($url, $options) : new Client($url, $options);
ini_set('session.use_cookies', '0');
ini_set('session.cache_limiter', '');
ini_set('session.use_strict_mode', $what === 'wait strictly' ? '1' : '0');
session_set_save_handler(new Handler($client, hold: 900, lease: (float) (getenv('UNDERCROFT_LEASE') ?: 2.8)), true);
if (is_numeric($what)) {
    for ($turn = 0; $turn < (int) $what; $turn++) {
        session_id($id);
        session_start();
        $_SESSION['count'] = ($_SESSION['count'] ?? 0) + 1;
        session_write_close();
    }
    exit;
}
session_id($id);
session_start();
$_SESSION['mark'] = $what;
switch ($what) {
    case 'wait':
    case 'wait strictly':
        session_write_close();
        echo session_id(), "\n";
        break;
    case 'hold':
        echo "held\n";
        fgets(STDIN);
        break;
    case 'memory':
        $client->set('large', str_repeat('x', 30_000_000));
        ini_set('memory_limit', '20M');
        $client->get('large');
        break;
    case 'time':
        set_time_limit(1);
        while (true) {
            $client->lRange('long', 0, -1);
        }
        // no break
    case 'exception':
        throw new Exception('an exception that the program does not catch');
    case 'exit':
        pcntl_async_signals(true);
        pcntl_signal(SIGALRM, static fn () => exit(0));
        pcntl_alarm(1);
        $client->blPop('never', 30);
        break;
    case 'fork':
        // The child's exit must neither store the session nor release the lock.
        if (pcntl_fork() === 0) {
            $_SESSION['mark'] = 'of the child';
            exit(0);
        }
        pcntl_wait($status);
        echo $client->exists("session:$id:lock"), "\n";
        break;
}
