<?php

declare(strict_types=1);

namespace Undercroft;

/** A message of a channel. */
final class Message
{
    /**
     * @param string $kind message or pmessage; subscribe, unsubscribe and their like tell of subscriptions
     * @param string|null $pattern that the channel matches, of a pmessage
     * @param string|int|null $payload the text; of subscriptions, how many there are now
     */
    public function __construct(
        public readonly string $kind,
        public readonly ?string $pattern,
        public readonly ?string $channel,
        public readonly string|int|null $payload,
    ) {
    }

    /** @param list<mixed> $reply */
    public static function of(array $reply): self
    {
        return $reply[0] === 'pmessage'
            ? new self($reply[0], $reply[1], $reply[2], $reply[3])
            : new self($reply[0], null, $reply[1], $reply[2]);
    }
}
