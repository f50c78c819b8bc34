<?php

declare(strict_types=1);

namespace Undercroft;

/**
 * Objects: bytes and arrays that processes hand to each other by an id, those of Python's `undercroft.Objects`.
 *
 *     $objects = new Undercroft\Objects($client);
 *     $id = $objects->putBytes($image, ttl: 60);      // here
 *     $image = $objects->take($id)?->bytes;           // in another process
 *
 * They are strings with a head, so that this works on every engine. Values are copied; nothing is ever unserialized.
 */
final class Objects
{
    /** The first bytes of every object. */
    public const MAGIC = "\xc1UO";

    private const PREFIX = 'object:';

    /** The client without prefix and serializer. */
    private readonly Client $client;

    /** @param Client $client whose connection is used; its prefix and its serializer are not */
    public function __construct(Client $client)
    {
        $this->client = new Client($client->connection());
    }

    /**
     * Stores bytes and returns their id.
     *
     * @param int|float|null $ttl seconds after which they expire; null is for good
     *
     * @throws ServerException also where the server is full
     */
    public function putBytes(string $bytes, int|float|null $ttl = null): string
    {
        return $this->put('b', '', $bytes, $ttl);
    }

    /**
     * Stores an array in C order and returns its id.
     *
     * @param string $dtype the type of its items as numpy has it, such as `<f8`
     * @param list<int> $shape
     */
    public function putArray(string $dtype, array $shape, string $items, int|float|null $ttl = null): string
    {
        if (preg_match('/^[<>|=]?[a-zA-Z]+\d*$/D', $dtype) !== 1) {
            throw new ArgumentException("expected a type such as <f8, got $dtype");
        }
        $lengths = implode('', array_map(static fn (int $length): string => "$length,", $shape));
        return $this->put('a', "('$dtype', ($lengths))", $items, $ttl);
    }

    private function put(string $kind, string $description, string $bytes, int|float|null $ttl): string
    {
        if ($ttl !== null && !($ttl > 0 && $ttl < 2 ** 53)) {
            throw new ArgumentException("expected a time to live of more than 0 seconds, got $ttl");
        }
        $id = bin2hex(random_bytes(9));
        $head = self::MAGIC . $kind . pack('V', strlen($description)) . $description;
        $words = ['SET', self::PREFIX . $id, str_pad($head, self::padded(strlen($head)), "\0") . $bytes];
        $this->client->execute($ttl === null ? $words : [...$words, 'PX', max(1, (int) round($ttl * 1000))]);
        return $id;
    }

    /**
     * The object with an id, or null.
     *
     * @throws ArgumentException where the key is no object
     */
    public function get(string $id): ?StoredObject
    {
        $value = $this->client->get(self::PREFIX . $id);
        return $value === null ? null : StoredObject::of($value);
    }

    /**
     * The object with an id, or null; it is deleted: of several that take it one gets it.
     *
     * @throws ArgumentException where the key is no object; it stays as it is
     */
    public function take(string $id): ?StoredObject
    {
        $key = self::PREFIX . $id;
        $missing = new ArgumentException('it is not there');
        try {
            // It is watched, so that what is deleted is what was looked at.
            $taken = $this->client->transaction(
                static function (Pipeline $queue, Client $client) use ($key, $missing): void {
                    $start = $client->getRange($key, 0, 7);
                    if ($start === '' || $start === null) {
                        throw $missing;
                    }
                    if (strlen($start) < 8 || !str_starts_with($start, self::MAGIC)) {
                        StoredObject::of($start);
                    }
                    $queue->getDel($key);
                },
                [$key],
                PHP_INT_MAX,
            );
            $value = $taken[0] ?? null;
        } catch (ArgumentException $error) {
            if ($error !== $missing) {
                throw $error;
            }
            return null;
        } catch (ServerException $error) {
            if (!in_array($error->kind(), ['OOM', 'EXECABORT'], true)) {
                throw $error;
            }
            // A full server refuses transactions, and whatever could replace what was looked at.
            $value = $this->client->getDel($key);
        }
        return $value === null ? null : StoredObject::of($value);
    }

    /** Deletes objects, and returns how many were there. */
    public function delete(string ...$ids): int
    {
        return $ids === [] ? 0 : $this->client->unlink(array_map(static fn (string $id) => self::PREFIX . $id, $ids));
    }

    /** Whether there is an object with an id. */
    public function contains(string $id): bool
    {
        return $this->client->execute(['EXISTS', self::PREFIX . $id]) > 0;
    }

    /** @internal where a buffer begins that stands behind so many bytes */
    public static function padded(int $length): int
    {
        return intdiv($length + 63, 64) * 64;
    }
}
