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
 * The bytes of a connection in pure PHP: a stream over TCP, TLS or a unix socket, and its socket by PHP's extension
 * `sockets` where that is loaded, except for TLS.
 *
 * A forked child inherits its parent's connections, and must neither send nor read over them, as each process then
 * gets replies of the other one. So a Wire remembers its process.
 */
final class Wire
{
    /** @var list<resource> streams of TLS of the process that forked this one, as closing them ends them for both */
    private static array $inherited = [];

    /** The process that made it, or took it from an earlier request. */
    public readonly int $process;

    /**
     * @param resource $stream
     * @param string $kept what it is called among persistent ones; '' where it is none
     * @param bool $isReused whether a request before has used it
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

    /** Connects, or takes a connection that an earlier request has left in good order. */
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

    /** Sends all of a request. */
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

    /** Sends what the socket did not take at once. */
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

    /** Looks for bytes again and again for so many microseconds, without sleeping: so many as came, or false. */
    public function spin(mixed &$bytes, int $wanted, int $microseconds): int|false
    {
        $end = hrtime(true) + 1_000 * $microseconds;
        do {
            $got = @socket_recv($this->socket, $bytes, $wanted, MSG_DONTWAIT);
        } while ($got === false && hrtime(true) < $end);
        return $got;
    }

    /** As a parser's Source does, which is not loaded for short replies. */
    public function read(int $wanted): string
    {
        // A signal's handler may have forked since the request was sent.
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

    /** Whether this process made it, rather than one that forked this one. */
    public function isOurs(): bool
    {
        return $this->process === getmypid();
    }

    /**
     * Whether something can be read within so many seconds; null is without end.
     *
     * @throws ConnectionException where PHP cannot wait for this stream
     */
    public function waits(?float $timeout): bool
    {
        return Waits::forWire($this, $timeout, $this->options->timeout);
    }

    /** How long a read waits; 0 is without end. */
    public function limit(float $seconds): void
    {
        if (!$this->isOurs()) {
            // It is a property of the socket, and so of the parent's waits as well.
            return;
        }
        $time = ['sec' => (int) $seconds, 'usec' => (int) (($seconds - (int) $seconds) * 1e6)];
        if ($this->socket !== null) {
            socket_set_option($this->socket, SOL_SOCKET, SO_RCVTIMEO, $time);
            socket_set_option($this->socket, SOL_SOCKET, SO_SNDTIMEO, $time);
        } else {
            // Without a limit: PHP's streams have none that is longer.
            stream_set_timeout($this->stream, $seconds <= 0.0 ? 1_000_000_000 : $time['sec'], $time['usec']);
        }
    }

    /** Whether the socket's last call ended as a signal came. */
    public function isInterrupted(): bool
    {
        return $this->socket !== null && socket_last_error($this->socket) === SOCKET_EINTR;
    }

    /** Whether the socket's last call ended as its time was up. */
    public function isLate(): bool
    {
        return $this->socket !== null && socket_last_error($this->socket) === SOCKET_EAGAIN;
    }

    /** The exception that says how the connection was lost. */
    public function lost(bool $isLate = false): ConnectionException
    {
        if (!$this->isOurs()) {
            return new ConnectionException("the connection to $this->address is of the process that forked this one, "
                . 'and so is the reply to the call that the fork interrupted');
        }
        $state = is_resource($this->stream) ? stream_get_meta_data($this->stream) : [];
        return $isLate || ($state['timed_out'] ?? false)
            ? new TimeoutException("no answer from $this->address in {$this->options->timeout} s")
            : new ConnectionException("lost the connection to $this->address: the server closed it");
    }

    /** Leaves the connection to the next request, where it is persistent; otherwise it is closed. */
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
                // Without TLS this closes a child's descriptor alone.
                fclose($this->stream);
            }
        }
        // Last, so that a signal's handler that comes meanwhile does not find the stream that is about to be closed.
        $this->kept === '' || Kept::free($this->kept);
    }
}
