<?php

declare(strict_types=1);

namespace Undercroft\Cache;

use Psr\Cache\CacheItemInterface;

/** An item of a cache Pool. */
final class Item implements CacheItemInterface
{
    /** The expiry time in seconds since 1970, or null if the item does not expire. */
    private ?float $end = null;

    public function __construct(private readonly string $key, private mixed $value, private readonly bool $isHit)
    {
    }

    public function getKey(): string
    {
        return $this->key;
    }

    public function get(): mixed
    {
        return $this->value;
    }

    public function isHit(): bool
    {
        return $this->isHit;
    }

    public function set($value): static
    {
        $this->value = $value;
        return $this;
    }

    public function expiresAt($expiration): static
    {
        if ($expiration !== null && !$expiration instanceof \DateTimeInterface) {
            throw new InvalidKey('expected a DateTimeInterface or null, got ' . get_debug_type($expiration));
        }
        $this->end = $expiration === null ? null : (float) $expiration->format('U.u');
        return $this;
    }

    public function expiresAfter($time): static
    {
        if ($time !== null && !is_int($time) && !$time instanceof \DateInterval) {
            throw new InvalidKey('expected seconds, a DateInterval or null, got ' . get_debug_type($time));
        }
        $time = Store::milliseconds($time);
        $this->end = $time === null ? null : microtime(true) + $time / 1000;
        return $this;
    }

    /** Returns the remaining time to live in milliseconds, or null if the item does not expire. */
    public function left(): ?int
    {
        return $this->end === null ? null : Store::bounded(($this->end - microtime(true)) * 1000);
    }

    /** Returns a copy of a deferred item. getItem() returns such a copy before the commit. */
    public function found(): self
    {
        $item = new self($this->key, $this->value, true);
        $item->end = $this->end;
        return $item;
    }
}
