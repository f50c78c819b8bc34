<?php

declare(strict_types=1);

namespace Undercroft;

/** What a client's iterators do: SCAN and its like, one portion after the other. */
final class Scans
{
    /**
     * @param array<string, mixed> $options of SCAN
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

    /** The items of a value by hScan, sScan or zScan. */
    public static function items(Client $client, string $method, string $key, ?string $match, int $count): \Generator
    {
        $options = array_filter(['match' => $match, 'count' => $count]);
        $cursor = '0';
        do {
            [$cursor, $items] = $client->$method($key, $cursor, $options);
            if ($method === 'sScan') {
                yield from self::each($items);
            } else {
                // Names that are numbers are strings here, as they are in the store.
                foreach ($items as $name => $value) {
                    yield (string) $name => $value;
                }
            }
        } while ($cursor !== '0');
    }

    /** Without keys of their own, so that portions can be put into one array. */
    private static function each(iterable $items): \Generator
    {
        foreach ($items as $item) {
            yield $item;
        }
    }
}
