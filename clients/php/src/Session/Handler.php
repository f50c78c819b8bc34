<?php

declare(strict_types=1);

namespace Undercroft\Session;

use Undercroft\Client;
use Undercroft\TimeoutException;

/**
 * Sessions of PHP, one request of a session at a time:
 *
 *     session_set_save_handler(new Undercroft\Session\Handler($client), true);
 *     session_start();
 *
 * A request holds its session's lock from session_start() to its end. The lock ends by itself after $hold seconds, so
 * that a request that was killed does not keep others out; a request that has lost it so does not write any more.
 * The client has no serializer: PHP's `session.serialize_handler` says how sessions are written.
 */
final class Handler implements \SessionHandlerInterface, \SessionUpdateTimestampHandlerInterface
{
    /** How long is waited between two looks at a lock, in microseconds: at first, and at most. */
    private const FIRST = 1_000;
    private const MOST = 50_000;

    private string $token = '';

    private string $locked = '';

    /**
     * @param int|null $lifetime seconds that a session lives without being used; session.gc_maxlifetime where null
     * @param int $hold seconds after which a lock ends by itself
     * @param float $patience seconds that a request waits for another one of its session
     */
    public function __construct(
        private readonly Client $client,
        private readonly string $prefix = 'session:',
        private readonly ?int $lifetime = null,
        private readonly int $hold = 60,
        private readonly float $patience = 30.0,
    ) {
    }

    public function open(string $path, string $name): bool
    {
        return true;
    }

    public function close(): bool
    {
        if ($this->locked !== '') {
            $lock = $this->lockOf($this->locked);
            $this->locked = '';
            $this->whileOurs($lock, static fn ($queue) => $queue->del($lock));
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
        $set = fn ($queue) => $queue->setEx($this->prefix . $id, $this->life(), $data);
        return $this->whileOurs($this->lockOf($id), $set);
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

    public function validateId(string $id): bool
    {
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
        return max(1, $this->lifetime ?? (int) ini_get('session.gc_maxlifetime'));
    }

    private function lockOf(string $id): string
    {
        return $this->prefix . $id . ':lock';
    }

    private function lock(string $id): void
    {
        $token = bin2hex(random_bytes(16));
        $end = microtime(true) + $this->patience;
        $pause = self::FIRST;
        while (!$this->client->set($this->lockOf($id), $token, ['nx', 'px' => $this->hold * 1000])) {
            if (microtime(true) >= $end) {
                throw new TimeoutException("another request holds this session for more than $this->patience s");
            }
            usleep(random_int(intdiv($pause, 2), $pause));
            $pause = min(2 * $pause, self::MOST);
        }
        [$this->token, $this->locked] = [$token, $id];
    }

    /** Runs commands where the lock is still ours, all at one moment with that look. */
    private function whileOurs(string $lock, callable $body): bool
    {
        $this->client->watch($lock);
        if ($this->client->get($lock) !== $this->token) {
            $this->client->unwatch();
            return false;
        }
        $queue = $this->client->transaction();
        $body($queue);
        return $queue->execute() !== null;
    }
}
