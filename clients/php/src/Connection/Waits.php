<?php

declare(strict_types=1);

namespace Undercroft\Connection;

use Undercroft\ConnectionException;

use function getmypid;
use function socket_recv;

/** Waits until a connection is readable, and detects calls that were abandoned during a wait. */
final class Waits
{
    /**
     * Returns whether the connection becomes readable within `$timeout` seconds. Null means no
     * limit.
     *
     * @param float $limit the connection's normal read timeout, restored afterwards
     *
     * @throws ConnectionException if PHP cannot wait for this stream
     */
    public static function forWire(Wire $wire, ?float $timeout, float $limit): bool
    {
        if ($wire->socket === null) {
            $isReadable = self::select($wire->stream, $timeout);
            if (!$wire->isOurs()) {
                throw $wire->lost();
            }
            return $isReadable ?? ($timeout === 0.0 ? false : throw new ConnectionException(
                "cannot wait for $wire->address: PHP's stream_select() accepts no file descriptor above 1,023; "
                . "open fewer files, or load PHP's extension sockets if the connection has no TLS"));
        }
        // Wait with the socket's own timeout instead of select(), because that works for every
        // descriptor number.
        $end = $timeout === null ? INF : microtime(true) + $timeout;
        $flags = MSG_PEEK | ($timeout === null || $timeout > 0.0 ? 0 : MSG_DONTWAIT);
        try {
            do {
                $flags & MSG_DONTWAIT || $wire->limit($timeout === null ? 0.0 : max(1e-6, $end - microtime(true)));
                if (@socket_recv($wire->socket, $byte, 1, $flags) !== false) {
                    return true;
                }
                if (!$wire->isLate() && !$wire->isInterrupted()) {
                    // The read that follows reports why the connection was lost.
                    return true;
                }
                if (!$wire->isOurs()) {
                    throw $wire->lost();
                }
            } while (microtime(true) < $end);
            return false;
        } finally {
            $flags & MSG_DONTWAIT || $wire->limit($limit);
        }
    }

    /**
     * Returns whether a stream becomes readable within `$timeout` seconds. Returns null if PHP
     * cannot determine this, because the descriptor's number is too large.
     *
     * @param resource $stream
     */
    public static function select(mixed $stream, ?float $timeout): ?bool
    {
        $end = $timeout === null ? INF : microtime(true) + $timeout;
        $process = getmypid();
        $isTooLarge = false;
        set_error_handler(static function (int $level, string $text) use (&$isTooLarge): bool {
            $isLimit = str_contains($text, 'FD_SETSIZE');
            $isTooLarge = $isTooLarge || $isLimit;
            return $isLimit;
        });
        try {
            // Poll once without waiting, because PHP skips a descriptor whose number is too large
            // and then waits for the full timeout.
            $left = 0.0;
            do {
                $read = [$stream];
                $none = null;
                $ready = @stream_select($read, $none, $none, (int) $left, (int) (($left - (int) $left) * 1e6));
                $left = min(3600.0, max(0.0, $end - microtime(true)));
                // A signal interrupts the wait, so loop until the timeout has expired.
            } while (!$ready && !$isTooLarge && $left > 0.0 && $process === getmypid());
        } finally {
            restore_error_handler();
        }
        return $isTooLarge ? null : $ready > 0;
    }

    /**
     * Returns whether a fatal error, or exit in a signal handler, ended the pending call, so that
     * no code waits for its reply. If a handler has only interrupted the call, the call is still on
     * PHP's stack below the handler.
     */
    public static function isAbandoned(Connection $connection): bool
    {
        $isOutside = false;
        // Skip this function's own frame.
        $frames = array_slice(debug_backtrace(DEBUG_BACKTRACE_PROVIDE_OBJECT | DEBUG_BACKTRACE_IGNORE_ARGS), 1);
        foreach ($frames as $frame) {
            $isInside = ($frame['object'] ?? null) === $connection;
            if ($isInside && $isOutside) {
                return false;
            }
            $isOutside = $isOutside || !$isInside;
        }
        return true;
    }
}
