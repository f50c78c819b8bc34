<?php

declare(strict_types=1);

/**
 * The script that PersistentTest's PHP server runs for each request. The query selects what the
 * request does, and thus the state in which it leaves its connection. The script prints the
 * connection's id, or for `look` everything that the server reports about the connection.
 */

require __DIR__ . '/../autoload.php';

use Undercroft\Client;
use Undercroft\Connection\StreamConnection;

$url = $_GET['url'];
$options = ['persistent' => $_GET['name'] ?? true, 'native' => isset($_GET['native']), 'timeout' => 60.0];
if (isset($_GET['cafile'])) {
    $options['ssl'] = ['cafile' => $_GET['cafile']];
}
$client = new Client($url, $options);
$connection = $client->connection();

/** Sends a command without reading its reply. */
function leave_unread(array $words): void
{
    global $connection;
    $connection instanceof StreamConnection ? $connection->begin([$words]) : $connection->send($words);
}

$id = $client->client('id');
switch ($_GET['do']) {
    case 'nothing':
        break;
    case 'look':
        $info = $client->client('info');
        $state = array_intersect_key($info, array_flip(['db', 'sub', 'psub', 'multi', 'user', 'name', 'resp']));
        echo json_encode(['id' => $id, 'state' => $state, 'value' => $client->get('k'),
            'ran' => $client->transaction(static fn ($queue) => $queue->get('k'))]);
        exit;
    case 'select':
        $connection->execute(['SELECT', 7]);
        break;
    case 'user':
        $connection->execute(['AUTH', 'ada', 'password']);
        break;
    case 'name':
        $connection->execute(['CLIENT', 'SETNAME', 'somebody']);
        break;
    case 'protocol':
        $connection->execute(['HELLO', 3]);
        break;
    case 'watch':
        $client->watch('k');
        break;
    case 'raw watch':
        $connection->execute(['WATCH', 'k']);
        break;
    case 'transaction':
        $connection->execute(['MULTI']);
        $connection->execute(['SET', 'k', 'of a transaction that nobody ended']);
        break;
    case 'subscription':
        $connection->send(['SUBSCRIBE', 'news']);
        $connection->receive(5.0);
        break;
    case 'raw subscription':
        $connection->execute(['SUBSCRIBE', 'news']);
        break;
    case 'monitor':
        $connection->execute(['MONITOR']);
        break;
    case 'unread':
        leave_unread(['GET', 'secret']);
        break;
    case 'unread reset':
        leave_unread(['GET', 'reset']);
        break;
    case 'silent':
        leave_unread(['CLIENT', 'REPLY', 'OFF']);
        break;
    case 'fatal':
        leave_unread(['GET', 'secret']);
        no_such_function();
    case 'exception':
        leave_unread(['GET', 'secret']);
        throw new Exception('nobody catches it');
    case 'exit':
    case 'thrown':
        pcntl_async_signals(true);
        pcntl_signal(SIGALRM, static fn () => $_GET['do'] === 'exit' ? exit("$id") : throw new Exception('in time'));
        pcntl_alarm(1);
        // If the connection uses PHP's streams, PHP runs the signal handler only after the reply
        // has arrived.
        $client->blPop('never', 2);
        break;
    case 'memory':
        ini_set('memory_limit', '8M');
        $client->get('large');
        break;
    case 'two':
        $other = new Client($_GET['other'], $options);
        echo json_encode([$id, $other->client('id'), $client->get('k'), $other->get('k'), $client->get('k')]);
        exit;
    case 'again':
        // The next object of the same request must reuse a connection that an earlier object
        // released.
        unset($client, $connection);
        gc_collect_cycles();
        echo (new Client($url, $options))->client('id') === $id ? 'same' : 'another';
        exit;
    case 'fork':
        unset($client, $connection);
        $child = pcntl_fork();
        if ($child === 0) {
            $mine = (new Client($url, $options))->client('id');
            // Kill the child, because it must not continue as a second server process.
            exec('kill -s ' . ($mine === $id ? 'USR1 ' : 'KILL ') . getmypid());
        }
        pcntl_waitpid($child, $status);
        echo pcntl_wtermsig($status) === SIGKILL ? 'another' : 'same';
        exit;
}
echo $id;
