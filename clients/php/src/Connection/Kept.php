<?php

declare(strict_types=1);

namespace Undercroft\Connection;

use function getmypid;

/**
 * Persistent connections in pure PHP, which stay open in the PHP process after their request.
 *
 * PHP keeps a stream's chunk size across requests, so the chunk size serves as a mark. The mark
 * records whether the last request left the connection without a pending reply. A request that was
 * killed, or that ended in the middle of a reply, has not set the mark, and its connection is
 * closed. Two objects never share a connection.
 */
final class Kept
{
    /** The maximum number of persistent connections for each address. */
    private const KEPT = 16;

    /** The smallest mark, which is larger than any chunk size that PHP itself sets. */
    private const MARK = 65_536;

    /** @var array<string, true> the persistent connections in use by objects of this request */
    private static array $taken = [];

    /**
     * Returns a connection that an earlier request left without a pending reply, or a new
     * connection. Returns null if too many persistent connections are in use.
     */
    public static function open(string $target, Address $address, Options $options): ?Wire
    {
        for ($number = 0; $number < self::KEPT; $number++) {
            $kept = self::name($target, $address, $options, $number);
            if (isset(self::$taken[$kept])) {
                continue;
            }
            // Reserve the name first, because PHP returns the same stream to every caller that
            // opens the name, including a signal handler that runs now and a child that the handler
            // forks.
            self::$taken[$kept] = true;
            try {
                return self::kept($kept, $address, $options);
            } catch (\Throwable $error) {
                unset(self::$taken[$kept]);
                throw $error;
            }
        }
        return null;
    }

    /** Finds or opens the persistent connection with the given name. */
    private static function kept(string $kept, Address $address, Options $options): Wire
    {
        $stream = Wire::connect($kept, $address, $options, STREAM_CLIENT_PERSISTENT);
        $mark = stream_set_chunk_size($stream, self::mark(isTaken: true));
        $isReused = $mark === self::mark(isTaken: false);
        if ($mark >= self::MARK && (!$isReused || Waits::select($stream, 0.0) !== false)) {
            // The connection cannot be reused: the earlier request did not end cleanly, the parent
            // process owns the connection, or unexpected bytes arrived.
            fclose($stream);
            $stream = Wire::connect($kept, $address, $options, STREAM_CLIENT_PERSISTENT);
            stream_set_chunk_size($stream, self::mark(isTaken: true));
            $isReused = false;
        }
        return Wire::of($stream, $address, $options, $kept, $isReused);
    }

    /**
     * Returns the stream address of a persistent connection. A suffix, which is never sent,
     * distinguishes connections to the same place.
     */
    private static function name(string $target, Address $address, Options $options, int $number): string
    {
        if ($address->scheme === 'unix') {
            return 'unix://' . str_repeat(str_starts_with($address->path, '/') ? '/' : './', $number) . $address->path;
        }
        // A client that verifies certificates must not reuse a connection whose certificate was not
        // verified. The process id gives a forked child separate names, because closing its
        // parent's encrypted streams would end them for both processes.
        $ssl = $address->scheme === 'tls' ? '-' . hash('xxh128', serialize([$options->ssl, getmypid()])) : '';
        return "$target/" . rawurlencode((string) $options->persistent) . "-$number$ssl";
    }

    private static function mark(bool $isTaken): int
    {
        return self::MARK + 2 * getmypid() + (int) $isTaken;
    }

    /**
     * Leaves a connection open for the next request.
     *
     * @param resource $stream
     */
    public static function leave(mixed $stream, string $kept): void
    {
        stream_set_chunk_size($stream, self::mark(isTaken: false));
        self::free($kept);
    }

    /** Frees a name after its connection was closed or left for the next request. */
    public static function free(string $kept): void
    {
        unset(self::$taken[$kept]);
    }
}
