<?php

declare(strict_types=1);

namespace Undercroft\Channels;

use Undercroft\Connection\EmbeddedConnection;
use Undercroft\Native\Channel;
use Undercroft\Native\Held;
use Undercroft\Objects;

/** A channel in a store that this process maps, through the extension. */
final class EmbeddedLink implements Link
{
    private readonly Channel $channel;

    public function __construct(EmbeddedConnection $connection, string $name, int $bound, int $ttl)
    {
        $this->channel = new Channel($connection->open(), $name, $bound, $ttl);
    }

    public function send(string $kind, string $bytes, ?float $timeout): bool
    {
        return ($kind === 's' ? $this->channel->sendText($bytes, $timeout) : $this->channel->send($bytes, $timeout))
            ?? throw new ChannelClosed();
    }

    public function sendArray(string $dtype, array $shape, string $items, ?float $timeout): bool
    {
        // Check the array with the same errors as over a server.
        Objects::described($dtype, $shape, $items);
        return $this->channel->sendArray($dtype, $shape, $items, $timeout) ?? throw new ChannelClosed();
    }

    public function receive(?float $timeout): ?Received
    {
        $message = $this->channel->receive($timeout);
        return match ($message) {
            null => null,
            false => throw new ChannelClosed(),
            default => new Received(...$message),
        };
    }

    public function hold(?float $timeout): ?Delivery
    {
        $held = $this->channel->hold($timeout);
        if (!$held instanceof Held) {
            return $held === null ? null : throw new ChannelClosed();
        }
        return new Delivery(new Received(...$held->message()), $held->end(...));
    }

    public function length(): int
    {
        return $this->channel->length();
    }

    public function isClosed(): bool
    {
        return $this->channel->isClosed();
    }

    public function close(): void
    {
        $this->channel->close();
    }

    public function delete(): void
    {
        $this->channel->delete();
    }
}
