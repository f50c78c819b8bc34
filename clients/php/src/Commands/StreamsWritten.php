<?php

declare(strict_types=1);

namespace Undercroft\Commands;

/**
 * Provides the stream commands whose arguments follow no common pattern.
 *
 * Entries have the form `id => [field => value]`. The fields are a PHP array, so if two fields have
 * the same name, only the last field is returned.
 */
trait StreamsWritten
{
    /**
     * Appends an entry to a stream. Time: O(1), plus O(N) for N entries removed by trimming
     * options.
     *
     * `xAdd('log', '*', ['level' => 'info', 'text' => 'hello'], ['maxlen' => ['~', 1000],
     * 'nomkstream' => true])`, or `xAdd('log', '*', $fields, 1000, true)` to trim to about 1,000
     * entries.
     *
     * @param array<array-key, mixed> $fields
     *
     * @return string|null the entry's ID, or null if `nomkstream` prevented creating the stream
     */
    public function xAdd(string $key, string|int $id, array $fields, mixed ...$options): mixed
    {
        $words = self::trimming($options);
        return $this->call(['XADD', $this->prefix . $key, ...$words, $id, ...$this->pairs($fields)]);
    }

    /**
     * Removes the oldest entries of a stream. Time: O(N) for N entries removed.
     *
     * `xTrim('log', ['maxlen' => 1000])`, `xTrim('log', ['minid' => ['~', $id]])`, or `xTrim('log',
     * 1000, true)` to trim to about 1,000 entries.
     *
     * @return int the number of removed entries
     */
    public function xTrim(string $key, mixed ...$options): mixed
    {
        return $this->call(['XTRIM', $this->prefix . $key, ...self::trimming($options)]);
    }

    /**
     * Returns the words of the trimming options. A number as the first option is a maximum length,
     * and `true` as the second option makes the length approximate.
     */
    private static function trimming(array $options): array
    {
        if (is_int($options[0] ?? null)) {
            $length = array_shift($options);
            $isAbout = is_bool($options[0] ?? null) && array_shift($options);
            array_unshift($options, ['maxlen' => $isAbout ? ['~', $length] : $length]);
        }
        return Words::options($options);
    }

    /**
     * Returns the entries between two IDs, inclusive. `-` and `+` are the lowest and highest ID.
     * Time: O(N) for N entries returned.
     *
     * @return array<string, array<array-key, mixed>> id => [field => value]
     */
    public function xRange(string $key, string|int $start = '-', string|int $end = '+', ?int $count = null): mixed
    {
        $more = $count === null ? [] : ['COUNT', $count];
        return $this->call(['XRANGE', $this->prefix . $key, $start, $end, ...$more], 'entries');
    }

    /**
     * Returns the entries between two IDs, newest first.
     *
     * @return array<string, array<array-key, mixed>> id => [field => value]
     */
    public function xRevRange(string $key, string|int $end = '+', string|int $start = '-', ?int $count = null): mixed
    {
        $more = $count === null ? [] : ['COUNT', $count];
        return $this->call(['XREVRANGE', $this->prefix . $key, $end, $start, ...$more], 'entries');
    }

    /**
     * Returns the entries after the last seen ID, from one or more streams: `xRead(['log' =>
     * '0'])`. Time: O(N) for N entries returned.
     *
     * @param array<array-key, string|int> $streams stream => last seen ID; `$` is the current end
     * @param int|null $count the maximum number of entries per stream
     * @param int|null $block milliseconds to wait if there are no entries; 0 means no limit
     *
     * @return array<string, array<string, array>>|null stream => id => [field => value]; null if there are no entries
     */
    public function xRead(array $streams, ?int $count = null, ?int $block = null): mixed
    {
        return $this->call(['XREAD', ...$this->reading($streams, $count, $block)], 'streams', self::seconds($block));
    }

    /**
     * Reads entries as a consumer in a group. The ID `>` selects entries not yet delivered to any
     * consumer in the group. Time: O(N) for N entries returned.
     *
     * @param array<array-key, string|int> $streams
     * @param bool $noAck whether entries are acknowledged on delivery
     *
     * @return array<string, array<string, array>>|null stream => id => [field => value]; null if there are no entries
     */
    public function xReadGroup(
        string $group,
        string $consumer,
        array $streams,
        ?int $count = null,
        ?int $block = null,
        bool $noAck = false,
    ): mixed {
        $more = $this->reading($streams, $count, $block, $noAck);
        return $this->call(['XREADGROUP', 'GROUP', $group, $consumer, ...$more], 'streams', self::seconds($block));
    }

    private function reading(array $streams, ?int $count, ?int $block, bool $noAck = false): array
    {
        // phpredis passes -1 for an option that is not set.
        return [
            ...($count === null || $count < 0 ? [] : ['COUNT', $count]),
            ...($block === null || $block < 0 ? [] : ['BLOCK', $block]),
            ...($noAck ? ['NOACK'] : []),
            'STREAMS',
            ...$this->prefixed(array_map(strval(...), array_keys($streams))),
            ...array_values($streams),
        ];
    }

    private static function seconds(?int $milliseconds): ?float
    {
        return $milliseconds === null || $milliseconds < 0 ? null : $milliseconds / 1000;
    }

    /**
     * Transfers entries to a consumer if they have been pending for at least a minimum time in
     * milliseconds. Time: O(log N) per entry.
     *
     * @param string|list<string> $ids
     *
     * @return array id => [field => value]; with `justid` a list of IDs
     */
    public function xClaim(
        string $key,
        string $group,
        string $consumer,
        int $idle,
        string|array $ids,
        mixed ...$options,
    ): mixed {
        return $this->call(['XCLAIM', $this->prefix . $key, $group, $consumer, $idle, ...(array) $ids,
            ...Words::options($options)], 'entries');
    }
}
