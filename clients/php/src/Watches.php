<?php

declare(strict_types=1);

namespace Undercroft;

use Undercroft\Connection\Connection;

/**
 * Which connections watch keys, and for which part of the program.
 *
 * EXEC and UNWATCH end all watches of a connection. So while a function of transaction(), or a fiber, watches keys on a
 * connection, no other transaction may end there: it gets a connection of its own, or is refused.
 */
final class Watches
{
    /** @var \WeakMap<Connection, array{?\Fiber, ?Pipeline}>|null the fiber, and the queue of a running function */
    private static ?\WeakMap $open = null;

    /** Says that keys are watched, for a queue or for watch() of the program. */
    public static function begin(Connection $connection, ?Pipeline $queue = null): void
    {
        self::$open ??= new \WeakMap();
        self::$open[$connection] = [\Fiber::getCurrent(), $queue];
    }

    /** Says that no keys are watched any more. */
    public static function end(Connection $connection): void
    {
        unset(self::$open[$connection]);
    }

    /** Whether the keys that a connection watches are of another part of the program than this queue. */
    public static function areOthers(Connection $connection, ?Pipeline $queue = null): bool
    {
        $open = self::$open[$connection] ?? null;
        if ($open === null) {
            return false;
        }
        [$fiber, $owner] = $open;
        if ($owner === null && (!$connection->isPinned() || $fiber?->isTerminated())) {
            // No code is left that relies on the watch: it was lost with the connection, or its fiber has ended.
            self::end($connection);
            return false;
        }
        return $owner === null ? $fiber !== \Fiber::getCurrent() : $owner !== $queue;
    }

    /** Whether the function of a transaction() of this fiber runs, which may watch more keys. */
    public static function isInside(Connection $connection): bool
    {
        [$fiber, $owner] = self::$open[$connection] ?? [null, null];
        return $owner !== null && $fiber === \Fiber::getCurrent();
    }

    /** Refuses a command that ends the watches of another part of the program. */
    public static function check(Connection $connection, string $what, ?Pipeline $queue = null): void
    {
        if (self::areOthers($connection, $queue)) {
            throw new ArgumentException("expected no $what on a connection whose keys another transaction() or fiber "
                . 'watches, as that watch ends with it; use a client of its own, or transaction() with a function');
        }
    }

    /**
     * Runs the function of a transaction(), and the commands that it queues.
     *
     * @param string|list<string> $watch
     *
     * @return list<mixed>|null null where a watched key was changed
     */
    public static function attempt(
        Client $client,
        Pipeline $queue,
        callable $body,
        string|array $watch,
        bool $throws,
    ): ?array {
        $connection = $client->connection();
        if ($watch === [] && !$connection->isPinned()) {
            $body($queue, $client);
            return $queue->execute($throws);
        }
        // Before WATCH, as a signal's handler that comes after it must not end the watch by a transaction of its own.
        self::begin($connection, $queue);
        try {
            $watch === [] || $client->watch($watch);
            $body($queue, $client);
            if (!$connection->isPinned()) {
                throw new ConnectionException('the connection was lost or closed that watched keys for a transaction, '
                    . 'which did not run');
            }
            return $queue->execute($throws);
        } catch (\Throwable $error) {
            self::end($connection);
            if ($watch !== [] && $connection->isPinned()) {
                $client->unwatch();
            }
            throw $error;
        } finally {
            self::end($connection);
            // Keys of watch() stay watched where nothing ran.
            $connection->isPinned() && self::begin($connection);
        }
    }

    /** Runs WATCH or UNWATCH. */
    public static function execute(Connection $connection, array $words): mixed
    {
        $isWatch = strtoupper((string) $words[0]) === 'WATCH';
        $isInside = self::isInside($connection);
        $isWatch && $isInside || self::check($connection, (string) $words[0]);
        $isWatch || $connection->pin(false);
        $reply = $connection->execute($words);
        if ($isWatch) {
            $connection->pin(true);
            $isInside || self::begin($connection);
        } else {
            self::end($connection);
        }
        return $reply;
    }
}
