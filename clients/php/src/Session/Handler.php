<?php

declare(strict_types=1);

namespace Undercroft\Session;

use Undercroft\Client;
use Undercroft\Connection\ClusterConnection;
use Undercroft\TimeoutException;
use Undercroft\UndercroftException;

/**
 * Sessions of PHP, one request of a session at a time:
 *
 *     session_set_save_handler(new Undercroft\Session\Handler($client), true);
 *     session_start();
 *
 * A request holds its session's lock from session_start() to its end, and releases it also after a fatal error. The
 * lock names its holder, and a request that waits asks every half second whether the holder is still there, and takes
 * the lock over where it is not. Where a server does not tell, the lock expires soon, and the server renews it while
 * the holder's second connection is open: see Holder. A request that has lost its lock does not write any more.
 *
 * A session that ends while a request waits for its lock stays ended: that request gets a new session with
 * `session.use_strict_mode`, and otherwise an empty one that it does not store.
 * The client has no serializer: PHP's `session.serialize_handler` says how sessions are written.
 */
final class Handler implements \SessionHandlerInterface, \SessionUpdateTimestampHandlerInterface
{
    /** How long is waited between two looks at a lock, in microseconds: at first, and at most. */
    private const FIRST = 1_000;
    private const MOST = 50_000;

    /** So often a waiting request looks for the lock's holder, in seconds. */
    private const LOOK = 0.5;

    /** Stores a session, or removes a lock, where the lock is ours. */
    private const WRITE = 'if redis.call("GET", KEYS[1]) ~= ARGV[1] then return 0 end '
        . 'redis.call("SETEX", KEYS[2], ARGV[2], ARGV[3]) return 1';
    private const RELEASE = 'if redis.call("GET", KEYS[1]) ~= ARGV[1] then return 0 end '
        . 'return redis.call("DEL", KEYS[1])';

    private ?Holder $holder = null;

    private string $locked = '';

    /** The process that has the lock, rather than one that it forks. */
    private int $process = 0;

    /** The session that ended while this request waited for its lock; it is not stored again. */
    private string $ended = '';

    /** How long this request waits at most for a session, also where PHP asks for it twice. */
    private float $end = 0.0;
    private string $wanted = '';

    private bool $isAtShutdown = false;

    /**
     * @param int|null $lifetime seconds that a session lives without being used; session.gc_maxlifetime where null
     * @param int $hold seconds after which a lock ends by itself
     * @param float $patience seconds that a request waits for another one of its session
     * @param float $lease seconds after which a killed request's lock ends where a server does not tell of connections
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

    /** @throws TimeoutException where another request keeps the session for too long */
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
            // The lock and the session may be of two servers.
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

    /** Nothing is left to be done: sessions end by themselves. */
    public function gc(int $max_lifetime): int|false
    {
        return 0;
    }

    /** PHP asks before read(), with `session.use_strict_mode`: after the wait, as the session may end meanwhile. */
    public function validateId(string $id): bool
    {
        try {
            $this->lock($id);
        } catch (TimeoutException) {
            // read() says so.
        }
        return $this->client->exists($this->prefix . $id) === 1;
    }

    /** A session that was read and not changed lives on. */
    public function updateTimestamp(string $id, string $data): bool
    {
        $this->client->expire($this->prefix . $id, $this->life());
        return true;
    }

    private function life(): int
    {
        // Servers refuse a time that their clocks cannot hold; this one is of 3,000 years.
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
        // PHP has given this request a new id.
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
                throw new TimeoutException("another request holds this session for more than $this->patience s");
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

    /** Takes the lock of a holder that is gone. */
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

    /** After a fatal error or an exception in write() PHP does not close the session, so its lock is still there. */
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
            // The server is down, or the store is gone, and the lock with this request's connection.
        }
    }
}
