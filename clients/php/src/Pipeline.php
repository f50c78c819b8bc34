<?php

declare(strict_types=1);

namespace Undercroft;

use Undercroft\Commands\Replies;
use Undercroft\Connection\Connection;
use Undercroft\Serializer\Serializer;

/**
 * A queue of commands that are sent together. It has all of a client's methods, each of which
 * queues its command and returns this object.
 *
 * A transaction runs its commands atomically: other clients see either all of its changes or none.
 */
final class Pipeline
{
    use Commands\Base;
    use Commands\Methods;

    /** @var list<list<mixed>> */
    private array $commands = [];

    /** @var list<string|callable|null> how to convert each reply */
    private array $shapes = [];

    /** @param array<string, Command> $custom */
    public function __construct(
        private readonly Connection $connection,
        string $prefix,
        ?Serializer $serializer,
        array $custom,
        private readonly bool $isTransaction,
    ) {
        $this->prefix = $prefix;
        $this->serializer = $serializer;
        $this->custom = $custom;
    }

    public function get(string $key): self
    {
        $this->commands[] = ['GET', $this->prefix . $key];
        $this->shapes[] = $this->serializer === null ? '' : 'value';
        return $this;
    }

    public function set(string $key, mixed $value, mixed ...$options): self
    {
        if ($options !== []) {
            return $this->setWith($key, $value, $options);
        }
        $value = $this->serializer === null ? $value : $this->serializer->encode($value);
        $this->commands[] = ['SET', $this->prefix . $key, $value];
        $this->shapes[] = 'bool';
        return $this;
    }

    /** Queues a command given as raw words. */
    public function command(array $words): self
    {
        return $this->call(array_values($words));
    }

    /**
     * Sends the queued commands and returns their results in order. Returns null if a transaction
     * did not run because a watched key changed.
     *
     * @param bool $throws whether to throw the first error after all commands have run; otherwise
     *     each error is returned in the place of its result, as a ServerException object
     *
     * @return list<mixed>|null
     *
     * @throws ServerException
     */
    public function execute(bool $throws = true): ?array
    {
        $this->isTransaction && Watches::check($this->connection, 'EXEC', $this);
        [$commands, $shapes] = [$this->commands, $this->shapes];
        $this->commands = $this->shapes = [];
        try {
            $replies = $this->isTransaction
                ? $this->connection->transaction($commands)
                : $this->connection->pipeline($commands);
        } finally {
            $this->isTransaction && Watches::end($this->connection);
        }
        if ($replies === null) {
            return null;
        }
        $hasMaps = $this->connection->hasMaps();
        foreach ($replies as $at => $reply) {
            if ($reply instanceof ServerException) {
                if ($throws) {
                    throw $reply;
                }
                continue;
            }
            $shape = $shapes[$at];
            if ($shape === 'bool') {
                $replies[$at] = $reply === 1 || $reply === 'OK' || $reply === true;
            } elseif ($shape instanceof \Closure) {
                $replies[$at] = $shape($reply);
            } elseif ($shape !== '') {
                $replies[$at] = Replies::shaped($reply, $shape, $commands[$at], $hasMaps, $this->serializer);
            }
        }
        return $replies;
    }

    /** Sends the queued commands. This is the phpredis name for execute(). */
    public function exec(bool $throws = true): ?array
    {
        return $this->execute($throws);
    }

    /** Discards the queued commands. */
    public function discard(): void
    {
        $this->commands = $this->shapes = [];
    }

    /** Returns the number of queued commands. */
    public function count(): int
    {
        return count($this->commands);
    }

    protected function call(array $words, string $shape = '', string|int|float|null $wait = null): self
    {
        $this->commands[] = $words;
        // Without a serializer, a value needs no conversion.
        $this->shapes[] = $shape === 'value' && $this->serializer === null ? '' : $shape;
        return $this;
    }

    protected function converted(array $words, ?callable $convert): self
    {
        $this->commands[] = $words;
        $this->shapes[] = $convert === null ? '' : $convert(...);
        return $this;
    }
}
