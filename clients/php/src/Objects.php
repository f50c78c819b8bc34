<?php

declare(strict_types=1);

namespace Undercroft;

/**
 * Exchanges bytes and arrays between processes by id. Compatible with Python's
 * `undercroft.Objects`.
 *
 *     $objects = new Undercroft\Objects($client);
 *     $id = $objects->putBytes($image, ttl: 60);      // here
 *     $image = $objects->take($id)?->bytes;           // in another process
 *
 * Objects are stored as strings with a header, so they work on every server and store. Values are
 * copied and never unserialized.
 */
final class Objects
{
    /** The first three bytes of every stored object. */
    public const MAGIC = "\xc1UO";

    private const PREFIX = 'object:';

    /** A client on the given client's connection, without a prefix or a serializer. */
    private readonly Client $client;

    /**
     * @param Client $client the client whose connection is used; its prefix and serializer are
     *     ignored
     */
    public function __construct(Client $client)
    {
        $this->client = new Client($client->connection());
    }

    /**
     * Stores bytes and returns their id.
     *
     * @param int|float|null $ttl seconds until the object expires; null for no expiry
     *
     * @throws ServerException for example if the server is full
     */
    public function putBytes(string $bytes, int|float|null $ttl = null): string
    {
        return $this->put('b', '', $bytes, $ttl);
    }

    /**
     * Stores an array in C order and returns its id.
     *
     * @param string $dtype the type of the array's items in numpy's notation, such as `<f8`
     * @param list<int> $shape
     */
    public function putArray(string $dtype, array $shape, string $items, int|float|null $ttl = null): string
    {
        return $this->put('a', self::described($dtype, $shape, $items), $items, $ttl);
    }

    /**
     * @internal Returns the description of an array.
     *
     * @param list<int> $shape
     *
     * @throws ArgumentException if the bytes do not match the shape
     */
    public static function described(string $dtype, array $shape, string $items): string
    {
        if (preg_match('/^[<>|=]?[a-zA-Z]+\d*$/D', $dtype) !== 1) {
            throw new ArgumentException("expected a type such as <f8, got $dtype");
        }
        $count = 1;
        foreach ($shape as $length) {
            if (!is_int($length) || $length < 0) {
                throw new ArgumentException('expected lengths of 0 or more as the shape, got ' . json_encode($shape));
            }
            $count *= $length;
        }
        $length = strlen($items);
        if ($count === 0 ? $length > 0 : $length === 0 || fmod($length, $count) !== 0.0) {
            throw new ArgumentException('expected the bytes of an array of shape ' . json_encode($shape)
                . ", got $length bytes");
        }
        $lengths = implode('', array_map(static fn (int $length): string => "$length,", $shape));
        return "('$dtype', ($lengths))";
    }

    /** @internal Returns an object as it is stored: its header, and its bytes at a multiple of 64. */
    public static function encoded(string $kind, string $description, string $bytes): string
    {
        $head = self::MAGIC . $kind . pack('V', strlen($description)) . $description;
        return str_pad($head, self::padded(strlen($head)), "\0") . $bytes;
    }

    private function put(string $kind, string $description, string $bytes, int|float|null $ttl): string
    {
        if ($ttl !== null && !($ttl > 0 && $ttl < 2 ** 53)) {
            throw new ArgumentException("expected a time to live of more than 0 seconds, got $ttl");
        }
        $id = bin2hex(random_bytes(9));
        $words = ['SET', self::PREFIX . $id, self::encoded($kind, $description, $bytes)];
        $this->client->execute($ttl === null ? $words : [...$words, 'PX', max(1, (int) round($ttl * 1000))]);
        return $id;
    }

    /**
     * Returns the object with the given id, or null if no such object exists.
     *
     * @throws ArgumentException if the key does not hold an object
     */
    public function get(string $id): ?StoredObject
    {
        $value = $this->client->get(self::PREFIX . $id);
        return $value === null ? null : StoredObject::of($value);
    }

    /**
     * Returns the object with the given id and deletes it. Returns null if no such object exists.
     * If several processes take the same object, only one of them gets it.
     *
     * @throws ArgumentException if the key does not hold an object; the key is left unchanged
     */
    public function take(string $id): ?StoredObject
    {
        $key = self::PREFIX . $id;
        $missing = new ArgumentException('it does not exist');
        try {
            // Watch the key, so that the value deleted is the one whose header was checked.
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
            // A full server refuses transactions. It also refuses every write that could replace
            // the checked value, so a plain GETDEL is safe.
            $value = $this->client->getDel($key);
        }
        return $value === null ? null : StoredObject::of($value);
    }

    /** Deletes objects. Returns the number of objects that existed. */
    public function delete(string ...$ids): int
    {
        return $ids === [] ? 0 : $this->client->unlink(array_map(static fn (string $id) => self::PREFIX . $id, $ids));
    }

    /** Returns whether an object with the given id exists. */
    public function contains(string $id): bool
    {
        return $this->client->execute(['EXISTS', self::PREFIX . $id]) > 0;
    }

    /**
     * @internal Returns the offset of the buffer that follows a header of `$length` bytes: the next
     * multiple of 64.
     */
    public static function padded(int $length): int
    {
        return intdiv($length + 63, 64) * 64;
    }
}
