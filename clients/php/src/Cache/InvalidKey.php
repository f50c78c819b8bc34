<?php

declare(strict_types=1);

namespace Undercroft\Cache;

/** A key or a time to live that the interfaces of caches do not allow. */
final class InvalidKey extends \InvalidArgumentException implements
    \Psr\Cache\InvalidArgumentException,
    \Psr\SimpleCache\InvalidArgumentException
{
    /** Checks a key: a string of at least one character, none of {}()/\@: in it. */
    public static function check(mixed $key): string
    {
        if (!is_string($key)) {
            throw new self('expected a string as key, got ' . get_debug_type($key));
        }
        if ($key === '' || strpbrk($key, '{}()/\\@:') !== false) {
            throw new self("expected a key of at least one character without any of {}()/\\@:, got '$key'");
        }
        return $key;
    }
}
