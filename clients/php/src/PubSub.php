<?php

declare(strict_types=1);

namespace Undercroft;

use Undercroft\Connection\Connection;

/**
 * Receives messages from subscriptions. Iterate over this object, or call next() for each message.
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

    /**
     * Subscribes to sharded channels, all of which must have the same hash slot in a cluster.
     * Publish to them with sPublish().
     */
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
     * Waits for the next message, which may also be the confirmation of a subscription. Returns
     * null if no message arrives within `$timeout` seconds.
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

    /** Ends all subscriptions and the loop over the messages. */
    public function stop(): void
    {
        $this->isStopped = true;
        $this->connection->close();
    }

    /** Yields messages until stop() is called. Subscription confirmations are skipped. */
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
