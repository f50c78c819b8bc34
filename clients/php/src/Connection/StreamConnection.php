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

/**
 * A connection in pure PHP, over one of its streams: TCP, TLS or a unix socket.
 *
 * It is made when the first command runs, and made anew when it was lost. A command whose reply did not come is sent
 * once more only where that is safe: nothing of it had been sent, or it changes nothing.
 */
final class StreamConnection implements Connection, Source
{
    /** A connection that rested for more than so many seconds is looked at before it is used. */
    private const RESTED = 1;

    /** Most replies are no longer. */
    private const SHORT = 16_384;

    /** @var resource|null */
    private $stream = null;

    private Parser $parser;

    /** When the last reply came, in seconds. */
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
        $request = Encoder::command($words);
        if ($this->stream === null || time() - $this->used > self::RESTED) {
            $this->ready();
        }
        if ($wait !== null) {
            return $this->patiently($request, $words, $wait);
        }
        if (@fwrite($this->stream, $request) === strlen($request)) {
            $bytes = @fread($this->stream, self::SHORT);
        } else {
            $bytes = false;
        }
        if ($bytes === '' || $bytes === false) {
            $bytes = $this->again($request, $words);
        }
        $this->used = time();
        // A string without a line's end in it, which is most often the reply.
        $lines = explode("\r\n", $bytes, 4);
        if (isset($lines[2]) && $lines[2] === '' && !isset($lines[3]) && $lines[0] === '$' . strlen($lines[1])) {
            return $lines[1];
        }
        if ($bytes === "+OK\r\n") {
            return 'OK';
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
        $executed = array_pop($replies);
        if ($executed instanceof ServerException) {
            // The first command that was refused says more than EXEC does.
            foreach ($replies as $reply) {
                if ($reply instanceof ServerException) {
                    throw $reply;
                }
            }
            throw $executed;
        }
        return $executed;
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
        $this->stream = null;
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
        $bytes = @fread($this->stream, $wanted);
        if ($bytes === '' || $bytes === false) {
            throw $this->lost();
        }
        return $bytes;
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

    /** Sends once more what may be sent once more, and returns the bytes that come. */
    private function again(string $request, array $words): string
    {
        $error = $this->lost();
        $mayRepeat = $this->options->retry && !$this->wasPinned && !$error instanceof TimeoutException
            && isset(Table::READS[strtoupper((string) $words[0])]);
        if (!$mayRepeat) {
            throw $error;
        }
        $this->write($request);
        $bytes = @fread($this->stream, self::SHORT);
        return $bytes === '' || $bytes === false ? throw $this->lost() : $bytes;
    }

    /** Closes the connection and returns the exception that says how it was lost. */
    private function lost(): ConnectionException
    {
        $state = is_resource($this->stream) ? stream_get_meta_data($this->stream) : [];
        $this->wasPinned = $this->isPinned;
        $this->close();
        return $state['timed_out'] ?? false
            ? new TimeoutException("no answer from $this->address in {$this->options->timeout} s")
            : new ConnectionException("lost the connection to $this->address: the server closed it");
    }

    private function write(string $request): void
    {
        if ($this->stream === null || time() - $this->used > self::RESTED) {
            $this->ready();
        }
        if (@fwrite($this->stream, $request) !== strlen($request)) {
            throw $this->lost();
        }
        $this->used = time();
    }

    /** Runs a command that waits for itself: BLPOP and its like. */
    private function patiently(string $request, array $words, float $wait): mixed
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
        // Without a limit: PHP has none that is longer.
        $seconds = $seconds <= 0.0 ? 1e9 : $seconds;
        stream_set_timeout($this->stream, (int) $seconds, (int) (($seconds - (int) $seconds) * 1e6));
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
        $address = $this->address;
        $commands = [];
        if ($this->options->protocol === 3) {
            $login = $address->password === null ? [] : ['AUTH', $address->username ?? 'default', $address->password];
            $commands[] = ['HELLO', 3, ...$login];
        } elseif ($address->password !== null) {
            $commands[] = $address->username === null
                ? ['AUTH', $address->password]
                : ['AUTH', $address->username, $address->password];
        }
        if ($address->database !== 0) {
            $commands[] = ['SELECT', $address->database];
        }
        if ($this->options->clientName !== '') {
            $commands[] = ['CLIENT', 'SETNAME', $this->options->clientName];
        }
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
