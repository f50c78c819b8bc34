<?php

declare(strict_types=1);

namespace Undercroft\Connection;

use Undercroft\ConnectionException;
use Undercroft\ProtocolException;
use Undercroft\Resp\Encoder;
use Undercroft\Resp\Parser;
use Undercroft\Resp\Push;
use Undercroft\Resp\Source;
use Undercroft\ServerException;
use Undercroft\Table;
use Undercroft\TimeoutException;

use function count;
use function fread;
use function fwrite;
use function socket_recv;
use function socket_send;
use function is_string;
use function str_ends_with;
use function str_starts_with;
use function strlen;
use function substr;
use function time;

/**
 * A connection in pure PHP, over one of its streams: TCP, TLS or a unix socket. Where PHP's extension `sockets` is
 * loaded bytes go through that, except those of TLS.
 *
 * It is made when the first command runs, and made anew when it was lost. A command whose reply did not come is sent
 * once more only where that is safe: nothing of it had been sent, or it changes nothing.
 */
final class StreamConnection implements Connection, Source
{
    /** A connection that rested for more than so many seconds is looked at before it is used. */
    private const RESTED = 1;

    /** Most replies are no longer. PHP takes memory for as much as is asked for, and of this size it is quick. */
    private const SHORT = 2_500;

    /** What is asked for when a reply was longer. */
    private const LONG = 32_768;

    /** @var resource|null */
    private $stream = null;

    /** The same socket by the extension `sockets`, where that is loaded: a read by it is one system call, not two. */
    private ?\Socket $socket = null;

    private Parser $parser;

    /** So many bytes are asked for first. */
    private int $asked = self::SHORT;

    /** When it was last used, in seconds. */
    private int $used = 0;

    /** What the server has to remember for us, so that no other connection can take this one's place. */
    private bool $isPinned = false;

    /** The same of the connection that was lost. */
    private bool $wasPinned = false;

    public function __construct(private readonly Address $address, private readonly Options $options)
    {
        $this->parser = new Parser($this);
    }

    public function execute(array $words, ?float $wait = null): mixed
    {
        // What is called most often is put together without a loop.
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
        if ($this->stream === null || $now - $this->used > self::RESTED) {
            $this->ready();
        }
        if ($wait !== null) {
            return $this->patiently($request, $wait);
        }
        $this->used = $now;
        $length = strlen($request);
        $bytes = $got = false;
        if ($this->socket !== null) {
            $got = @(($sent = socket_send($this->socket, $request, $length, 0)) === $length
                || $this->sends($request, $sent) ? socket_recv($this->socket, $bytes, $this->asked, 0) : 0);
        } elseif (@fwrite($this->stream, $request) === $length) {
            $bytes = @fread($this->stream, $this->asked);
        }
        if ($bytes === '' || $bytes === false || $bytes === null) {
            $bytes = $this->again($request, $words, $got === false);
        }
        if ($bytes === "+OK\r\n") {
            return 'OK';
        }
        // Most often the reply is a string that is all there, and its length follows from that of the bytes.
        $size = strlen($bytes) - 6;
        for ($from = 4, $most = 10; $size >= $most; $most *= 10) {
            $size--;
            $from++;
        }
        if ($size * 10 >= $most && str_starts_with($bytes, "\$$size\r\n") && str_ends_with($bytes, "\r\n")) {
            return substr($bytes, $from, $size);
        }
        if (strlen($bytes) === $this->asked) {
            $this->asked = self::LONG;
        }
        $this->parser->feed($bytes);
        return $this->reply();
    }

    public function pipeline(array $commands): array
    {
        if ($commands === []) {
            return [];
        }
        $this->begin($commands);
        return $this->finish(count($commands));
    }

    /** Sends commands whose replies finish() reads, so that several servers can work at the same time. */
    public function begin(array $commands): void
    {
        $this->write(Encoder::commands($commands));
    }

    /** @return list<mixed> */
    public function finish(int $count): array
    {
        return $this->guarded(fn (): array => $this->replies($count));
    }

    public function transaction(array $commands): ?array
    {
        $replies = $this->pipeline([['MULTI'], ...$commands, ['EXEC']]);
        $this->isPinned = false;
        return NativeConnection::executed($replies);
    }

    public function send(array $words): void
    {
        $this->write(Encoder::command($words));
        $this->isPinned = true;
    }

    public function receive(?float $timeout): mixed
    {
        if ($this->stream === null) {
            throw new ConnectionException("no connection to $this->address, so that nothing can come from it");
        }
        if (!$this->parser->hasBytes() && !$this->waits($timeout)) {
            throw new TimeoutException("no message from $this->address in $timeout s");
        }
        $reply = $this->guarded(fn (): mixed => $this->parser->next());
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
        $stream = $this->stream;
        $this->stream = $this->socket = null;
        $this->isPinned = false;
        $this->parser = new Parser($this);
        if (is_resource($stream)) {
            fclose($stream);
        }
    }

    public function pin(bool $isPinned): void
    {
        $this->isPinned = $isPinned;
    }

    public function read(int $wanted): string
    {
        if ($this->socket === null) {
            $bytes = @fread($this->stream, $wanted);
            return $bytes === '' || $bytes === false ? throw $this->lost() : $bytes;
        }
        do {
            $got = @socket_recv($this->socket, $bytes, $wanted, 0);
            // A signal ends the call early.
        } while ($got === false && socket_last_error($this->socket) === SOCKET_EINTR);
        return $got ? $bytes : throw $this->lost($got === false && $this->isLate());
    }

    private function isLate(): bool
    {
        return socket_last_error($this->socket) === SOCKET_EAGAIN;
    }

    /** Sends what the socket did not take at once. */
    private function sends(string $request, int|false $sent): bool
    {
        while ($sent !== strlen($request)) {
            if ($sent === false && socket_last_error($this->socket) !== SOCKET_EINTR) {
                return false;
            }
            $request = substr($request, (int) $sent);
            $sent = @socket_send($this->socket, $request, strlen($request), 0);
        }
        return true;
    }

    /** Connects where there is no connection, or where the server closed it while it rested. */
    private function ready(): void
    {
        if ($this->stream !== null) {
            $peeked = $this->parser->hasBytes() || $this->waits(0.0);
            if (!$peeked) {
                return;
            }
            // Nothing was asked, so what is there is its end, or of a reply that nobody waits for.
            $wasPinned = $this->isPinned;
            $this->close();
            if ($wasPinned) {
                throw new ConnectionException("$this->address closed the connection, and what it remembered is lost");
            }
        }
        $this->connect();
    }

    /** Whether something can be read within so many seconds; null is without end. */
    private function waits(?float $timeout): bool
    {
        $end = $timeout === null ? null : microtime(true) + $timeout;
        do {
            $read = [$this->stream];
            $none = null;
            $left = $end === null ? 3600.0 : max(0.0, $end - microtime(true));
            $ready = @stream_select($read, $none, $none, (int) $left, (int) (($left - (int) $left) * 1e6));
            // A signal ends it early.
        } while (!$ready && ($end === null || microtime(true) < $end));
        return $ready > 0;
    }

    /**
     * Sends once more what may be sent once more, and returns the bytes that come.
     *
     * @param bool $isWaiting whether the request was sent and reading failed, rather than found the end
     */
    private function again(string $request, array $words, bool $isWaiting): string
    {
        if ($isWaiting && $this->socket !== null && socket_last_error($this->socket) === SOCKET_EINTR) {
            return $this->read($this->asked);
        }
        $error = $this->lost($isWaiting && $this->socket !== null && $this->isLate());
        $mayRepeat = $this->options->retry && !$this->wasPinned && !$error instanceof TimeoutException
            && isset(Table::READS[strtoupper((string) $words[0])]);
        if (!$mayRepeat) {
            throw $error;
        }
        $this->write($request);
        return $this->read($this->asked);
    }

    /** Closes the connection and returns the exception that says how it was lost. */
    private function lost(bool $isLate = false): ConnectionException
    {
        $state = is_resource($this->stream) ? stream_get_meta_data($this->stream) : [];
        $this->wasPinned = $this->isPinned;
        $this->close();
        return $isLate || ($state['timed_out'] ?? false)
            ? new TimeoutException("no answer from $this->address in {$this->options->timeout} s")
            : new ConnectionException("lost the connection to $this->address: the server closed it");
    }

    private function write(string $request): void
    {
        if ($this->stream === null || time() - $this->used > self::RESTED) {
            $this->ready();
        }
        $length = strlen($request);
        if ($this->socket !== null) {
            $sent = @socket_send($this->socket, $request, $length, 0);
            if ($sent !== $length && !$this->sends($request, $sent)) {
                throw $this->lost($this->isLate());
            }
        } elseif (@fwrite($this->stream, $request) !== $length) {
            throw $this->lost();
        }
        $this->used = time();
    }

    /** Runs a command that waits for itself: BLPOP and its like. */
    private function patiently(string $request, float $wait): mixed
    {
        $limit = $this->options->timeout;
        $this->limit($wait <= 0.0 ? 0.0 : ($limit <= 0.0 ? 0.0 : $wait + $limit));
        try {
            $this->write($request);
            return $this->reply();
        } finally {
            if ($this->stream !== null) {
                $this->limit($limit);
            }
        }
    }

    private function limit(float $seconds): void
    {
        $time = ['sec' => (int) $seconds, 'usec' => (int) (($seconds - (int) $seconds) * 1e6)];
        if ($this->socket !== null) {
            socket_set_option($this->socket, SOL_SOCKET, SO_RCVTIMEO, $time);
            socket_set_option($this->socket, SOL_SOCKET, SO_SNDTIMEO, $time);
        } else {
            // Without a limit: PHP's streams have none that is longer.
            stream_set_timeout($this->stream, $seconds <= 0.0 ? 1_000_000_000 : $time['sec'], $time['usec']);
        }
    }

    private function reply(): mixed
    {
        $reply = $this->guarded(fn (): mixed => $this->replies(1)[0]);
        if ($reply instanceof ServerException) {
            throw $reply;
        }
        return $reply;
    }

    /**
     * Reads replies; what was pushed between them is nobody's.
     *
     * @return list<mixed>
     */
    private function replies(int $count): array
    {
        $replies = $this->parser->many($count);
        if ($this->options->protocol === 3) {
            $replies = array_values(array_filter($replies, static fn (mixed $each): bool => !$each instanceof Push));
            while (count($replies) < $count) {
                $reply = $this->parser->next();
                if (!$reply instanceof Push) {
                    $replies[] = $reply;
                }
            }
        }
        return $replies;
    }

    /** Reads; where that fails the connection is closed, as nobody knows where its next reply begins. */
    private function guarded(callable $read): mixed
    {
        try {
            $result = $read();
        } catch (ProtocolException $error) {
            $this->close();
            throw new ProtocolException("$this->address: {$error->getMessage()}");
        }
        $this->used = time();
        return $result;
    }

    private function connect(): void
    {
        $context = ['socket' => ['tcp_nodelay' => true]];
        $target = $this->address->target();
        if ($this->address->scheme === 'tls') {
            $target = 'tls' . substr($target, 3);
            $context['ssl'] = $this->options->ssl + ['peer_name' => trim($this->address->host, '[]')];
        }
        $flags = STREAM_CLIENT_CONNECT;
        if ($this->options->persistent !== false) {
            $flags |= STREAM_CLIENT_PERSISTENT;
            // What stands behind the address tells connections apart, and is not sent.
            $target .= $this->address->scheme === 'unix' ? '' : '/' . rawurlencode((string) $this->options->persistent);
        }
        error_clear_last();
        $stream = @stream_socket_client($target, $code, $words, $this->options->connectTimeout, $flags,
            stream_context_create($context));
        if ($stream === false) {
            $why = $words !== '' ? $words : (error_get_last()['message'] ?? 'no reason given');
            $message = "cannot connect to $this->address: $why";
            throw $code === 110 ? new TimeoutException($message) : new ConnectionException($message);
        }
        $wasUsed = $this->options->persistent !== false && ftell($stream) > 0;
        stream_set_read_buffer($stream, 0);
        stream_set_write_buffer($stream, 0);
        $this->stream = $stream;
        if ($this->address->scheme !== 'tls' && function_exists('socket_import_stream')) {
            $this->socket = socket_import_stream($stream) ?: null;
        }
        $this->parser = new Parser($this);
        $this->used = time();
        $this->limit($this->options->timeout);
        if ($wasUsed && !$this->isClean()) {
            $this->close();
            $this->connect();
            return;
        }
        try {
            $this->greet();
        } catch (\Throwable $error) {
            $this->close();
            throw $error;
        }
    }

    /** Whether a connection that an earlier request left is there and was left between two replies. */
    private function isClean(): bool
    {
        if ($this->waits(0.0)) {
            return false;
        }
        try {
            $this->write(Encoder::command(['RESET']));
            return $this->parser->next() === 'RESET';
        } catch (ConnectionException) {
            return false;
        }
    }

    /** Says who we are and which database we want, all in one round trip. */
    private function greet(): void
    {
        $commands = $this->address->greeting($this->options);
        if ($commands === []) {
            return;
        }
        $this->write(Encoder::commands($commands));
        foreach ($this->guarded(fn (): array => $this->parser->many(count($commands))) as $reply) {
            if ($reply instanceof ServerException) {
                throw $reply;
            }
        }
    }
}
