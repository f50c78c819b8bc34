<?php

declare(strict_types=1);

namespace Undercroft\Connection;

use function getmypid;

/**
 * The connections in pure PHP that outlive their request, in the PHP process.
 *
 * A mark that PHP keeps with a stream, as its chunk size, says whether the last request left it between two replies. A
 * request that was killed, or ended in the midst of a reply, has not set that mark, and what it left is closed. Nor do
 * two objects ever have the same one.
 */
final class Kept
{
    /** So many persistent connections to one place are kept. */
    private const KEPT = 16;

    /** The least mark: larger than any chunk size that PHP gives by itself. */
    private const MARK = 65_536;

    /** @var array<string, true> persistent connections that objects of this request have */
    private static array $taken = [];

    /** A connection that an earlier request has left in good order, or a new one; null where too many are in use. */
    public static function open(string $target, Address $address, Options $options): ?Wire
    {
        for ($number = 0; $number < self::KEPT; $number++) {
            $kept = self::name($target, $address, $options, $number);
            if (isset(self::$taken[$kept])) {
                continue;
            }
            // First, as PHP gives one stream to all that ask for it by this name: also to a signal's handler that comes
            // meanwhile, and to the child that it forks.
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

    /** Finds or makes the persistent connection of this name. */
    private static function kept(string $kept, Address $address, Options $options): Wire
    {
        $stream = Wire::connect($kept, $address, $options, STREAM_CLIENT_PERSISTENT);
        $mark = stream_set_chunk_size($stream, self::mark(isTaken: true));
        $isReused = $mark === self::mark(isTaken: false);
        if ($mark >= self::MARK && (!$isReused || Waits::select($stream, 0.0) !== false)) {
            // Of a request that did not end well, or of the process that forked this one; or bytes came unasked.
            fclose($stream);
            $stream = Wire::connect($kept, $address, $options, STREAM_CLIENT_PERSISTENT);
            stream_set_chunk_size($stream, self::mark(isTaken: true));
            $isReused = false;
        }
        return Wire::of($stream, $address, $options, $kept, $isReused);
    }

    /** What stands in the address of a persistent connection to tell it from others, and is not sent. */
    private static function name(string $target, Address $address, Options $options, int $number): string
    {
        if ($address->scheme === 'unix') {
            return 'unix://' . str_repeat(str_starts_with($address->path, '/') ? '/' : './', $number) . $address->path;
        }
        // A client that checked no certificate leaves its connection to none that checks it. A child has names of its
        // own, as it can only close its parent's encrypted streams for both processes.
        $ssl = $address->scheme === 'tls' ? '-' . hash('xxh128', serialize([$options->ssl, getmypid()])) : '';
        return "$target/" . rawurlencode((string) $options->persistent) . "-$number$ssl";
    }

    private static function mark(bool $isTaken): int
    {
        return self::MARK + 2 * getmypid() + (int) $isTaken;
    }

    /**
     * Leaves a connection to the next request.
     *
     * @param resource $stream
     */
    public static function leave(mixed $stream, string $kept): void
    {
        stream_set_chunk_size($stream, self::mark(isTaken: false));
        self::free($kept);
    }

    /** The connection of this name is closed, or no object has it any more. */
    public static function free(string $kept): void
    {
        unset(self::$taken[$kept]);
    }
}
