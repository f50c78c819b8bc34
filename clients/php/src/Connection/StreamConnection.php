<?php

declare(strict_types=1);

namespace Undercroft\Connection;

use Undercroft\Commands\Table;
use Undercroft\ConnectionException;
use Undercroft\ProtocolException;
use Undercroft\Resp\Encoder;
use Undercroft\Resp\NativeParser;
use Undercroft\Resp\Parser;
use Undercroft\Resp\Push;
use Undercroft\Resp\Reader;
use Undercroft\ServerException;
use Undercroft\TimeoutException;

use function count;
use function fread;
use function fwrite;
use function getmypid;
use function socket_recv;
use function socket_send;
use function is_string;
use function str_ends_with;
use function str_starts_with;
use function strlen;
use function substr;
use function time;

/**
 * A connection in pure PHP, over a PHP stream: TCP, TLS or a Unix socket.
 *
 * Without TLS, bytes are read and written through PHP's `sockets` extension if it is loaded. With
 * TLS, the `undercroft` extension parses replies if it is loaded.
 *
 * The connection is opened when the first command runs, and reopened after it is lost. A command
 * without a reply is resent once, and only if that is safe: no part of it was sent, or the command
 * is read-only.
 *
 * Every event that ends a call between its command and its reply, such as a signal handler's
 * exception, also closes the connection. The reply may still arrive and must not be confused with
 * the reply to a later command.
 *
 * A forked child leaves the connection to its parent and opens a new connection when its first
 * command runs.
 */
final class StreamConnection implements Connection
{
    /** The idle time in seconds after which a connection is checked before it is used. */
    private const RESTED = 1;

    /**
     * The number of bytes that most replies fit into. PHP allocates the requested size in full,
     * which is fast for this size.
     */
    private const SHORT = 2_500;

    /** The number of bytes requested after a longer reply has arrived. */
    private const LONG = 32_768;

    private ?Wire $wire = null;

    private ?Reader $parser = null;

    /** The number of bytes to request in the first read of a reply. */
    private int $asked = self::SHORT;

    /** The time of last use in seconds since 1970, or 0 while a reply is pending. */
    private int $used = 0;

    /**
     * Whether the server holds state for this connection, such as watched keys, so that it must not
     * be replaced.
     */
    private bool $isPinned = false;

    private readonly int $spin;

    /**
     * The idle time in seconds after which the connection is checked, or -1 to check before every
     * use.
     */
    private readonly int $rests;

    public function __construct(private readonly Address $address, private readonly Options $options)
    {
        $this->spin = $options->spin;
        // A forked child that exits also closes its parent's TLS connection, so check a TLS
        // connection before every use.
        $this->rests = $address->scheme === 'tls' && function_exists('pcntl_fork') ? -1 : self::RESTED;
    }

    public function __destruct()
    {
        if ($this->wire === null) {
            return;
        }
        // The next request must not inherit server-side state or partly read replies.
        $isLeft = $this->used !== 0 && !$this->isPinned && !$this->hasBytes();
        $isLeft ? $this->wire->leave() : $this->wire->close();
    }

    public function execute(array $words, ?float $wait = null): mixed
    {
        // Commands of two words, which are the most common, are encoded without a loop.
        $count = count($words);
        if ($count === 2 && is_string($key = $words[1])) {
            $name = $words[0];
            $ofName = strlen($name);
            $ofKey = strlen($key);
            $request = "*2\r\n\$$ofName\r\n$name\r\n\$$ofKey\r\n$key\r\n";
        } elseif ($count === 3 && is_string($key = $words[1]) && is_string($value = $words[2])) {
            $name = $words[0];
            $ofName = strlen($name);
            $ofKey = strlen($key);
            $ofValue = strlen($value);
            $request = "*3\r\n\$$ofName\r\n$name\r\n\$$ofKey\r\n$key\r\n\$$ofValue\r\n$value\r\n";
        } else {
            $request = Encoder::command($words);
        }
        $now = time();
        if ($this->wire === null || $now - $this->used > $this->rests || $this->wire->process !== getmypid()) {
            $this->ready();
        }
        if ($wait !== null) {
            return $this->patiently($request, $wait);
        }
        $this->used = 0;
        try {
            $length = strlen($request);
            $bytes = $got = false;
            $socket = $this->wire->socket;
            if ($socket !== null) {
                $got = @(($sent = socket_send($socket, $request, $length, 0)) === $length
                    || $this->wire->sendRest($request, $sent) ? (
                        $this->spin > 0 ? $this->wire->spin($bytes, $this->asked, $this->spin) : false
                    ) ?: socket_recv($socket, $bytes, $this->asked, 0) : 0);
            } elseif (@fwrite($this->wire->stream, $request) === $length) {
                $bytes = @fread($this->wire->stream, $this->asked);
            }
            if ($bytes === '' || $bytes === false || $bytes === null) {
                $bytes = $this->again($request, $words, $got === false);
            }
            if ($bytes === "+OK\r\n") {
                $this->used = $now;
                return 'OK';
            }
            // Most replies are one complete string, whose length can be computed from the number of
            // bytes read.
            $size = strlen($bytes) - 6;
            for ($from = 4, $most = 10; $size >= $most; $most *= 10) {
                $size--;
                $from++;
            }
            if ($size * 10 >= $most && str_starts_with($bytes, "\$$size\r\n") && str_ends_with($bytes, "\r\n")) {
                $this->used = $now;
                return substr($bytes, $from, $size);
            }
            if ($bytes[0] === ':' && ":" . ($number = (int) substr($bytes, 1)) . "\r\n" === $bytes) {
                $this->used = $now;
                return $number;
            }
            if ($bytes === "\$-1\r\n") {
                $this->used = $now;
                return null;
            }
            if (strlen($bytes) === $this->asked) {
                $this->asked = self::LONG;
            }
            $this->parser()->feed($bytes);
            $reply = $this->replies(1)[0];
        } catch (\Throwable $error) {
            throw $this->broken($error);
        }
        $this->used = $now;
        return $reply instanceof ServerException ? throw $reply : $reply;
    }

    public function pipeline(array $commands): array
    {
        if ($commands === []) {
            return [];
        }
        $this->begin($commands);
        return $this->finish(count($commands));
    }

    /**
     * Sends commands whose replies finish() reads later, so that several servers can work in
     * parallel.
     */
    public function begin(array $commands): void
    {
        $this->write(Encoder::commands($commands));
    }

    /** @return list<mixed> */
    public function finish(int $count): array
    {
        try {
            $replies = $this->replies($count);
        } catch (\Throwable $error) {
            throw $this->broken($error);
        }
        $this->used = time();
        return $replies;
    }

    public function transaction(array $commands): ?array
    {
        $replies = $this->pipeline([['MULTI'], ...$commands, ['EXEC']]);
        $this->isPinned = false;
        return NativeConnection::executed($replies);
    }

    public function send(array ...$commands): void
    {
        $this->isPinned = true;
        $this->write(Encoder::commands($commands));
        // No reply is read here, because receive() returns all incoming messages.
        $this->used = time();
    }

    public function receive(?float $timeout): mixed
    {
        if ($this->wire === null) {
            throw new ConnectionException("no connection to $this->address; subscribe before waiting for messages");
        }
        if (!$this->wire->isOurs()) {
            $this->leaveToParent();
        }
        if (!$this->hasBytes() && !$this->wire->waits($timeout)) {
            throw new TimeoutException("no message from $this->address within $timeout s");
        }
        try {
            $reply = $this->parser()->next();
        } catch (\Throwable $error) {
            throw $this->broken($error);
        }
        $this->used = time();
        return $reply instanceof Push ? $reply->items : $reply;
    }

    public function another(): Connection
    {
        return new self($this->address, $this->options);
    }

    public function hasMaps(): bool
    {
        return $this->options->protocol === 3;
    }

    public function close(): void
    {
        $wire = $this->wire;
        $this->wire = $this->parser = null;
        $this->isPinned = false;
        $wire?->close();
    }

    public function pin(bool $isPinned): void
    {
        $this->isPinned = $isPinned;
    }

    public function isPinned(): bool
    {
        return $this->isPinned;
    }

    /**
     * Connects if there is no connection, or if the server closed the connection while it was idle.
     */
    private function ready(): void
    {
        if ($this->wire !== null && !$this->wire->isOurs()) {
            $this->leaveToParent();
        }
        if ($this->wire !== null && $this->used === 0 && Waits::isAbandoned($this)) {
            $this->close();
        }
        if ($this->wire !== null) {
            if ($this->used === 0) {
                throw new ConnectionException(
                    "the connection to $this->address is in use by the call that the signal interrupted");
            }
            if (!$this->hasBytes() && !$this->wire->waits(0.0)) {
                return;
            }
            // No request is pending, so the readable bytes are the end of the stream or an
            // abandoned reply.
            $wasPinned = $this->isPinned;
            $this->close();
            if ($wasPinned) {
                throw new ConnectionException("$this->address closed the connection; its watches and subscriptions are "
                    . 'lost');
            }
        }
        $this->connect();
    }

    /** Closes a forked child's descriptor of its parent's connection, without sending any bytes. */
    private function leaveToParent(): void
    {
        $wasPinned = $this->isPinned;
        $this->close();
        if ($wasPinned) {
            throw NativeConnection::ofParent($this->address);
        }
    }

    /**
     * Resends a request if that is safe, and returns the first bytes of its reply.
     *
     * @param bool $isWaiting true if the request was sent and the read failed; false if the stream
     *     had ended
     */
    private function again(string $request, array $words, bool $isWaiting): string
    {
        if ($isWaiting && $this->wire->isInterrupted() && $this->wire->isOurs()) {
            return $this->wire->read($this->asked);
        }
        $error = $this->wire->lost($isWaiting && $this->wire->isLate());
        $mayRepeat = $this->options->retry && !$this->isPinned && !$error instanceof TimeoutException
            && isset(Table::READS[strtoupper((string) $words[0])]);
        if (!$mayRepeat) {
            throw $error;
        }
        $this->close();
        $this->connect();
        $this->used = 0;
        $this->wire->send($request);
        return $this->wire->read($this->asked);
    }

    /**
     * Closes the connection, because the start of the next reply is unknown. Returns the exception
     * to throw.
     */
    private function broken(\Throwable $error): \Throwable
    {
        $this->close();
        return $error instanceof ProtocolException
            ? new ProtocolException("$this->address: {$error->getMessage()}")
            : $error;
    }

    private function write(string $request): void
    {
        if ($this->wire === null || time() - $this->used > $this->rests || $this->wire->process !== getmypid()) {
            $this->ready();
        }
        $this->used = 0;
        try {
            $this->wire->send($request);
        } catch (\Throwable $error) {
            throw $this->broken($error);
        }
    }

    /** Runs a blocking command such as BLPOP. The command's own wait extends the read timeout. */
    private function patiently(string $request, float $wait): mixed
    {
        $limit = $this->options->timeout;
        $this->wire->limit($wait <= 0.0 ? 0.0 : ($limit <= 0.0 ? 0.0 : $wait + $limit));
        try {
            $this->write($request);
            $reply = $this->finish(1)[0];
        } finally {
            $this->wire?->limit($limit);
        }
        return $reply instanceof ServerException ? throw $reply : $reply;
    }

    /**
     * Reads replies and drops the push messages between them.
     *
     * @return list<mixed>
     */
    private function replies(int $count): array
    {
        $replies = $this->parser()->many($count);
        if ($this->options->protocol === 3) {
            $replies = array_values(array_filter($replies, static fn (mixed $each): bool => !$each instanceof Push));
            while (count($replies) < $count) {
                $reply = $this->parser()->next();
                if (!$reply instanceof Push) {
                    $replies[] = $reply;
                }
            }
        }
        return $replies;
    }

    /**
     * Returns the parser of this connection, which is needed for replies not handled by the fast
     * path.
     */
    private function parser(): Reader
    {
        return $this->parser ??= $this->options->native && class_exists(\Undercroft\Native\Parser::class, false)
            ? new NativeParser($this->wire)
            : new Parser($this->wire);
    }

    /** Returns whether received bytes are still unread. */
    private function hasBytes(): bool
    {
        return $this->parser !== null && $this->parser->hasBytes();
    }

    private function connect(): void
    {
        do {
            $this->wire = Wire::open($this->address, $this->options);
            $this->parser = null;
        } while (!$this->greet());
    }

    /**
     * Logs in and selects the database in one round trip. A reused connection is reset first.
     * Returns false if the reset failed and the connection was closed.
     */
    private function greet(): bool
    {
        $commands = $this->address->greeting($this->options);
        $isReused = $this->wire->isReused;
        if ($isReused) {
            array_unshift($commands, ['RESET']);
        }
        // Skip the idle check on a new connection, because TLS session tickets make the connection
        // readable although no reply is pending.
        $this->used = PHP_INT_MAX;
        if ($commands === []) {
            return true;
        }
        try {
            $replies = $this->pipeline($commands);
        } catch (ConnectionException $error) {
            return $isReused ? false : throw $error;
        }
        if ($isReused && array_shift($replies) !== 'RESET') {
            $this->close();
            return false;
        }
        foreach ($replies as $reply) {
            if ($reply instanceof ServerException) {
                $this->close();
                throw $reply;
            }
        }
        return true;
    }
}
