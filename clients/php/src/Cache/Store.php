<?php

declare(strict_types=1);

namespace Undercroft\Cache;

use Undercroft\ArgumentException;
use Undercroft\Client;
use Undercroft\Serializer\Named;
use Undercroft\Serializer\Serializer;
use Undercroft\SerializerException;
use Undercroft\UndercroftException;

/** What both kinds of caches share: values under keys of a prefix, with a time to live. */
final class Store
{
    /** So many keys are removed by one command. */
    private const CHUNK = 1000;

    /** A longer time to live, of some 3,000 years, is without end: servers refuse what their clocks cannot hold. */
    private const FOREVER = 100_000_000_000_000;

    private readonly Serializer $serializer;

    public function __construct(
        private readonly Client $client,
        string|Serializer $serializer,
        private readonly string $prefix,
    ) {
        if ($prefix === '') {
            throw new ArgumentException("expected a prefix of the cache's keys, as clear() removes all that have it");
        }
        $this->serializer = is_string($serializer) ? new Named($serializer) : $serializer;
    }

    /**
     * @param list<string> $keys
     *
     * @return array<string, array{mixed}> the values that are there, each in a list of its own, by their keys
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
                // Of another version of the program, or of another serializer: a miss.
            }
        }
        return $found;
    }

    /** Stores a value. One whose time is over is removed instead. */
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
     * Returns the call's result, or `$otherwise` where the server or the store is down or refuses the call. The
     * interfaces of caches forbid exceptions of the layers below: a program runs on without its cache.
     */
    private function guarded(callable $call, mixed $otherwise): mixed
    {
        try {
            return $call();
        } catch (UndercroftException) {
            return $otherwise;
        }
    }

    /** Removes all keys of the prefix. */
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

    /** Keys as SCAN has them: with the client's own prefix, too. */
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

    /** Milliseconds of a time to live as the caches' interfaces have it. */
    public static function milliseconds(int|\DateInterval|null $time): ?int
    {
        if ($time instanceof \DateInterval) {
            $now = new \DateTimeImmutable();
            $time = $now->add($time)->getTimestamp() - $now->getTimestamp();
        }
        return $time === null ? null : self::bounded($time * 1000.0);
    }

    /** A time to live in whole milliseconds: null where it has no end that a server knows. */
    public static function bounded(float $milliseconds): ?int
    {
        return $milliseconds >= self::FOREVER ? null : (int) ceil(max($milliseconds, -1.0));
    }
}
