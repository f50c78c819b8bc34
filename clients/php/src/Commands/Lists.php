<?php

declare(strict_types=1);

namespace Undercroft\Commands;

/** Made by tools/generate.php of tools/commands.php. */
trait Lists
{
    /**
     * Moves an element from an end of one list to an end of another, or waits for one. Time: O(log N).
     *
     * `BLMOVE source destination LEFT | RIGHT LEFT | RIGHT timeout`
     *
     * @return mixed the value, or null
     */
    public function blMove(
        string $source,
        string $destination,
        string|int|float $from,
        string|int|float $to,
        string|int|float $timeout,
    ): mixed {
        return $this->call([
            'BLMOVE',
            $this->prefix . $source,
            $this->prefix . $destination,
            $from,
            $to,
            $timeout,
        ], 'value', $timeout);
    }

    /**
     * Takes elements from an end of the first of several lists that has any, or waits for some. Time: O(N + M) for N
     * keys and M elements returned.
     *
     * `BLMPOP timeout numkeys key [key ...] LEFT | RIGHT [COUNT count]`
     *
     * @return array{string, array}|null key, and what was taken from it
     */
    public function blmPop(
        string|int|float $timeout,
        string|array $keys,
        string|int|float $end,
        mixed ...$options,
    ): mixed {
        return $this->call([
            'BLMPOP',
            $timeout,
            ...Words::counted($this->prefixed((array) $keys)),
            $end,
            ...Words::options($options),
        ], 'popped', $timeout);
    }

    /**
     * Takes an element from the head of the first of several lists that has any, or waits for one. Time: O(N) for N
     * keys.
     *
     * `BLPOP key [key ...] timeout`
     *
     * @return array{string, mixed}|null key and value
     */
    public function blPop(string|array $keys, string|int|float $timeout): mixed
    {
        return $this->call(['BLPOP', ...$this->prefixed((array) $keys), $timeout], 'keyed', $timeout);
    }

    /**
     * Takes an element from the tail of the first of several lists that has any, or waits for one. Time: O(N) for N
     * keys.
     *
     * `BRPOP key [key ...] timeout`
     *
     * @return array{string, mixed}|null key and value
     */
    public function brPop(string|array $keys, string|int|float $timeout): mixed
    {
        return $this->call(['BRPOP', ...$this->prefixed((array) $keys), $timeout], 'keyed', $timeout);
    }

    /**
     * Moves the last element of one list to the head of another, or waits for one. Time: O(log N).
     *
     * `BRPOPLPUSH source destination timeout`
     *
     * @return mixed the value, or null
     */
    public function bRPopLPush(string $source, string $destination, string|int|float $timeout): mixed
    {
        return $this->call([
            'BRPOPLPUSH',
            $this->prefix . $source,
            $this->prefix . $destination,
            $timeout,
        ], 'value', $timeout);
    }

    /**
     * Returns the element at a position of a list. Time: O(log N).
     *
     * `LINDEX key index`
     *
     * @return mixed the value, or null
     */
    public function lIndex(string $key, string|int|float $index): mixed
    {
        return $this->call(['LINDEX', $this->prefix . $key, $index], 'value');
    }

    /**
     * Adds an element before or behind the first one that equals the pivot. Time: O(N) to find the pivot.
     *
     * `LINSERT key BEFORE | AFTER pivot element`
     *
     * @return int
     */
    public function lInsert(string $key, string|int|float $where, mixed $pivot, mixed $element): mixed
    {
        return $this->call(['LINSERT', $this->prefix . $key, $where, $this->pack($pivot), $this->pack($element)]);
    }

    /**
     * Counts the elements of a list. Time: O(1).
     *
     * `LLEN key`
     *
     * @return int
     */
    public function lLen(string $key): mixed
    {
        return $this->call(['LLEN', $this->prefix . $key]);
    }

    /**
     * Moves an element from an end of one list to an end of another. Time: O(log N).
     *
     * `LMOVE source destination LEFT | RIGHT LEFT | RIGHT`
     *
     * @return mixed the value, or null
     */
    public function lMove(string $source, string $destination, string|int|float $from, string|int|float $to): mixed
    {
        return $this->call(['LMOVE', $this->prefix . $source, $this->prefix . $destination, $from, $to], 'value');
    }

    /**
     * Takes elements from an end of the first of several lists that has any. Time: O(N + M) for N keys and M elements
     * returned.
     *
     * `LMPOP numkeys key [key ...] LEFT | RIGHT [COUNT count]`
     *
     * @return array{string, array}|null key, and what was taken from it
     */
    public function lmPop(string|array $keys, string|int|float $end, mixed ...$options): mixed
    {
        return $this->call([
            'LMPOP',
            ...Words::counted($this->prefixed((array) $keys)),
            $end,
            ...Words::options($options),
        ], 'popped');
    }

    /**
     * Takes elements from the head of a list. Time: O(N) for N elements returned.
     *
     * `LPOP key [count]`
     *
     * @return mixed the value or the list of values
     */
    public function lPop(string $key, string|int|float|null $count = null): mixed
    {
        return $this->call(['LPOP', $this->prefix . $key, ...($count === null ? [] : [$count])], 'values');
    }

    /**
     * Finds the positions of an element in a list. Time: O(N).
     *
     * `LPOS key element [RANK rank] [COUNT num-matches] [MAXLEN len]`
     *
     * @return mixed
     */
    public function lPos(string $key, mixed $element, mixed ...$options): mixed
    {
        return $this->call(['LPOS', $this->prefix . $key, $this->pack($element), ...Words::options($options)]);
    }

    /**
     * Adds elements at the head of a list, which may be new. Time: O(N) for N elements.
     *
     * `LPUSH key element [element ...]`
     *
     * @return int
     */
    public function lPush(string $key, mixed ...$elements): mixed
    {
        return $this->call(['LPUSH', $this->prefix . $key, ...$this->packed($elements)]);
    }

    /**
     * Adds elements at the head of a list that exists. Time: O(N) for N elements.
     *
     * `LPUSHX key element [element ...]`
     *
     * @return int
     */
    public function lPushX(string $key, mixed ...$elements): mixed
    {
        return $this->call(['LPUSHX', $this->prefix . $key, ...$this->packed($elements)]);
    }

    /**
     * Returns elements of a list by position; negative positions count from its end. Time: O(log N + M) for M elements
     * returned.
     *
     * `LRANGE key start stop`
     *
     * @return mixed the value or the list of values
     */
    public function lRange(string $key, string|int|float $start, string|int|float $stop): mixed
    {
        return $this->call(['LRANGE', $this->prefix . $key, $start, $stop], 'values');
    }

    /**
     * Removes elements that equal one: the first count, the last where negative, all where zero. Time: O(N).
     *
     * `LREM key count element`
     *
     * @return int
     */
    public function lRem(string $key, string|int|float $count, mixed $element): mixed
    {
        return $this->call(['LREM', $this->prefix . $key, $count, $this->pack($element)]);
    }

    /**
     * Replaces the element at a position of a list. Time: O(log N).
     *
     * `LSET key index element`
     *
     * @return bool
     */
    public function lSet(string $key, string|int|float $index, mixed $element): mixed
    {
        return $this->call(['LSET', $this->prefix . $key, $index, $this->pack($element)], 'bool');
    }

    /**
     * Keeps elements of a list by position only. Time: O(log N).
     *
     * `LTRIM key start stop`
     *
     * @return bool
     */
    public function lTrim(string $key, string|int|float $start, string|int|float $stop): mixed
    {
        return $this->call(['LTRIM', $this->prefix . $key, $start, $stop], 'bool');
    }

    /**
     * Takes elements from the tail of a list. Time: O(N) for N elements returned.
     *
     * `RPOP key [count]`
     *
     * @return mixed the value or the list of values
     */
    public function rPop(string $key, string|int|float|null $count = null): mixed
    {
        return $this->call(['RPOP', $this->prefix . $key, ...($count === null ? [] : [$count])], 'values');
    }

    /**
     * Moves the last element of one list to the head of another. Time: O(log N).
     *
     * `RPOPLPUSH source destination`
     *
     * @return mixed the value, or null
     */
    public function rPopLPush(string $source, string $destination): mixed
    {
        return $this->call(['RPOPLPUSH', $this->prefix . $source, $this->prefix . $destination], 'value');
    }

    /**
     * Adds elements at the tail of a list, which may be new. Time: O(N) for N elements.
     *
     * `RPUSH key element [element ...]`
     *
     * @return int
     */
    public function rPush(string $key, mixed ...$elements): mixed
    {
        return $this->call(['RPUSH', $this->prefix . $key, ...$this->packed($elements)]);
    }

    /**
     * Adds elements at the tail of a list that exists. Time: O(N) for N elements.
     *
     * `RPUSHX key element [element ...]`
     *
     * @return int
     */
    public function rPushX(string $key, mixed ...$elements): mixed
    {
        return $this->call(['RPUSHX', $this->prefix . $key, ...$this->packed($elements)]);
    }
}
