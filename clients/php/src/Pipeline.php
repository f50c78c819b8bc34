<?php

declare(strict_types=1);

namespace Undercroft;

use Undercroft\Commands\Replies;
use Undercroft\Connection\Connection;
use Undercroft\Serializer\Serializer;

/**
 * Commands that are sent together: every method of a client, which queues its command and returns this object.
 *
 * As a transaction they run all at one moment, and nobody sees some of them done and others not.
 */
final class Pipeline
{
    use Commands\Base;
    use Commands\Methods;

    /** @var list<list<mixed>> */
    private array $commands = [];

    /** @var list<string|callable|null> what becomes of the replies */
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

    /** Queues a command by its words, as they are. */
    public function command(array $words): self
    {
        return $this->call(array_values($words));
    }

    /**
     * Sends what is queued and returns the results, in the order of the commands; null where a transaction did not run,
     * as a watched key was changed.
     *
     * @param bool $throws whether the first error is thrown, when all commands have run; otherwise errors are returned
     *     in their places, as ServerException objects
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

    /** The same as execute(), as phpredis calls it. */
    public function exec(bool $throws = true): ?array
    {
        return $this->execute($throws);
    }

    /** Forgets what is queued. */
    public function discard(): void
    {
        $this->commands = $this->shapes = [];
    }

    /** How many commands are queued. */
    public function count(): int
    {
        return count($this->commands);
    }

    protected function call(array $words, string $shape = '', string|int|float|null $wait = null): self
    {
        $this->commands[] = $words;
        // Without a serializer a value is what it is.
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
