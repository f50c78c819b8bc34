<?php

declare(strict_types=1);

namespace Undercroft\Session;

use Undercroft\Client;
use Undercroft\Connection\ClusterConnection;
use Undercroft\Connection\Connection;
use Undercroft\Connection\EmbeddedConnection;
use Undercroft\ServerException;

/** The holder of a session's lock, by a name from which other requests see whether it is still there. */
final class Holder
{
    /** The name of this request: its connection at the server that has the lock, or its process; '' where unknown. */
    public static function name(Client $client, string $lock): string
    {
        $connection = $client->connection();
        if ($connection instanceof EmbeddedConnection) {
            $start = self::start(getmypid());
            return $start === '' ? '' : getmypid() . " $start " . self::machine();
        }
        try {
            return 'client ' . self::server($connection, $lock)->execute(['CLIENT', 'ID']);
        } catch (ServerException) {
            // A proxy, or a user that may not ask.
            return '';
        }
    }

    /** Whether a holder is there, as far as this request can know. */
    public static function isThere(Client $client, string $lock, string $name): bool
    {
        $words = explode(' ', $name);
        if ($words[0] !== 'client') {
            [$process, $start, $machine] = $words + [1 => '', 2 => ''];
            return $machine !== self::machine() || self::start((int) $process) === $start;
        }
        try {
            $reply = self::server($client->connection(), $lock)->execute(['CLIENT', 'LIST', 'ID', $words[1] ?? '']);
            return !is_string($reply) || trim(preg_replace('~^txt:~', '', $reply)) !== '';
        } catch (ServerException) {
            return true;
        }
    }

    private static function server(Connection $connection, string $lock): Connection
    {
        return $connection instanceof ClusterConnection ? $connection->nodeOf($lock) : $connection;
    }

    /** When a process started, so that its number is not taken for that of a later one; '' where there is none. */
    private static function start(int $process): string
    {
        $text = (string) @file_get_contents("/proc/$process/stat");
        // The name in parentheses may have spaces in it.
        $fields = explode(' ', substr($text, (int) strrpos($text, ')') + 2));
        // A zombie has ended.
        return in_array($fields[0], ['Z', 'X'], true) ? '' : $fields[19] ?? '';
    }

    /** Where numbers of processes mean the same: the boot of a machine, and a namespace of processes in it. */
    private static function machine(): string
    {
        $boot = trim((string) @file_get_contents('/proc/sys/kernel/random/boot_id'));
        return $boot . '-' . @readlink('/proc/self/ns/pid');
    }
}
