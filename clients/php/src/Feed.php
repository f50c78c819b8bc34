<?php

declare(strict_types=1);

namespace Undercroft;

use Undercroft\Commands\Replies;

/**
 * A feed: a list of fixed-size values with attributes, filters and soft deletion, in which every
 * page is as fast to read as the first.
 *
 * `$client->feed('board')` creates a Feed. On a pipeline, feed() returns a Feed whose methods queue
 * their commands.
 *
 * Attributes are a list of numbers or their text form, `3:0:1`. A null in the list leaves the
 * attribute unchanged. Filters have the same two forms, such as `3::1`. Values are strings, or
 * numbers in a sorted feed of numbers.
 */
final class Feed
{
    /**
     * The maximum number of items that one command adds, so that it holds the feed's lock only
     * briefly.
     */
    private const CHUNK = 10_000;

    /** @param \Closure(list<mixed>, ?callable): mixed $run runs or queues a command */
    public function __construct(private readonly \Closure $run, private readonly string $key)
    {
    }

    /**
     * Creates the feed. Does nothing if a feed with the same layout already exists.
     *
     * @param int|null $size bytes per value; null in a sorted feed of numbers
     * @param list<int>|string $attributes the width of each attribute in bits
     * @param string $order list, queue or sorted
     * @param string|null $type value type of a sorted feed: int32, uint32, int64, uint64, float32,
     *     float64, bytes, text
     */
    public function create(
        ?int $size,
        array|string $attributes = [],
        string $order = 'list',
        ?string $type = null,
        bool $unique = false,
        bool $index = false,
    ): mixed {
        return ($this->run)([
            'FEED.CREATE', $this->key,
            ...($size === null ? [] : ['SIZE', $size]),
            ...($attributes === [] || $attributes === '' ? [] : ['ATTRS', self::text($attributes)]),
            ...($order === 'list' ? [] : ['ORDER', $order]),
            ...($type === null ? [] : ['TYPE', $type]),
            ...($unique ? ['UNIQUE'] : []),
            ...($index ? ['INDEX'] : []),
        ], static fn (mixed $reply): bool => $reply === 'OK');
    }

    /**
     * Adds values that all have the same attributes.
     *
     * @param int|string $position 0 is the front, -1 is the end, and '*' is the sorted position in
     *     a sorted feed
     * @param string|int|float|list<string|int|float> $values
     *
     * @return mixed the number of items in the feed
     */
    public function add(
        int|string $position,
        string|int|float|array $values,
        array|string|null $attributes = null,
    ): mixed {
        $words = ['FEED.ADD', $this->key, $position];
        foreach ((array) $values as $value) {
            $words[] = $value;
            if ($attributes !== null) {
                array_push($words, 'ATTRS', self::text($attributes));
            }
        }
        return ($this->run)($words, null);
    }

    /**
     * Adds values with individual attributes, 10,000 items per command. If a later command fails,
     * the items of earlier commands remain.
     *
     * @param list<array{string|int|float, array|string}> $items values with their attributes
     *
     * @return mixed the number of items in the feed, or null if `$items` is empty
     */
    public function addMany(int|string $position, array $items): mixed
    {
        $result = null;
        $done = 0;
        foreach (array_chunk($items, self::CHUNK) as $chunk) {
            $words = ['FEED.ADD', $this->key, is_int($position) && $position >= 0 ? $position + $done : $position];
            foreach ($chunk as [$value, $attributes]) {
                array_push($words, $value, 'ATTRS', self::text($attributes));
            }
            $result = ($this->run)($words, null);
            $done += count($chunk);
        }
        return $result;
    }

    /** Removes all items with the given values. Returns the number of removed items. */
    public function delete(string|int|float ...$values): mixed
    {
        return ($this->run)(['FEED.DEL', $this->key, ...$values], null);
    }

    /**
     * Hides all items with the given values, so that queries return them only on request. Returns
     * the number of items that changed.
     */
    public function hide(string|int|float ...$values): mixed
    {
        return ($this->run)(['FEED.HIDE', $this->key, ...$values], null);
    }

    /**
     * Makes hidden items with the given values visible again. Returns the number of items that
     * changed.
     */
    public function show(string|int|float ...$values): mixed
    {
        return ($this->run)(['FEED.SHOW', $this->key, ...$values], null);
    }

    /**
     * Removes all items that match a filter. Returns the number of removed items.
     *
     * @param string $seen all, visible or hidden
     * @param array{mixed, mixed}|null $between the lowest and highest value, in a sorted feed
     */
    public function deleteWhere(array|string $where, string $seen = 'all', ?array $between = null): mixed
    {
        return ($this->run)(['FEED.DELWHERE', $this->key, self::text($where), $seen, ...self::limits($between)], null);
    }

    /** Moves a value to another position. Returns false if the feed does not contain the value. */
    public function move(string|int|float $value, int $position): mixed
    {
        return ($this->run)(['FEED.MOVE', $this->key, $value, $position], self::truth(...));
    }

    /**
     * Changes the attributes of all items with the given value. Returns the number of these items.
     */
    public function setAttributes(string|int|float $value, array|string $attributes): mixed
    {
        return ($this->run)(['FEED.SETATTR', $this->key, $value, self::text($attributes)], null);
    }

    /**
     * Returns items by position.
     *
     * @return mixed a list of values, or of pairs of a value and its list of attributes
     */
    public function range(
        int $start = 0,
        int $count = 100,
        array|string|null $where = null,
        string $seen = 'visible',
        bool $attributes = false,
        bool $reverse = false,
    ): mixed {
        return ($this->run)(
            ['FEED.RANGE', $this->key, $start, $count, ...self::query($where, $seen, $attributes, $reverse)],
            $attributes ? self::items(...) : null,
        );
    }

    /**
     * Returns the items in a sorted feed whose values are in a range. Limits have the forms `5`,
     * `(5`, `-inf`, `+inf`, `[ada` and `(ada`.
     *
     * @return mixed a list of values, or of pairs of a value and its list of attributes
     */
    public function between(
        string|int|float $low,
        string|int|float $high,
        int $start = 0,
        ?int $count = null,
        array|string|null $where = null,
        string $seen = 'visible',
        bool $attributes = false,
        bool $reverse = false,
    ): mixed {
        $limit = $start === 0 && $count === null ? [] : ['LIMIT', $start, $count ?? PHP_INT_MAX];
        return ($this->run)(
            ['FEED.BETWEEN', $this->key, $low, $high, ...$limit, ...self::query($where, $seen, $attributes, $reverse)],
            $attributes ? self::items(...) : null,
        );
    }

    /** Returns the number of items that match the filters. */
    public function count(array|string|null $where = null, string $seen = 'visible', ?array $between = null): mixed
    {
        return ($this->run)(
            ['FEED.COUNT', $this->key, ...self::query($where, $seen, false, false), ...self::limits($between)],
            null,
        );
    }

    /** Returns the position of a value, or null if the feed does not contain the value. */
    public function position(string|int|float $value, string $seen = 'visible'): mixed
    {
        return ($this->run)(['FEED.POS', $this->key, $value, $seen], null);
    }

    /**
     * Removes and returns one item from the left or right end, or a list of up to `$count` items.
     * Returns null if the feed is empty.
     */
    public function pop(string $end = 'left', ?int $count = null): mixed
    {
        return ($this->run)(['FEED.POP', $this->key, $end, ...($count === null ? [] : [$count])], null);
    }

    /**
     * Returns the feed's properties by name. `attributes` is the list of attribute widths in bits.
     */
    public function info(): mixed
    {
        return ($this->run)(['FEED.INFO', $this->key], static function (array $reply): array {
            $info = array_is_list($reply) ? Replies::pairs($reply) : $reply;
            $info['attributes'] = self::numbers((string) $info['attributes']);
            return $info;
        });
    }

    /**
     * Rewrites the feed's items into as little memory as possible, because many changes leave its
     * tree nodes partly empty.
     */
    public function compact(): mixed
    {
        return ($this->run)(['FEED.COMPACT', $this->key], static fn (mixed $reply): bool => $reply === 'OK');
    }

    private static function text(array|string $attributes): string
    {
        return is_string($attributes) ? $attributes : implode(':', $attributes);
    }

    /** @return list<mixed> */
    private static function query(array|string|null $where, string $seen, bool $attributes, bool $reverse): array
    {
        return [
            ...($seen === 'visible' ? [] : [$seen]),
            ...($where === null ? [] : ['WHERE', self::text($where)]),
            ...($attributes ? ['WITHATTRS'] : []),
            ...($reverse ? ['REV'] : []),
        ];
    }

    /** @return list<mixed> */
    private static function limits(?array $between): array
    {
        return $between === null ? [] : ['BETWEEN', $between[0], $between[1]];
    }

    private static function truth(mixed $reply): bool
    {
        return (bool) $reply;
    }

    /** @return list<array{string, list<int>}> */
    private static function items(array $reply): array
    {
        $items = [];
        for ($at = 0, $count = count($reply); $at < $count; $at += 2) {
            $items[] = [$reply[$at], self::numbers($reply[$at + 1])];
        }
        return $items;
    }

    /** @return list<int> */
    private static function numbers(string $text): array
    {
        return $text === '' ? [] : array_map(intval(...), explode(':', $text));
    }
}
