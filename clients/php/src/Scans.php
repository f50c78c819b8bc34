<?php

declare(strict_types=1);

namespace Undercroft;

/**
 * Implements the client's scan iterators: runs SCAN, HSCAN, SSCAN or ZSCAN until the cursor is 0.
 */
final class Scans
{
    /**
     * @param array<string, mixed> $options the options of SCAN
     *
     * @return \Generator<int, string>
     */
    public static function keys(Client $client, array $options): \Generator
    {
        $cursor = '0';
        do {
            [$cursor, $keys] = $client->scan($cursor, $options);
            // Do not use `yield from`, which would number the keys of each reply from 0.
            foreach ($keys as $key) {
                yield $key;
            }
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
                foreach ($items as $member) {
                    yield $member;
                }
            } else {
                // PHP converts numeric array keys to integers. Names are strings in the store, so
                // convert the keys back.
                foreach ($items as $name => $value) {
                    yield (string) $name => $value;
                }
            }
        } while ($cursor !== '0');
    }
}
