<?php

declare(strict_types=1);

namespace Undercroft\Cache;

use Undercroft\ArgumentException;
use Undercroft\Client;
use Undercroft\Serializer\Named;
use Undercroft\Serializer\Serializer;
use Undercroft\SerializerException;
use Undercroft\UndercroftException;

/** The implementation that both caches share: values under prefixed keys, with a time to live. */
final class Store
{
    /** The maximum number of keys removed by one command. */
    private const CHUNK = 1000;

    /**
     * The shortest time to live that is treated as no expiry, in milliseconds: about 3,000 years.
     * Servers refuse times that their clocks cannot represent.
     */
    private const FOREVER = 100_000_000_000_000;

    private readonly Serializer $serializer;

    public function __construct(
        private readonly Client $client,
        string|Serializer $serializer,
        private readonly string $prefix,
    ) {
        if ($prefix === '') {
            throw new ArgumentException('expected a prefix for the keys of the cache, because clear() removes all keys '
                . 'with the prefix');
        }
        $this->serializer = is_string($serializer) ? new Named($serializer) : $serializer;
    }

    /**
     * @param list<string> $keys
     *
     * @return array<string, array{mixed}> the values found, by key, each wrapped in a list
     */
    public function fetch(array $keys): array
    {
        $texts = $keys === [] ? [] : $this->guarded(fn (): array => $this->client->mGet($this->names($keys)), []);
        $found = [];
        foreach ($texts as $at => $text) {
            try {
                if ($text !== null) {
                    $found[$keys[$at]] = [$this->serializer->decode($text)];
                }
            } catch (SerializerException) {
                // A value written by another program version or serializer is a cache miss.
            }
        }
        return $found;
    }

    /** Stores a value, or removes it if its time to live has already passed. */
    public function put(string $key, mixed $value, ?int $milliseconds): bool
    {
        return $this->putMany([[$key, $value, $milliseconds]]);
    }

    /** @param list<array{string, mixed, ?int}> $items key, value and time to live in milliseconds */
    public function putMany(array $items): bool
    {
        $pipe = $this->client->pipeline();
        $isWritten = true;
        foreach ($items as [$key, $value, $milliseconds]) {
            if ($milliseconds !== null && $milliseconds <= 0) {
                $pipe->unlink($this->prefix . $key);
                continue;
            }
            try {
                $text = $this->serializer->encode($value);
            } catch (SerializerException) {
                $isWritten = false;
                continue;
            }
            $pipe->set($this->prefix . $key, $text, $milliseconds === null ? [] : ['px' => $milliseconds]);
        }
        $isStored = $this->guarded(static fn (): bool => !in_array(false, $pipe->execute() ?? [], true), false);
        return $isStored && $isWritten;
    }

    public function has(string $key): bool
    {
        return $this->guarded(fn (): bool => $this->client->exists($this->prefix . $key) === 1, false);
    }

    /** @param list<string> $keys */
    public function remove(array $keys): bool
    {
        return $this->guarded(function () use ($keys): bool {
            foreach (array_chunk($this->names($keys), self::CHUNK) as $chunk) {
                $this->client->unlink($chunk);
            }
            return true;
        }, false);
    }

    /**
     * Returns the result of a call, or `$otherwise` if the call fails or the server or store is
     * down.
     *
     * PSR-6 and PSR-16 forbid exceptions from lower layers, so that a program continues to work
     * without its cache.
     */
    private function guarded(callable $call, mixed $otherwise): mixed
    {
        try {
            return $call();
        } catch (UndercroftException) {
            return $otherwise;
        }
    }

    /** Removes all keys with the cache's prefix. */
    public function clear(): bool
    {
        return $this->guarded($this->removeAll(...), false);
    }

    private function removeAll(): bool
    {
        $pattern = addcslashes($this->prefix, '*?[]\\') . '*';
        $keys = [];
        foreach ($this->client->scanIterator($pattern, self::CHUNK) as $key) {
            $keys[] = $key;
            if (count($keys) === self::CHUNK) {
                $this->unlink($keys);
                $keys = [];
            }
        }
        $keys === [] || $this->unlink($keys);
        return true;
    }

    /**
     * The keys come from SCAN and already include the client's prefix, so send them as raw words.
     */
    private function unlink(array $keys): void
    {
        $this->client->execute(['UNLINK', ...$keys]);
    }

    /**
     * @param list<string> $keys
     *
     * @return list<string>
     */
    private function names(array $keys): array
    {
        return array_map(fn (string $key): string => $this->prefix . $key, $keys);
    }

    /** Converts a PSR-6 or PSR-16 time to live to milliseconds. */
    public static function milliseconds(int|\DateInterval|null $time): ?int
    {
        if ($time instanceof \DateInterval) {
            $now = new \DateTimeImmutable();
            $time = $now->add($time)->getTimestamp() - $now->getTimestamp();
        }
        return $time === null ? null : self::bounded($time * 1000.0);
    }

    /**
     * Rounds a time to live up to whole milliseconds. Returns null if a server cannot represent the
     * result.
     */
    public static function bounded(float $milliseconds): ?int
    {
        return $milliseconds >= self::FOREVER ? null : (int) ceil(max($milliseconds, -1.0));
    }
}
