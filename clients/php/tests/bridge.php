<?php

declare(strict_types=1);

// Runs the commands of connections with a client each, so that the conformance cases test it:
//
//     conform through conformance/clients/php.txt php -d extension=.../undercroft.so clients/php/tests/bridge.php

use Undercroft\Client;
use Undercroft\UndercroftException;

require __DIR__ . '/../autoload.php';

/**
 * Reads a command. Returns null at the end of the connection.
 *
 * @param resource $stream
 *
 * @return list<string>|null
 */
function command($stream): ?array
{
    $first = fgets($stream);
    if ($first === false) {
        return null;
    }
    $words = [];
    for ($count = (int) substr($first, 1); $count > 0; $count--) {
        $length = (int) substr(fgets($stream), 1);
        $words[] = substr(stream_get_contents($stream, $length + 2), 0, $length);
    }
    return $words;
}

/** Returns a value in RESP2. */
function encoded(mixed $value): string
{
    if (is_array($value)) {
        $parts = [];
        foreach ($value as $key => $item) {
            array_is_list($value) || $parts[] = encoded((string) $key);
            $parts[] = encoded($item);
        }
        return '*' . count($parts) . "\r\n" . implode('', $parts);
    }
    return match (true) {
        $value === null => "$-1\r\n",
        is_bool($value), is_int($value) => ':' . (int) $value . "\r\n",
        is_float($value) => encoded(is_finite($value) ? var_export($value, true) : strtolower((string) $value)),
        $value instanceof UndercroftException => "-{$value->getMessage()}\r\n",
        default => '$' . strlen((string) $value) . "\r\n$value\r\n",
    };
}

[, $store, $socket] = $argv;
$listening = stream_socket_server("unix://$socket");
pcntl_signal(SIGCHLD, SIG_IGN);
while (true) {
    $stream = stream_socket_accept($listening, -1);
    // Each connection has a process, because commands can wait.
    if (pcntl_fork() !== 0) {
        fclose($stream);
        continue;
    }
    // A client refuses commands that change its connection, such as SELECT; the connection runs them.
    $connection = (new Client("undercroft://$store"))->connection();
    $connection->execute(['HELLO', '2']);
    while (($words = command($stream)) !== null) {
        try {
            $reply = $connection->execute($words);
        } catch (UndercroftException $error) {
            $reply = $error;
        }
        fwrite($stream, encoded($reply));
    }
    exit(0);
}
