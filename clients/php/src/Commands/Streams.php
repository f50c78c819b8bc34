<?php

declare(strict_types=1);

namespace Undercroft\Commands;

/** Made by tools/generate.php of tools/commands.php. */
trait Streams
{
    /**
     * Marks entries as done for a group. Time: O(1) for each entry.
     *
     * `XACK key group id [id ...]`
     *
     * @return int
     */
    public function xAck(string $key, string|int|float $group, mixed ...$ids): mixed
    {
        return $this->call(['XACK', $this->prefix . $key, $group, ...Words::flat($ids)]);
    }

    /**
     * Gives a consumer entries that others have held for too long, some at a time. Time: O(1).
     *
     * `XAUTOCLAIM key group consumer min-idle-time start [COUNT count] [JUSTID]`
     *
     * @return array{string, array, list<string>} where to go on, id => [field => value], and those deleted
     */
    public function xAutoClaim(
        string $key,
        string|int|float $group,
        string|int|float $consumer,
        string|int|float $idle,
        string|int|float $start,
        mixed ...$options,
    ): mixed {
        return $this->call([
            'XAUTOCLAIM',
            $this->prefix . $key,
            $group,
            $consumer,
            $idle,
            $start,
            ...Words::options($options),
        ], 'claimed');
    }

    /**
     * Removes entries. Time: O(1) for each entry.
     *
     * `XDEL key id [id ...]`
     *
     * @return int
     */
    public function xDel(string $key, mixed ...$ids): mixed
    {
        return $this->call(['XDEL', $this->prefix . $key, ...Words::flat($ids)]);
    }

    /**
     * Makes and removes groups and their consumers. Time: O(1), of DESTROY O(N) in what is not done.
     *
     * `XGROUP CREATE | SETID | DESTROY | CREATECONSUMER | DELCONSUMER key group [...]`
     *
     * @return mixed true where there is nothing to tell
     */
    public function xGroup(string|int|float $subcommand, string $key, mixed ...$options): mixed
    {
        return $this->call(['XGROUP', $subcommand, $this->prefix . $key, ...Words::options($options)], 'done');
    }

    /**
     * Tells of a stream, its groups or a group's consumers. Time: O(N) in what it tells of.
     *
     * `XINFO STREAM | GROUPS | CONSUMERS key [...]`
     *
     * @return array<array-key, mixed>
     */
    public function xInfo(string|int|float $subcommand, string $key, mixed ...$options): mixed
    {
        return $this->call(['XINFO', $subcommand, $this->prefix . $key, ...Words::options($options)], 'told');
    }

    /**
     * Counts the entries of a stream. Time: O(1).
     *
     * `XLEN key`
     *
     * @return int
     */
    public function xLen(string $key): mixed
    {
        return $this->call(['XLEN', $this->prefix . $key]);
    }

    /**
     * Tells which entries are not done yet: in sum, or one by one. Time: O(N) in what it tells of.
     *
     * `XPENDING key group [[IDLE ms] start end count [consumer]]`
     *
     * @return mixed
     */
    public function xPending(string $key, string|int|float $group, mixed ...$options): mixed
    {
        return $this->call(['XPENDING', $this->prefix . $key, $group, ...Words::options($options)]);
    }

    /**
     * Sets the last ID of a stream. Time: O(1).
     *
     * `XSETID key last-id [ENTRIESADDED entries-added] [MAXDELETEDID max-deleted-id]`
     *
     * @return bool
     */
    public function xSetId(string $key, string|int|float $id, mixed ...$options): mixed
    {
        return $this->call(['XSETID', $this->prefix . $key, $id, ...Words::options($options)], 'bool');
    }
}
