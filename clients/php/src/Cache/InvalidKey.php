<?php

declare(strict_types=1);

namespace Undercroft\Cache;

/** Thrown for a cache key or time to live that PSR-6 or PSR-16 does not allow. */
final class InvalidKey extends \InvalidArgumentException implements
    \Psr\Cache\InvalidArgumentException,
    \Psr\SimpleCache\InvalidArgumentException
{
    /** Returns the key if it is a nonempty string without any of the characters {}()/\@: */
    public static function check(mixed $key): string
    {
        if (!is_string($key)) {
            throw new self('expected a string as key, got ' . get_debug_type($key));
        }
        if ($key === '' || strpbrk($key, '{}()/\\@:') !== false) {
            throw new self("expected a key of at least one character and none of {}()/\\@:, got '$key'");
        }
        return $key;
    }
}
