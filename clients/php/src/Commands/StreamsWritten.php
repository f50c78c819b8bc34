<?php

declare(strict_types=1);

namespace Undercroft\Commands;

/**
 * The commands of streams whose arguments follow no common pattern.
 *
 * Entries are `id => [field => value]`. Their fields are an array with names, so that of two fields with one name the
 * last is seen.
 */
trait StreamsWritten
{
    /**
     * Appends an entry to a stream. Time: O(1), with options that trim O(N) in the entries removed.
     *
     * `xAdd('log', '*', ['level' => 'info', 'text' => 'hello'], ['maxlen' => ['~', 1000], 'nomkstream' => true])`, or
     * `xAdd('log', '*', $fields, 1000, true)` for a length of about 1000.
     *
     * @param array<array-key, mixed> $fields
     *
     * @return string|null its ID; null where `nomkstream` forbids a new stream
     */
    public function xAdd(string $key, string|int $id, array $fields, mixed ...$options): mixed
    {
        $words = self::trimming($options);
        return $this->call(['XADD', $this->prefix . $key, ...$words, $id, ...$this->pairs($fields)]);
    }

    /**
     * Removes the oldest entries: `xTrim('log', ['maxlen' => 1000])`, `xTrim('log', ['minid' => ['~', $id]])`, or
     * `xTrim('log', 1000, true)` for a length of about 1000. Time: O(N) in the entries removed.
     *
     * @return int how many were removed
     */
    public function xTrim(string $key, mixed ...$options): mixed
    {
        return $this->call(['XTRIM', $this->prefix . $key, ...self::trimming($options)]);
    }

    /** The words of what trims; a number that stands first is a length, and true behind it says 'about'. */
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
     * The entries from one ID to another, both included; `-` and `+` are the ends. Time: O(N) in the entries returned.
     *
     * @return array<string, array<array-key, mixed>> id => [field => value]
     */
    public function xRange(string $key, string|int $start = '-', string|int $end = '+', ?int $count = null): mixed
    {
        $more = $count === null ? [] : ['COUNT', $count];
        return $this->call(['XRANGE', $this->prefix . $key, $start, $end, ...$more], 'entries');
    }

    /**
     * The same from the end to the beginning.
     *
     * @return array<string, array<array-key, mixed>> id => [field => value]
     */
    public function xRevRange(string $key, string|int $end = '+', string|int $start = '-', ?int $count = null): mixed
    {
        $more = $count === null ? [] : ['COUNT', $count];
        return $this->call(['XREVRANGE', $this->prefix . $key, $end, $start, ...$more], 'entries');
    }

    /**
     * The entries behind those that were seen, of one stream or several: `xRead(['log' => '0'])`. Time: O(N) in the
     * entries returned.
     *
     * @param array<array-key, string|int> $streams stream => the last ID that was seen; `$` is the end of now
     * @param int|null $count so many of each stream at most
     * @param int|null $block so many milliseconds it waits where there is none; 0 is without end
     *
     * @return array<string, array<string, array>>|null stream => id => [field => value]; null where there is none
     */
    public function xRead(array $streams, ?int $count = null, ?int $block = null): mixed
    {
        return $this->call(['XREAD', ...$this->reading($streams, $count, $block)], 'streams', self::seconds($block));
    }

    /**
     * The same for a consumer of a group; `>` are the entries that nobody of the group has got. Time: O(N).
     *
     * @param array<array-key, string|int> $streams
     * @param bool $noAck whether they count as done at once
     *
     * @return array<string, array<string, array>>|null stream => id => [field => value]; null where there is none
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
        // phpredis has -1 for what is not wanted.
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
     * Gives a consumer entries that others have held for so many milliseconds at least. Time: O(log N) for each.
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
