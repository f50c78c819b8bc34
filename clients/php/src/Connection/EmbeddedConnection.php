<?php

declare(strict_types=1);

namespace Undercroft\Connection;

use Undercroft\ArgumentException;
use Undercroft\ConnectionException;
use Undercroft\Native\Store;
use Undercroft\TimeoutException;

/**
 * A connection to a store in shared memory, through the extension. It needs neither a server nor a
 * protocol, because a command is a function call.
 */
final class EmbeddedConnection implements Connection
{
    /**
     * The open store, for calls that need not build a list of words. Null until the next call opens
     * the store.
     */
    public ?Store $store = null;

    /** @var array<string, array<string, true>> the subscribed channels and patterns */
    private array $subscribed = ['subscribe' => [], 'psubscribe' => []];

    /** @var list<list<mixed>> subscription confirmations to return before the next message */
    private array $told = [];

    /** Whether keys are watched. close() ends the watches. */
    private bool $isPinned = false;

    public function __construct(private readonly Address $address, private readonly Options $options)
    {
        $this->open();
    }

    public function open(): Store
    {
        try {
            $limit = $this->options->timeout > 0.0 ? ['timeout' => $this->options->timeout] : [];
            return $this->store ??= new Store($this->address->path, $this->options->store + $limit);
        } catch (\TypeError | \ValueError $error) {
            throw new ArgumentException($error->getMessage(), 0, $error);
        }
    }

    public function execute(array $words, ?float $wait = null): mixed
    {
        try {
            return ($this->store ?? $this->open())->execute($words);
        } catch (\TypeError | \ValueError $error) {
            throw new ArgumentException($error->getMessage());
        }
    }

    public function pipeline(array $commands): array
    {
        try {
            return $commands === [] ? [] : ($this->store ?? $this->open())->pipeline($commands);
        } catch (\TypeError | \ValueError $error) {
            throw new ArgumentException($error->getMessage());
        }
    }

    public function transaction(array $commands): ?array
    {
        if ($commands === []) {
            // An empty transaction must still report whether a watched key changed.
            $this->execute(['MULTI']);
            $this->isPinned = false;
            return $this->execute(['EXEC']);
        }
        try {
            return ($this->store ?? $this->open())->transaction($commands);
        } catch (\TypeError | \ValueError $error) {
            throw new ArgumentException($error->getMessage());
        } finally {
            $this->isPinned = false;
        }
    }

    public function send(array ...$commands): void
    {
        foreach ($commands as $words) {
            $this->subscription($words);
        }
    }

    private function subscription(array $words): void
    {
        $name = strtolower((string) array_shift($words));
        $kind = str_contains($name, 'psub') || $name === 'punsubscribe' ? 'psubscribe' : 'subscribe';
        if (!in_array($name, ['subscribe', 'psubscribe', 'unsubscribe', 'punsubscribe'], true)) {
            throw new ArgumentException("expected a subscription, got $name");
        }
        $isNew = $name === $kind;
        if (!$isNew && $words === []) {
            $words = array_map(strval(...), array_keys($this->subscribed[$kind]));
        }
        $lists = $kind === 'subscribe' ? [$words, []] : [[], $words];
        $isNew ? $this->open()->subscribe(...$lists) : $this->open()->unsubscribe(...$lists);
        foreach ($words as $word) {
            if ($isNew) {
                $this->subscribed[$kind][$word] = true;
            } else {
                unset($this->subscribed[$kind][$word]);
            }
            $count = count($this->subscribed['subscribe']) + count($this->subscribed['psubscribe']);
            $this->told[] = [$name, $word, $count];
        }
    }

    public function receive(?float $timeout): mixed
    {
        if ($this->told !== []) {
            return array_shift($this->told);
        }
        if ($this->store === null) {
            throw new ConnectionException("$this->address is closed; subscribe before waiting for messages");
        }
        return $this->store->message($timeout) ?? throw new TimeoutException("no message within $timeout s");
    }

    public function pin(bool $isPinned): void
    {
        $this->isPinned = $isPinned;
    }

    public function isPinned(): bool
    {
        return $this->isPinned;
    }

    public function another(): Connection
    {
        return new self($this->address, $this->options);
    }

    public function hasMaps(): bool
    {
        return true;
    }

    public function close(): void
    {
        // Clear the property first: a signal handler that runs now must not use the store that is
        // being closed.
        [$store, $this->store] = [$this->store, null];
        $store?->close();
        $this->isPinned = false;
        $this->told = [];
        $this->subscribed = ['subscribe' => [], 'psubscribe' => []];
    }
}
