<?php

declare(strict_types=1);

namespace Undercroft\Cache;

use Psr\SimpleCache\CacheInterface;
use Undercroft\Client;
use Undercroft\Serializer\Serializer;

/**
 * A PSR-16 cache: `new SimpleCache($client, 'php')`.
 *
 * The serializer must be chosen explicitly, because `php` and `igbinary` create objects from stored
 * bytes. The client must not have a serializer.
 */
final class SimpleCache implements CacheInterface
{
    private readonly Store $store;

    public function __construct(Client $client, string|Serializer $serializer, string $prefix = 'cache:')
    {
        $this->store = new Store($client, $serializer, $prefix);
    }

    public function get($key, $default = null): mixed
    {
        $key = InvalidKey::check($key);
        $found = $this->store->fetch([$key]);
        return $found === [] ? $default : $found[$key][0];
    }

    public function set($key, $value, $ttl = null): bool
    {
        return $this->store->put(InvalidKey::check($key), $value, self::time($ttl));
    }

    public function delete($key): bool
    {
        return $this->store->remove([InvalidKey::check($key)]);
    }

    public function clear(): bool
    {
        return $this->store->clear();
    }

    public function getMultiple($keys, $default = null): iterable
    {
        $keys = self::keys($keys);
        $found = $this->store->fetch($keys);
        $values = [];
        foreach ($keys as $key) {
            $values[$key] = isset($found[$key]) ? $found[$key][0] : $default;
        }
        return $values;
    }

    public function setMultiple($values, $ttl = null): bool
    {
        if (!is_iterable($values)) {
            throw new InvalidKey('expected an array or a Traversable of values, got ' . get_debug_type($values));
        }
        $time = self::time($ttl);
        $items = [];
        foreach ($values as $key => $value) {
            $items[] = [InvalidKey::check(is_int($key) ? (string) $key : $key), $value, $time];
        }
        return $this->store->putMany($items);
    }

    public function deleteMultiple($keys): bool
    {
        return $this->store->remove(self::keys($keys));
    }

    public function has($key): bool
    {
        return $this->store->has(InvalidKey::check($key));
    }

    /** @return list<string> */
    private static function keys(mixed $keys): array
    {
        if (!is_iterable($keys)) {
            throw new InvalidKey('expected an array or a Traversable of keys, got ' . get_debug_type($keys));
        }
        $checked = [];
        foreach ($keys as $key) {
            $checked[] = InvalidKey::check($key);
        }
        return $checked;
    }

    private static function time(mixed $ttl): ?int
    {
        if ($ttl !== null && !is_int($ttl) && !$ttl instanceof \DateInterval) {
            throw new InvalidKey('expected seconds, a DateInterval or null as time to live, got '
                . get_debug_type($ttl));
        }
        return Store::milliseconds($ttl);
    }
}
