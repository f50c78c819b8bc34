<?php

declare(strict_types=1);

namespace Undercroft\Channels;

/**
 * A message that this process holds (Channel::hold()). Destroying it returns the message to the
 * front of the channel, except in a forked child: the message belongs to the parent.
 */
final class Delivery
{
    private bool $isHeld = true;

    private readonly int $process;

    /**
     * @internal
     *
     * @param \Closure(bool): bool $end ends the hold: returns the message to the channel, or deletes
     *     it; returns false if this process no longer held the message
     */
    public function __construct(public readonly Received $message, private readonly \Closure $end)
    {
        $this->process = getmypid();
    }

    /**
     * Acknowledges the message, which deletes it. Returns false if it was no longer held: the channel
     * was deleted, the hold has ended, or, on a server, the message went to another consumer.
     */
    public function ack(): bool
    {
        return $this->end(false);
    }

    /** Returns the message to the front of the channel. The result is that of ack(). */
    public function release(): bool
    {
        return $this->end(true);
    }

    private function end(bool $goesBack): bool
    {
        if ($this->process !== getmypid()) {
            throw new \LogicException("this delivery belongs to process $this->process, which received the message: "
                . 'acknowledge or release it there, or receive another message in this process');
        }
        if (!$this->isHeld) {
            return false;
        }
        $this->isHeld = false;
        return ($this->end)($goesBack);
    }

    public function __destruct()
    {
        if ($this->isHeld && $this->process === getmypid()) {
            $this->end(true);
        }
    }
}
