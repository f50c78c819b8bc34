<?php

declare(strict_types=1);

namespace Undercroft\Session;

use Undercroft\Client;
use Undercroft\Connection\ClusterConnection;
use Undercroft\TimeoutException;
use Undercroft\UndercroftException;

/**
 * A PHP session handler that runs one request of a session at a time:
 *
 *     session_set_save_handler(new Undercroft\Session\Handler($client), true);
 *     session_start();
 *
 * A request holds its session's lock from session_start() to the end of the request. The lock is
 * released even after a fatal error.
 *
 * The lock names its holder. A waiting request checks every half second whether the holder is still
 * alive, and takes over the lock of a dead holder. On a server that cannot report whether the
 * holder is alive, the lock expires after a few seconds, and the server itself renews the lock
 * while the holder's second connection is open (see Holder). A request that has lost its lock stops
 * writing.
 *
 * A session that is destroyed while a request waits for its lock stays destroyed. With
 * `session.use_strict_mode`, the waiting request gets a new session. Otherwise it gets an empty
 * session that is not stored.
 *
 * The client must not have a serializer, because PHP's `session.serialize_handler` determines the
 * format of sessions.
 */
final class Handler implements \SessionHandlerInterface, \SessionUpdateTimestampHandlerInterface
{
    /** The first and the longest pause between two attempts to take the lock, in microseconds. */
    private const FIRST = 1_000;
    private const MOST = 50_000;

    /**
     * The interval in seconds at which a waiting request checks whether the lock's holder is alive.
     */
    private const LOOK = 0.5;

    /** Lua scripts that store a session or remove its lock, if this request holds the lock. */
    private const WRITE = 'if redis.call("GET", KEYS[1]) ~= ARGV[1] then return 0 end '
        . 'redis.call("SETEX", KEYS[2], ARGV[2], ARGV[3]) return 1';
    private const RELEASE = 'if redis.call("GET", KEYS[1]) ~= ARGV[1] then return 0 end '
        . 'return redis.call("DEL", KEYS[1])';

    private ?Holder $holder = null;

    private string $locked = '';

    /** The id of the process that took the lock. Forked children must not release the lock. */
    private int $process = 0;

    /**
     * The session that was destroyed while this request waited for its lock. It must not be stored
     * again.
     */
    private string $ended = '';

    /**
     * The time until which this request waits for a session. The time does not change if PHP asks
     * for the same session twice.
     */
    private float $end = 0.0;
    private string $wanted = '';

    private bool $isAtShutdown = false;

    /**
     * @param int|null $lifetime seconds until an unused session expires; null for
     *     session.gc_maxlifetime
     * @param int $hold seconds after which a lock expires
     * @param float $patience seconds that a request waits for another request in the same session
     * @param float $lease seconds until a killed request's lock expires, on a server that cannot
     *     report whether the request's connection is still open
     */
    public function __construct(
        private readonly Client $client,
        private readonly string $prefix = 'session:',
        private readonly ?int $lifetime = null,
        private readonly int $hold = 60,
        private readonly float $patience = 30.0,
        private readonly float $lease = 2.8,
    ) {
    }

    public function open(string $path, string $name): bool
    {
        return true;
    }

    public function close(): bool
    {
        $this->wanted = $this->ended = '';
        [$locked, $this->locked] = [$this->locked, ''];
        try {
            if ($locked !== '' && $this->process === getmypid()) {
                $this->client->eval(self::RELEASE, 1, $this->lockOf($locked), $this->holder->token);
            }
        } finally {
            $this->holder?->end();
            $this->holder = null;
        }
        return true;
    }

    /** @throws TimeoutException if another request holds the session for too long */
    public function read(string $id): string|false
    {
        $this->lock($id);
        return $this->client->get($this->prefix . $id) ?? '';
    }

    public function write(string $id, string $data): bool
    {
        if ($this->ended === $id) {
            return true;
        }
        if ($this->locked !== $id || $this->process !== getmypid()) {
            return false;
        }
        if ($this->client->connection() instanceof ClusterConnection) {
            // The lock and the session may be on different servers of the cluster.
            return $this->isOurs($id) && $this->client->setEx($this->prefix . $id, $this->life(), $data);
        }
        $keys = [$this->lockOf($id), $this->prefix . $id];
        return $this->client->eval(self::WRITE, 2, ...$keys, ...[$this->holder->token, $this->life(), $data]) === 1;
    }

    public function destroy(string $id): bool
    {
        $this->client->del($this->prefix . $id);
        return true;
    }

    /** Does nothing: sessions expire without garbage collection. */
    public function gc(int $max_lifetime): int|false
    {
        return 0;
    }

    /**
     * Returns whether a session exists. With `session.use_strict_mode`, PHP calls this method
     * before read(). Waits for the lock first, because the session may be destroyed during the
     * wait.
     */
    public function validateId(string $id): bool
    {
        try {
            $this->lock($id);
        } catch (TimeoutException) {
            // read() waits for the same lock and reports the timeout.
        }
        return $this->client->exists($this->prefix . $id) === 1;
    }

    /** Extends the lifetime of a session that was read but not changed. */
    public function updateTimestamp(string $id, string $data): bool
    {
        $this->client->expire($this->prefix . $id, $this->life());
        return true;
    }

    private function life(): int
    {
        // Servers refuse expiry times that their clocks cannot represent. This limit is about 3,000
        // years.
        return min(max(1, $this->lifetime ?? (int) ini_get('session.gc_maxlifetime')), 100_000_000_000);
    }

    private function lockOf(string $id): string
    {
        return $this->prefix . $id . ':lock';
    }

    private function isOurs(string $id): bool
    {
        return $this->client->get($this->lockOf($id)) === $this->holder->token;
    }

    private function lock(string $id): void
    {
        if ($this->locked === $id) {
            return;
        }
        // PHP has given this request a new session id, so release the old session's lock.
        $this->locked === '' || $this->close();
        if ($this->wanted !== $id) {
            [$this->wanted, $this->end] = [$id, microtime(true) + $this->patience];
        }
        $lock = $this->lockOf($id);
        $holder = new Holder($this->client, $lock, $this->hold, $this->lease);
        $pause = self::FIRST;
        $look = microtime(true) + self::LOOK;
        $wasThere = null;
        while (!$this->client->set($lock, $holder->token, ['nx', 'px' => $holder->life]) || !$holder->begin()) {
            $wasThere = $wasThere || $this->client->exists($this->prefix . $id) === 1;
            $now = microtime(true);
            if ($now >= $look) {
                $look = $now + self::LOOK;
                if ($this->takesOver($lock, $holder) && $holder->begin()) {
                    break;
                }
            }
            if ($now >= $this->end) {
                throw new TimeoutException("another request has held this session for more than $this->patience s");
            }
            usleep(random_int(intdiv($pause, 2), $pause));
            $pause = min(2 * $pause, self::MOST);
        }
        [$this->holder, $this->locked, $this->process] = [$holder, $id, getmypid()];
        $this->ended = $wasThere && $this->client->exists($this->prefix . $id) === 0 ? $id : '';
        if (!$this->isAtShutdown) {
            $this->isAtShutdown = true;
            register_shutdown_function($this->shutDown(...));
        }
    }

    /** Takes over the lock if the lock's holder is dead. */
    private function takesOver(string $lock, Holder $holder): bool
    {
        $held = (string) $this->client->get($lock);
        if ($held === '' || Holder::isThere($this->client, $lock, $held)) {
            return false;
        }
        return $this->client->transaction(function ($queue, $client) use ($lock, $holder, $held): void {
            if ($client->get($lock) === $held) {
                $queue->set($lock, $holder->token, ['px' => $holder->life]);
            }
        }, watch: $lock) === [true];
    }

    /**
     * Releases the lock at shutdown, because PHP does not close the session after a fatal error or
     * an exception in write().
     */
    private function shutDown(): void
    {
        if ($this->locked === '' || $this->process !== getmypid()) {
            return;
        }
        try {
            if (session_status() === PHP_SESSION_ACTIVE) {
                session_write_close();
            }
            $this->close();
        } catch (UndercroftException) {
            // The server or store is unreachable. The lock ends with this request's connection or
            // expires.
        }
    }
}
