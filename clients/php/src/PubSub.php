<?php

declare(strict_types=1);

namespace Undercroft;

use Undercroft\Connection\Connection;

/**
 * Subscriptions, and the messages that come: iterate over it, or ask for the next message.
 *
 * @implements \IteratorAggregate<int, Message>
 */
final class PubSub implements \IteratorAggregate
{
    private bool $isStopped = false;

    /** @param array<string, string|list<string>> $channels */
    public function __construct(private readonly Connection $connection, array $channels)
    {
        foreach ($channels as $kind => $names) {
            match (strtolower((string) $kind)) {
                'subscribe' => $this->subscribe(...(array) $names),
                'psubscribe' => $this->pSubscribe(...(array) $names),
                'ssubscribe' => $this->sSubscribe(...(array) $names),
                default => throw new ArgumentException("expected subscribe, psubscribe or ssubscribe, got '$kind'"),
            };
        }
    }

    public function subscribe(string ...$channels): void
    {
        $this->connection->send(['SUBSCRIBE', ...$channels]);
    }

    public function pSubscribe(string ...$patterns): void
    {
        $this->connection->send(['PSUBSCRIBE', ...$patterns]);
    }

    /** To channels of one hash slot of a cluster; publish to them by sPublish(). */
    public function sSubscribe(string ...$channels): void
    {
        $this->connection->send(['SSUBSCRIBE', ...$channels]);
    }

    public function unsubscribe(string ...$channels): void
    {
        $this->connection->send(['UNSUBSCRIBE', ...$channels]);
    }

    public function pUnsubscribe(string ...$patterns): void
    {
        $this->connection->send(['PUNSUBSCRIBE', ...$patterns]);
    }

    public function sUnsubscribe(string ...$channels): void
    {
        $this->connection->send(['SUNSUBSCRIBE', ...$channels]);
    }

    /**
     * Waits for the next message, also those of subscriptions. Null where none comes in so many seconds.
     *
     * @throws ConnectionException
     */
    public function next(?float $timeout = null): ?Message
    {
        if ($this->isStopped) {
            return null;
        }
        try {
            return Message::of($this->connection->receive($timeout));
        } catch (TimeoutException) {
            return null;
        }
    }

    /** Ends the subscriptions and the loop. */
    public function stop(): void
    {
        $this->isStopped = true;
        $this->connection->close();
    }

    /** The messages until stop(); those of subscriptions are left out. */
    public function getIterator(): \Generator
    {
        while (!$this->isStopped) {
            $message = $this->next();
            if ($message !== null && in_array($message->kind, ['message', 'pmessage', 'smessage'], true)) {
                yield $message;
            }
        }
    }

    public function __destruct()
    {
        $this->connection->close();
    }
}
