<?php

declare(strict_types=1);

/**
 * Runs a server that sends scripted replies, regardless of the requests: `php scripted.php JSON
 * [HOST:PORT]`.
 *
 * The JSON is a list of connections, each a list of steps. A step is one of:
 *
 * - base64 text, which is sent after a request was read, or immediately if it has the prefix
 *   `now:`;
 * - `close` or `reset`, which end the connection;
 * - `silent`, which waits until the client closes the connection.
 *
 * The server prints its port and then each request.
 */
$server = stream_socket_server('tcp://' . ($argv[2] ?? '127.0.0.1:0'));
$name = stream_socket_get_name($server, false);
echo substr($name, strrpos($name, ':') + 1), "\n";
foreach (json_decode($argv[1], true) as $steps) {
    $client = stream_socket_accept($server, 60);
    foreach ($steps as $step) {
        if ($step === 'close') {
            break;
        }
        if ($step === 'reset') {
            socket_set_option(socket_import_stream($client), SOL_SOCKET, SO_LINGER, ['l_onoff' => 1, 'l_linger' => 0]);
            break;
        }
        if (!str_starts_with($step, 'now:')) {
            $request = fread($client, 1 << 20);
            echo 'request ', base64_encode((string) $request), "\n";
        }
        if ($step === 'silent') {
            fread($client, 1);
            break;
        }
        fwrite($client, base64_decode(str_starts_with($step, 'now:') ? substr($step, 4) : $step));
    }
    fclose($client);
}
