<?php

declare(strict_types=1);

namespace Undercroft;

use Undercroft\Connection\Connection;

/**
 * Records which connections watch keys, and which transaction() callback or fiber set each watch.
 *
 * EXEC and UNWATCH end all watches of a connection. While a transaction() callback or a fiber
 * watches keys on a connection, no other transaction may end there. A competing transaction gets a
 * separate connection or is refused.
 */
final class Watches
{
    /**
     * @var \WeakMap<Connection, array{?\Fiber, ?Pipeline}>|null the watching fiber and its callback's queue
     */
    private static ?\WeakMap $open = null;

    /** Records that a transaction's queue, or a direct call to watch(), watches keys. */
    public static function begin(Connection $connection, ?Pipeline $queue = null): void
    {
        self::$open ??= new \WeakMap();
        self::$open[$connection] = [\Fiber::getCurrent(), $queue];
    }

    /** Records that the connection no longer watches any keys. */
    public static function end(Connection $connection): void
    {
        unset(self::$open[$connection]);
    }

    /**
     * Returns whether the connection's watches were set by a transaction or fiber other than the
     * given queue's.
     */
    public static function areOthers(Connection $connection, ?Pipeline $queue = null): bool
    {
        $open = self::$open[$connection] ?? null;
        if ($open === null) {
            return false;
        }
        [$fiber, $owner] = $open;
        if ($owner === null && (!$connection->isPinned() || $fiber?->isTerminated())) {
            // No code relies on this watch: it was lost with the connection, or its fiber has
            // ended.
            self::end($connection);
            return false;
        }
        return $owner === null ? $fiber !== \Fiber::getCurrent() : $owner !== $queue;
    }

    /**
     * Returns whether the current fiber is running a transaction() callback, which may watch more
     * keys.
     */
    public static function isInside(Connection $connection): bool
    {
        [$fiber, $owner] = self::$open[$connection] ?? [null, null];
        return $owner !== null && $fiber === \Fiber::getCurrent();
    }

    /** Refuses a command that would end the watches of another transaction or fiber. */
    public static function check(Connection $connection, string $what, ?Pipeline $queue = null): void
    {
        if (self::areOthers($connection, $queue)) {
            throw new ArgumentException("$what would end the watch of another transaction() or fiber on this connection; "
                . 'use a separate client, or transaction() with a function');
        }
    }

    /**
     * Runs a transaction() callback, and then the commands that it queued.
     *
     * @param string|list<string> $watch
     *
     * @return list<mixed>|null null if a watched key changed
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
        // Record the watch before WATCH is sent, so that a signal handler that runs afterwards does
        // not end the watch with its own transaction.
        self::begin($connection, $queue);
        try {
            $watch === [] || $client->watch($watch);
            $body($queue, $client);
            if (!$connection->isPinned()) {
                throw new ConnectionException('the connection with the watched keys was lost or closed, so the transaction '
                    . 'did not run; try again');
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
            // If no EXEC ran, the connection still watches the keys of an earlier watch().
            $connection->isPinned() && self::begin($connection);
        }
    }

    /** Runs WATCH or UNWATCH and updates the record of watches. */
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
