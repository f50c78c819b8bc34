<?php

declare(strict_types=1);

namespace Undercroft\Connection;

use Undercroft\ConnectionException;
use Undercroft\TimeoutException;

use function fread;
use function fwrite;
use function getmypid;
use function socket_recv;
use function socket_send;
use function strlen;

/**
 * Reads and writes the bytes of a connection in pure PHP: a stream over TCP, TLS or a Unix socket.
 * Without TLS, PHP's `sockets` extension is used if it is loaded.
 *
 * A forked child inherits its parent's connections and must not use them, because each process
 * would then receive replies that belong to the other process. A Wire therefore remembers its
 * process.
 */
final class Wire
{
    /** @var list<resource> the parent process' TLS streams, which must stay open */
    private static array $inherited = [];

    /**
     * The id of the process that opened this connection or took it over from an earlier request.
     */
    public readonly int $process;

    /**
     * @param resource $stream
     * @param string $kept the name among persistent connections, or '' if not persistent
     * @param bool $isReused whether an earlier request used the connection
     */
    private function __construct(
        public readonly mixed $stream,
        public readonly ?\Socket $socket,
        public readonly Address $address,
        private readonly Options $options,
        private readonly string $kept,
        public readonly bool $isReused,
    ) {
        $this->process = getmypid();
    }

    /**
     * Opens a connection, or reuses a persistent connection that an earlier request left without a
     * pending reply.
     */
    public static function open(Address $address, Options $options): self
    {
        $target = $address->scheme === 'tls' ? 'tls' . substr($address->target(), 3) : $address->target();
        $kept = $options->persistent === false ? null : Kept::open($target, $address, $options);
        return $kept ?? self::of(self::connect($target, $address, $options), $address, $options, '', false);
    }

    /** @return resource */
    public static function connect(string $target, Address $address, Options $options, int $flags = 0): mixed
    {
        $context = ['socket' => ['tcp_nodelay' => true]];
        if ($address->scheme === 'tls') {
            $context['ssl'] = $options->ssl + ['peer_name' => trim($address->host, '[]')];
        }
        error_clear_last();
        $stream = @stream_socket_client($target, $code, $words, $options->connectTimeout,
            STREAM_CLIENT_CONNECT | $flags, stream_context_create($context));
        if ($stream === false) {
            $why = $words !== '' ? $words : (error_get_last()['message'] ?? 'no reason given');
            $message = "cannot connect to $address: $why";
            throw $code === 110 ? new TimeoutException($message) : new ConnectionException($message);
        }
        return $stream;
    }

    /** @param resource $stream */
    public static function of(
        mixed $stream,
        Address $address,
        Options $options,
        string $kept,
        bool $isReused,
    ): self {
        stream_set_read_buffer($stream, 0);
        stream_set_write_buffer($stream, 0);
        $hasSocket = $address->scheme !== 'tls' && function_exists('socket_import_stream');
        $socket = $hasSocket ? socket_import_stream($stream) ?: null : null;
        $wire = new self($stream, $socket, $address, $options, $kept, $isReused);
        $wire->limit($options->timeout);
        return $wire;
    }

    /** Sends a complete request. */
    public function send(string $request): void
    {
        $length = strlen($request);
        if ($this->socket === null) {
            if (@fwrite($this->stream, $request) !== $length) {
                throw $this->lost();
            }
            return;
        }
        $sent = @socket_send($this->socket, $request, $length, 0);
        if ($sent !== $length && !$this->sendRest($request, $sent)) {
            throw $this->lost($this->isLate());
        }
    }

    /** Sends the bytes that the socket did not accept immediately. */
    public function sendRest(string $request, int|false $sent): bool
    {
        while ($sent !== strlen($request)) {
            if ($sent === false && !($this->isInterrupted() && $this->isOurs())) {
                return false;
            }
            $request = substr($request, (int) $sent);
            $sent = @socket_send($this->socket, $request, strlen($request), 0);
        }
        return true;
    }

    /**
     * Polls for bytes for up to `$microseconds` without sleeping. Returns the number of bytes read,
     * or false.
     */
    public function spin(mixed &$bytes, int $wanted, int $microseconds): int|false
    {
        $end = hrtime(true) + 1_000 * $microseconds;
        do {
            $got = @socket_recv($this->socket, $bytes, $wanted, MSG_DONTWAIT);
        } while ($got === false && hrtime(true) < $end);
        return $got;
    }

    /**
     * Reads like Source::read(). Wire does not implement the interface, so that short replies do
     * not load it.
     */
    public function read(int $wanted): string
    {
        // A signal handler may have forked since the request was sent.
        if (!$this->isOurs()) {
            throw $this->lost();
        }
        if ($this->socket === null) {
            $bytes = @fread($this->stream, $wanted);
            return $bytes === '' || $bytes === false ? throw $this->lost() : $bytes;
        }
        do {
            $got = @socket_recv($this->socket, $bytes, $wanted, 0);
        } while ($got === false && $this->isInterrupted() && $this->isOurs());
        return $got ? $bytes : throw $this->lost($got === false && $this->isLate());
    }

    /** Returns whether the current process opened this connection, rather than its parent. */
    public function isOurs(): bool
    {
        return $this->process === getmypid();
    }

    /**
     * Returns whether the connection becomes readable within `$timeout` seconds. Null means no
     * limit.
     *
     * @throws ConnectionException if PHP cannot wait for this stream
     */
    public function waits(?float $timeout): bool
    {
        return Waits::forWire($this, $timeout, $this->options->timeout);
    }

    /** Sets the timeout for reads and writes in seconds, where 0 means no limit. */
    public function limit(float $seconds): void
    {
        if (!$this->isOurs()) {
            // The timeout is a property of the socket, so changing it would also affect the
            // parent's waits.
            return;
        }
        $time = ['sec' => (int) $seconds, 'usec' => (int) (($seconds - (int) $seconds) * 1e6)];
        if ($this->socket !== null) {
            socket_set_option($this->socket, SOL_SOCKET, SO_RCVTIMEO, $time);
            socket_set_option($this->socket, SOL_SOCKET, SO_SNDTIMEO, $time);
        } else {
            // PHP's streams have no unlimited timeout, so use about 31 years.
            stream_set_timeout($this->stream, $seconds <= 0.0 ? 1_000_000_000 : $time['sec'], $time['usec']);
        }
    }

    /** Returns whether a signal interrupted the socket's last call. */
    public function isInterrupted(): bool
    {
        return $this->socket !== null && socket_last_error($this->socket) === SOCKET_EINTR;
    }

    /** Returns whether the socket's last call timed out. */
    public function isLate(): bool
    {
        return $this->socket !== null && socket_last_error($this->socket) === SOCKET_EAGAIN;
    }

    /** Returns the exception that explains how the connection was lost. */
    public function lost(bool $isLate = false): ConnectionException
    {
        if (!$this->isOurs()) {
            return new ConnectionException("the connection to $this->address belongs to the parent process, as does the "
                . 'reply to the call that the fork interrupted');
        }
        $state = is_resource($this->stream) ? stream_get_meta_data($this->stream) : [];
        return $isLate || ($state['timed_out'] ?? false)
            ? new TimeoutException("no reply from $this->address within {$this->options->timeout} s")
            : new ConnectionException("lost the connection to $this->address: the server closed it");
    }

    /** Leaves a persistent connection open for the next request. Closes any other connection. */
    public function leave(): void
    {
        if ($this->kept === '' || !is_resource($this->stream) || !$this->isOurs()) {
            $this->close();
            return;
        }
        Kept::leave($this->stream, $this->kept);
    }

    public function close(): void
    {
        if (is_resource($this->stream)) {
            if ($this->address->scheme === 'tls' && !$this->isOurs()) {
                self::$inherited[] = $this->stream;
            } else {
                // Without TLS, this closes only the current process' descriptor.
                fclose($this->stream);
            }
        }
        // Free the name last, so that a signal handler that runs now does not find the stream that
        // is being closed.
        $this->kept === '' || Kept::free($this->kept);
    }
}
