<?php

declare(strict_types=1);

namespace Undercroft;

/**
 * Implements the client's scan iterators: runs SCAN, HSCAN, SSCAN or ZSCAN until the cursor is 0.
 */
final class Scans
{
    /**
     * @param array<string, mixed> $options for SCAN
     *
     * @return \Generator<int, string>
     */
    public static function keys(Client $client, array $options): \Generator
    {
        $cursor = '0';
        do {
            [$cursor, $keys] = $client->scan($cursor, $options);
            yield from self::each($keys);
        } while ($cursor !== '0');
    }

    /** Iterates over the items of a value with hScan, sScan or zScan. */
    public static function items(Client $client, string $method, string $key, ?string $match, int $count): \Generator
    {
        $options = array_filter(['match' => $match, 'count' => $count]);
        $cursor = '0';
        do {
            [$cursor, $items] = $client->$method($key, $cursor, $options);
            if ($method === 'sScan') {
                yield from self::each($items);
            } else {
                // PHP turns numeric array keys into integers. The store has strings, so convert the
                // names back.
                foreach ($items as $name => $value) {
                    yield (string) $name => $value;
                }
            }
        } while ($cursor !== '0');
    }

    /**
     * Yields one batch of items. Keys restart at 0 in every batch, so collect all batches with
     * `iterator_to_array($items, false)`.
     */
    private static function each(iterable $items): \Generator
    {
        foreach ($items as $item) {
            yield $item;
        }
    }
}
