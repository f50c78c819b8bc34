<?php

declare(strict_types=1);

namespace Undercroft\Commands;

/** Made by tools/generate.php of tools/commands.php. */
trait Hashes
{
    /**
     * Removes fields of a hash, and the hash with the last of them. Time: O(N) for N fields.
     *
     * `HDEL key field [field ...]`
     *
     * @return int
     */
    public function hDel(string $key, mixed ...$fields): mixed
    {
        return $this->call(['HDEL', $this->prefix . $key, ...Words::flat($fields)]);
    }

    /**
     * Says whether a hash has a field. Time: O(1).
     *
     * `HEXISTS key field`
     *
     * @return bool
     */
    public function hExists(string $key, string|int|float $field): mixed
    {
        return $this->call(['HEXISTS', $this->prefix . $key, $field], 'bool');
    }

    /**
     * Returns the value of a field. Time: O(1).
     *
     * `HGET key field`
     *
     * @return mixed the value, or null
     */
    public function hGet(string $key, string|int|float $field): mixed
    {
        return $this->call(['HGET', $this->prefix . $key, $field], 'value');
    }

    /**
     * Returns all fields of a hash with their values. Time: O(N) for N fields.
     *
     * `HGETALL key`
     *
     * @return array<string, mixed>
     */
    public function hGetAll(string $key): mixed
    {
        return $this->call(['HGETALL', $this->prefix . $key], 'hash');
    }

    /**
     * Adds to the integer in a field. Time: O(1).
     *
     * `HINCRBY key field increment`
     *
     * @return int
     */
    public function hIncrBy(string $key, string|int|float $field, string|int|float $increment): mixed
    {
        return $this->call(['HINCRBY', $this->prefix . $key, $field, $increment]);
    }

    /**
     * Adds to the floating point number in a field. Time: O(1).
     *
     * `HINCRBYFLOAT key field increment`
     *
     * @return float|null
     */
    public function hIncrByFloat(string $key, string|int|float $field, string|int|float $increment): mixed
    {
        return $this->call(['HINCRBYFLOAT', $this->prefix . $key, $field, $increment], 'float');
    }

    /**
     * Returns the fields of a hash. Time: O(N) for N fields.
     *
     * `HKEYS key`
     *
     * @return list<string>
     */
    public function hKeys(string $key): mixed
    {
        return $this->call(['HKEYS', $this->prefix . $key]);
    }

    /**
     * Counts the fields of a hash. Time: O(1).
     *
     * `HLEN key`
     *
     * @return int
     */
    public function hLen(string $key): mixed
    {
        return $this->call(['HLEN', $this->prefix . $key]);
    }

    /**
     * Returns the values of several fields. Time: O(N) for N fields.
     *
     * `HMGET key field [field ...]`
     *
     * @return mixed the value or the list of values
     */
    public function hmGet(string $key, mixed ...$fields): mixed
    {
        return $this->call(['HMGET', $this->prefix . $key, ...Words::flat($fields)], 'values');
    }

    /**
     * The old name of HSET. Time: O(N) for N fields.
     *
     * `HMSET key field value [field value ...]`
     *
     * @return bool
     */
    public function hmSet(string $key, array $pairs): mixed
    {
        return $this->call(['HMSET', $this->prefix . $key, ...$this->pairs($pairs)], 'bool');
    }

    /**
     * Returns fields chosen by chance, different ones unless the count is negative. Time: O(N) for N fields returned.
     *
     * `HRANDFIELD key [count [WITHVALUES]]`
     *
     * @return mixed
     */
    public function hRandField(string $key, mixed ...$options): mixed
    {
        return $this->call(['HRANDFIELD', $this->prefix . $key, ...Words::options($options)], 'fields');
    }

    /**
     * Sets a field of a hash that does not have it. Time: O(1).
     *
     * `HSETNX key field value`
     *
     * @return bool
     */
    public function hSetNx(string $key, string|int|float $field, mixed $value): mixed
    {
        return $this->call(['HSETNX', $this->prefix . $key, $field, $this->pack($value)], 'bool');
    }

    /**
     * Returns the length of a field's value in bytes. Time: O(1).
     *
     * `HSTRLEN key field`
     *
     * @return int
     */
    public function hStrLen(string $key, string|int|float $field): mixed
    {
        return $this->call(['HSTRLEN', $this->prefix . $key, $field]);
    }

    /**
     * Returns the values of a hash. Time: O(N) for N fields.
     *
     * `HVALS key`
     *
     * @return mixed the value or the list of values
     */
    public function hVals(string $key): mixed
    {
        return $this->call(['HVALS', $this->prefix . $key], 'values');
    }
}
