<?php

declare(strict_types=1);

namespace Undercroft;

/** A message received from a channel. */
final class Message
{
    /**
     * @param string $kind message or pmessage, or a confirmation such as subscribe or unsubscribe
     * @param string|null $pattern the pattern that matched the channel, for a pmessage
     * @param string|int|null $payload the text; for a confirmation, the number of active
     *     subscriptions
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
