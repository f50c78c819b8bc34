<?php

declare(strict_types=1);

namespace Undercroft\Connection;

use Undercroft\ConnectionException;

use function getmypid;
use function socket_recv;

/** How PHP waits until a connection can be read, and whether a call still waits. */
final class Waits
{
    /**
     * Whether something can be read within so many seconds; null is without end.
     *
     * @param float $limit how long reads of this connection wait otherwise
     *
     * @throws ConnectionException where PHP cannot wait for this stream
     */
    public static function forWire(Wire $wire, ?float $timeout, float $limit): bool
    {
        if ($wire->socket === null) {
            $isReadable = self::select($wire->stream, $timeout);
            if (!$wire->isOurs()) {
                throw $wire->lost();
            }
            return $isReadable ?? ($timeout === 0.0 ? false : throw new ConnectionException(
                "cannot wait for $wire->address: PHP's stream_select() takes no file descriptor above 1,023; open "
                . "fewer files, or load PHP's extension sockets where the connection has no TLS"));
        }
        // The socket's own time limit, as it holds for every descriptor.
        $end = $timeout === null ? INF : microtime(true) + $timeout;
        $flags = MSG_PEEK | ($timeout === null || $timeout > 0.0 ? 0 : MSG_DONTWAIT);
        try {
            do {
                $flags & MSG_DONTWAIT || $wire->limit($timeout === null ? 0.0 : max(1e-6, $end - microtime(true)));
                if (@socket_recv($wire->socket, $byte, 1, $flags) !== false) {
                    return true;
                }
                if (!$wire->isLate() && !$wire->isInterrupted()) {
                    // The read that follows says why it was lost.
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
     * Whether a stream can be read within so many seconds; null where PHP cannot tell, as its descriptor's number is
     * too large.
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
            // First without waiting, as PHP waits in vain for a descriptor that it leaves out.
            $left = 0.0;
            do {
                $read = [$stream];
                $none = null;
                $ready = @stream_select($read, $none, $none, (int) $left, (int) (($left - (int) $left) * 1e6));
                $left = min(3600.0, max(0.0, $end - microtime(true)));
                // A signal ends it early.
            } while (!$ready && !$isTooLarge && $left > 0.0 && $process === getmypid());
        } finally {
            restore_error_handler();
        }
        return $isTooLarge ? null : $ready > 0;
    }

    /**
     * Whether a fatal error, of memory or of time, or exit in a signal's handler ended the call that is under way, so
     * that no code waits for its reply. A call that a handler interrupted is on PHP's stack below the handler.
     */
    public static function isAbandoned(Connection $connection): bool
    {
        $isOutside = false;
        // Without the frame of this function.
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
