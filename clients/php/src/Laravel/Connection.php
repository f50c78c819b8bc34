<?php

declare(strict_types=1);

namespace Undercroft\Laravel;

use Closure;
use Illuminate\Contracts\Redis\Connection as Contract;
use Illuminate\Redis\Connections\Connection as Base;
use Illuminate\Redis\Events\CommandExecuted;
use Undercroft\Client;
use Undercroft\Pipeline;

/** A Laravel Redis connection, used by Laravel's cache, queue, locks and rate limiter. */
final class Connection extends Base implements Contract
{
    /** The commands queued between multi() and exec(). */
    private ?Pipeline $queue = null;

    public function __construct(Client $client)
    {
        $this->client = $client;
    }

    public function command($method, array $parameters = []): mixed
    {
        $start = microtime(true);
        $result = match (strtolower($method)) {
            'multi' => $this->queue = $this->client->transaction(),
            'exec' => $this->executed(),
            'discard' => $this->queue = null,
            'eval' => $this->script($parameters),
            default => ($this->queue ?? $this->client)->{$method}(...$parameters),
        };
        if (isset($this->events)) {
            $time = round((microtime(true) - $start) * 1000, 2);
            $this->event(new CommandExecuted($method, $parameters, $time, $this));
        }
        return $result;
    }

    /** @return Pipeline|list<mixed> */
    public function pipeline(?callable $callback = null): Pipeline|array
    {
        return $this->client->pipeline($callback);
    }

    /** @return Pipeline|list<mixed>|null */
    public function transaction(?callable $callback = null): Pipeline|array|null
    {
        return $this->client->transaction($callback);
    }

    public function createSubscription($channels, Closure $callback, $method = 'subscribe'): void
    {
        $this->client->pubSubLoop(
            [$method => array_values((array) $channels)],
            static function (object $message) use ($callback): void {
                $callback($message->payload, $message->channel);
            },
        );
    }

    /** Runs a command given as raw words. */
    public function executeRaw(array $words): mixed
    {
        return $this->client->execute($words);
    }

    private function executed(): ?array
    {
        $queue = $this->queue;
        $this->queue = null;
        return $queue?->execute();
    }

    private function script(array $parameters): mixed
    {
        return $this->queue !== null ? $this->queue->eval(...$parameters) : $this->client->eval(...$parameters);
    }
}
