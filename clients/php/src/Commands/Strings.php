<?php

declare(strict_types=1);

namespace Undercroft\Commands;

/** Made by tools/generate.php of tools/commands.php. */
trait Strings
{
    /**
     * Adds bytes at the end of a string, which may be new. Time: O(N) in the length of the new value; O(1) amortized.
     *
     * `APPEND key value`
     *
     * @return int
     */
    public function append(string $key, string|int|float $value): mixed
    {
        return $this->call(['APPEND', $this->prefix . $key, $value]);
    }

    /**
     * Takes one from an integer. Time: O(1).
     *
     * `DECR key`
     *
     * @return int
     */
    public function decr(string $key): mixed
    {
        return $this->call(['DECR', $this->prefix . $key]);
    }

    /**
     * Takes from an integer. Time: O(1).
     *
     * `DECRBY key decrement`
     *
     * @return int
     */
    public function decrBy(string $key, string|int|float $decrement): mixed
    {
        return $this->call(['DECRBY', $this->prefix . $key, $decrement]);
    }

    /**
     * Returns a string and deletes its key. Time: O(1).
     *
     * `GETDEL key`
     *
     * @return mixed the value, or null
     */
    public function getDel(string $key): mixed
    {
        return $this->call(['GETDEL', $this->prefix . $key], 'value');
    }

    /**
     * Returns a string and changes or removes its time to live. Time: O(1).
     *
     * `GETEX key [EX seconds | PX milliseconds | EXAT unix-time-seconds | PXAT unix-time-milliseconds | PERSIST]`
     *
     * @return mixed the value, or null
     */
    public function getEx(string $key, mixed ...$options): mixed
    {
        return $this->call(['GETEX', $this->prefix . $key, ...Words::options($options)], 'value');
    }

    /**
     * Returns part of a string; negative positions count from its end. Time: O(N) in the length of the result.
     *
     * `GETRANGE key start end`
     *
     * @return string
     */
    public function getRange(string $key, string|int|float $start, string|int|float $end): mixed
    {
        return $this->call(['GETRANGE', $this->prefix . $key, $start, $end]);
    }

    /**
     * Stores a string and returns the one it replaces. Time: O(1).
     *
     * `GETSET key value`
     *
     * @return mixed the value, or null
     */
    public function getSet(string $key, mixed $value): mixed
    {
        return $this->call(['GETSET', $this->prefix . $key, $this->pack($value)], 'value');
    }

    /**
     * Adds one to an integer. Time: O(1).
     *
     * `INCR key`
     *
     * @return int
     */
    public function incr(string $key): mixed
    {
        return $this->call(['INCR', $this->prefix . $key]);
    }

    /**
     * Adds to an integer. Time: O(1).
     *
     * `INCRBY key increment`
     *
     * @return int
     */
    public function incrBy(string $key, string|int|float $increment): mixed
    {
        return $this->call(['INCRBY', $this->prefix . $key, $increment]);
    }

    /**
     * Adds to a floating point number. Time: O(1).
     *
     * `INCRBYFLOAT key increment`
     *
     * @return float|null
     */
    public function incrByFloat(string $key, string|int|float $increment): mixed
    {
        return $this->call(['INCRBYFLOAT', $this->prefix . $key, $increment], 'float');
    }

    /**
     * Finds the longest common subsequence of two strings. Time: O(N*M) in the two lengths.
     *
     * `LCS key1 key2 [LEN] [IDX] [MINMATCHLEN len] [WITHMATCHLEN]`
     *
     * @return mixed
     */
    public function lcs(string $a, string $b, mixed ...$options): mixed
    {
        return $this->call(['LCS', $this->prefix . $a, $this->prefix . $b, ...Words::options($options)], 'lcs');
    }

    /**
     * Returns the strings of several keys at one moment. Time: O(N) for N keys.
     *
     * `MGET key [key ...]`
     *
     * @return mixed the value or the list of values
     */
    public function mGet(string|array ...$keys): mixed
    {
        return $this->call(['MGET', ...$this->prefixed($keys)], 'values');
    }

    /**
     * Stores several strings at once: all or none. Time: O(N) for N keys.
     *
     * `MSET key value [key value ...]`
     *
     * @return bool
     */
    public function mSet(array $pairs): mixed
    {
        return $this->call(['MSET', ...$this->keyPairs($pairs)], 'bool');
    }

    /**
     * Stores several strings where none of the keys exists. Time: O(N) for N keys.
     *
     * `MSETNX key value [key value ...]`
     *
     * @return bool
     */
    public function mSetNx(array $pairs): mixed
    {
        return $this->call(['MSETNX', ...$this->keyPairs($pairs)], 'bool');
    }

    /**
     * Stores a string with a time to live in milliseconds. Time: O(1).
     *
     * `PSETEX key milliseconds value`
     *
     * @return bool
     */
    public function pSetEx(string $key, string|int|float $milliseconds, mixed $value): mixed
    {
        return $this->call(['PSETEX', $this->prefix . $key, $milliseconds, $this->pack($value)], 'bool');
    }

    /**
     * Stores a string with a time to live in seconds. Time: O(1).
     *
     * `SETEX key seconds value`
     *
     * @return bool
     */
    public function setEx(string $key, string|int|float $seconds, mixed $value): mixed
    {
        return $this->call(['SETEX', $this->prefix . $key, $seconds, $this->pack($value)], 'bool');
    }

    /**
     * Stores a string where the key does not exist yet. Time: O(1).
     *
     * `SETNX key value`
     *
     * @return bool
     */
    public function setNx(string $key, mixed $value): mixed
    {
        return $this->call(['SETNX', $this->prefix . $key, $this->pack($value)], 'bool');
    }

    /**
     * Overwrites part of a string, filling a gap before it with zero bytes. Time: O(N) in the length of the new value.
     *
     * `SETRANGE key offset value`
     *
     * @return int
     */
    public function setRange(string $key, string|int|float $offset, string|int|float $value): mixed
    {
        return $this->call(['SETRANGE', $this->prefix . $key, $offset, $value]);
    }

    /**
     * Returns the length of a string in bytes. Time: O(1).
     *
     * `STRLEN key`
     *
     * @return int
     */
    public function strLen(string $key): mixed
    {
        return $this->call(['STRLEN', $this->prefix . $key]);
    }

    /**
     * The old name of GETRANGE. Time: O(N) in the length of the result.
     *
     * `SUBSTR key start end`
     *
     * @return string
     */
    public function substr(string $key, string|int|float $start, string|int|float $end): mixed
    {
        return $this->call(['SUBSTR', $this->prefix . $key, $start, $end]);
    }

    /**
     * Counts the bits that are set in a string, or in part of it. Time: O(N) in the length of the range.
     *
     * `BITCOUNT key [start end [BYTE | BIT]]`
     *
     * @return int
     */
    public function bitCount(string $key, mixed ...$options): mixed
    {
        return $this->call(['BITCOUNT', $this->prefix . $key, ...Words::options($options)]);
    }

    /**
     * Reads and changes integers of any width at any bit of a string. Time: O(1) for each subcommand.
     *
     * `BITFIELD key [GET encoding offset | [OVERFLOW WRAP | SAT | FAIL] <SET encoding offset value | INCRBY encoding
     * offset increment> ...]`
     *
     * @return mixed
     */
    public function bitField(string $key, mixed ...$options): mixed
    {
        return $this->call(['BITFIELD', $this->prefix . $key, ...Words::options($options)]);
    }

    /**
     * Reads integers of any width at any bit of a string. Time: O(1) for each subcommand.
     *
     * `BITFIELD_RO key [GET encoding offset [GET encoding offset ...]]`
     *
     * @return mixed
     */
    public function bitFieldRo(string $key, mixed ...$options): mixed
    {
        return $this->call(['BITFIELD_RO', $this->prefix . $key, ...Words::options($options)]);
    }

    /**
     * Stores the combination of strings, bit by bit. Time: O(N) in the length of the strings.
     *
     * `BITOP AND | OR | XOR | NOT destkey key [key ...]`
     *
     * @return int
     */
    public function bitOp(string|int|float $operation, string $destination, string|array ...$keys): mixed
    {
        return $this->call(['BITOP', $operation, $this->prefix . $destination, ...$this->prefixed($keys)]);
    }

    /**
     * Finds the first bit of a value in a string, or in part of it. Time: O(N) in the length of the range.
     *
     * `BITPOS key bit [start [end [BYTE | BIT]]]`
     *
     * @return int
     */
    public function bitPos(string $key, string|int|float $bit, mixed ...$options): mixed
    {
        return $this->call(['BITPOS', $this->prefix . $key, $bit, ...Words::options($options)]);
    }

    /**
     * Returns a bit of a string. Time: O(1).
     *
     * `GETBIT key offset`
     *
     * @return int
     */
    public function getBit(string $key, string|int|float $offset): mixed
    {
        return $this->call(['GETBIT', $this->prefix . $key, $offset]);
    }

    /**
     * Sets or clears a bit of a string, which grows where needed. Time: O(1).
     *
     * `SETBIT key offset value`
     *
     * @return int
     */
    public function setBit(string $key, string|int|float $offset, string|int|float $bit): mixed
    {
        return $this->call(['SETBIT', $this->prefix . $key, $offset, $bit]);
    }

    /**
     * Adds elements to a HyperLogLog, which may be new. Time: O(1) for each element.
     *
     * `PFADD key [element [element ...]]`
     *
     * @return int
     */
    public function pfAdd(string $key, mixed ...$elements): mixed
    {
        return $this->call(['PFADD', $this->prefix . $key, ...Words::flat($elements)]);
    }

    /**
     * Estimates how many different elements were added to any of the keys. Time: O(1) for one key, whose count is
     * kept; O(N) for N keys.
     *
     * `PFCOUNT key [key ...]`
     *
     * @return int
     */
    public function pfCount(string|array ...$keys): mixed
    {
        return $this->call(['PFCOUNT', ...$this->prefixed($keys)]);
    }

    /**
     * Adds the elements of several HyperLogLogs to one. Time: O(N) for N keys.
     *
     * `PFMERGE destkey [sourcekey [sourcekey ...]]`
     *
     * @return bool
     */
    public function pfMerge(string $destination, string|array ...$keys): mixed
    {
        return $this->call(['PFMERGE', $this->prefix . $destination, ...$this->prefixed($keys)], 'bool');
    }
}
