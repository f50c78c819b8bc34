<?php

declare(strict_types=1);

namespace Undercroft\Commands;

/** Made by tools/generate.php of tools/commands.php. */
trait Keys
{
    /**
     * Copies a key's value and time to live to another key. Time: O(N) in the size of the value.
     *
     * `COPY source destination [DB destination-db] [REPLACE]`
     *
     * @return bool
     */
    public function copy(string $source, string $destination, mixed ...$options): mixed
    {
        return $this->call([
            'COPY',
            $this->prefix . $source,
            $this->prefix . $destination,
            ...Words::options($options),
        ], 'bool');
    }

    /**
     * Deletes keys. Time: O(N) for N keys, and the size of what they hold.
     *
     * `DEL key [key ...]`
     *
     * @return int
     */
    public function del(string|array ...$keys): mixed
    {
        return $this->call(['DEL', ...$this->prefixed($keys)]);
    }

    /**
     * Returns a value in a serialized, checksummed form. Time: O(N) in the size of the value.
     *
     * `DUMP key`
     *
     * @return mixed
     */
    public function dump(string $key): mixed
    {
        return $this->call(['DUMP', $this->prefix . $key]);
    }

    /**
     * Counts how many of the keys exist. Time: O(N) for N keys.
     *
     * `EXISTS key [key ...]`
     *
     * @return int
     */
    public function exists(string|array ...$keys): mixed
    {
        return $this->call(['EXISTS', ...$this->prefixed($keys)]);
    }

    /**
     * Sets a time to live in seconds. Time: O(1).
     *
     * `EXPIRE key seconds [NX | XX | GT | LT]`
     *
     * @return bool
     */
    public function expire(string $key, string|int|float $seconds, mixed ...$options): mixed
    {
        return $this->call(['EXPIRE', $this->prefix . $key, $seconds, ...Words::options($options)], 'bool');
    }

    /**
     * Sets the second at which a key expires. Time: O(1).
     *
     * `EXPIREAT key unix-time-seconds [NX | XX | GT | LT]`
     *
     * @return bool
     */
    public function expireAt(string $key, string|int|float $timestamp, mixed ...$options): mixed
    {
        return $this->call(['EXPIREAT', $this->prefix . $key, $timestamp, ...Words::options($options)], 'bool');
    }

    /**
     * Returns the second at which a key expires. Time: O(1).
     *
     * `EXPIRETIME key`
     *
     * @return int
     */
    public function expireTime(string $key): mixed
    {
        return $this->call(['EXPIRETIME', $this->prefix . $key]);
    }

    /**
     * Answers NOKEY where none of the keys is there; moving those that are is not done yet. Time: O(N) for N keys.
     *
     * `MIGRATE host port key | "" destination-db timeout [COPY] [REPLACE] [AUTH password | AUTH2 username password]
     * [KEYS key [key ...]]`
     *
     * @return string
     */
    public function migrate(
        string|int|float $host,
        string|int|float $port,
        string $key,
        string|int|float $database,
        string|int|float $timeout,
        mixed ...$options,
    ): mixed {
        return $this->call([
            'MIGRATE',
            $host,
            $port,
            $this->prefix . $key,
            $database,
            $timeout,
            ...Words::options($options),
        ]);
    }

    /**
     * Moves a key to another database where it is not there yet. Time: O(1).
     *
     * `MOVE key db`
     *
     * @return bool
     */
    public function move(string $key, string|int|float $database): mixed
    {
        return $this->call(['MOVE', $this->prefix . $key, $database], 'bool');
    }

    /**
     * Removes a key's time to live. Time: O(1).
     *
     * `PERSIST key`
     *
     * @return bool
     */
    public function persist(string $key): mixed
    {
        return $this->call(['PERSIST', $this->prefix . $key], 'bool');
    }

    /**
     * Sets a time to live in milliseconds. Time: O(1).
     *
     * `PEXPIRE key milliseconds [NX | XX | GT | LT]`
     *
     * @return bool
     */
    public function pExpire(string $key, string|int|float $milliseconds, mixed ...$options): mixed
    {
        return $this->call(['PEXPIRE', $this->prefix . $key, $milliseconds, ...Words::options($options)], 'bool');
    }

    /**
     * Sets the millisecond at which a key expires. Time: O(1).
     *
     * `PEXPIREAT key unix-time-milliseconds [NX | XX | GT | LT]`
     *
     * @return bool
     */
    public function pExpireAt(string $key, string|int|float $timestamp, mixed ...$options): mixed
    {
        return $this->call(['PEXPIREAT', $this->prefix . $key, $timestamp, ...Words::options($options)], 'bool');
    }

    /**
     * Returns the millisecond at which a key expires. Time: O(1).
     *
     * `PEXPIRETIME key`
     *
     * @return int
     */
    public function pExpireTime(string $key): mixed
    {
        return $this->call(['PEXPIRETIME', $this->prefix . $key]);
    }

    /**
     * Returns the time a key has left, in milliseconds. Time: O(1).
     *
     * `PTTL key`
     *
     * @return int
     */
    public function pTtl(string $key): mixed
    {
        return $this->call(['PTTL', $this->prefix . $key]);
    }

    /**
     * Returns some key of the database. Time: O(1).
     *
     * `RANDOMKEY`
     *
     * @return mixed
     */
    public function randomKey(): mixed
    {
        return $this->call(['RANDOMKEY']);
    }

    /**
     * Gives a key another name, replacing what had that name. Time: O(1).
     *
     * `RENAME key newkey`
     *
     * @return bool
     */
    public function rename(string $key, string $to): mixed
    {
        return $this->call(['RENAME', $this->prefix . $key, $this->prefix . $to], 'bool');
    }

    /**
     * Gives a key another name where that one is free. Time: O(1).
     *
     * `RENAMENX key newkey`
     *
     * @return bool
     */
    public function renameNx(string $key, string $to): mixed
    {
        return $this->call(['RENAMENX', $this->prefix . $key, $this->prefix . $to], 'bool');
    }

    /**
     * Creates a key from what DUMP returned. Time: O(N) in the size of the payload.
     *
     * `RESTORE key ttl serialized-value [REPLACE] [ABSTTL] [IDLETIME seconds] [FREQ frequency]`
     *
     * @return bool
     */
    public function restore(
        string $key,
        string|int|float $milliseconds,
        string|int|float $dump,
        mixed ...$options,
    ): mixed {
        return $this->call([
            'RESTORE',
            $this->prefix . $key,
            $milliseconds,
            $dump,
            ...Words::options($options),
        ], 'bool');
    }

    /**
     * Returns the elements of a list, a set or a sorted set in an order, or stores them as a list. Time: O(N+M*log(M))
     * for N elements and M returned; O(N) where they are not sorted.
     *
     * `SORT key [BY pattern] [LIMIT offset count] [GET pattern [GET pattern ...]] [ASC | DESC] [ALPHA] [STORE
     * destination]`
     *
     * @return mixed
     */
    public function sort(string $key, mixed ...$options): mixed
    {
        return $this->call(['SORT', $this->prefix . $key, ...$this->keyOptions($options, 'BY', 'GET', 'STORE')]);
    }

    /**
     * Returns the elements of a list, a set or a sorted set in an order. Time: O(N+M*log(M)) for N elements and M
     * returned; O(N) where they are not sorted.
     *
     * `SORT_RO key [BY pattern] [LIMIT offset count] [GET pattern [GET pattern ...]] [ASC | DESC] [ALPHA]`
     *
     * @return mixed
     */
    public function sortRo(string $key, mixed ...$options): mixed
    {
        return $this->call(['SORT_RO', $this->prefix . $key, ...$this->keyOptions($options, 'BY', 'GET', 'STORE')]);
    }

    /**
     * Marks keys as just used. Time: O(N) for N keys.
     *
     * `TOUCH key [key ...]`
     *
     * @return int
     */
    public function touch(string|array ...$keys): mixed
    {
        return $this->call(['TOUCH', ...$this->prefixed($keys)]);
    }

    /**
     * Returns the time a key has left, in seconds. Time: O(1).
     *
     * `TTL key`
     *
     * @return int
     */
    public function ttl(string $key): mixed
    {
        return $this->call(['TTL', $this->prefix . $key]);
    }

    /**
     * Names the type of what a key holds; none where it does not exist. Time: O(1).
     *
     * `TYPE key`
     *
     * @return string
     */
    public function type(string $key): mixed
    {
        return $this->call(['TYPE', $this->prefix . $key]);
    }

    /**
     * Deletes keys and leaves freeing what they held for later. Time: O(N) for N keys; large values are freed later.
     *
     * `UNLINK key [key ...]`
     *
     * @return int
     */
    public function unlink(string|array ...$keys): mixed
    {
        return $this->call(['UNLINK', ...$this->prefixed($keys)]);
    }

    /**
     * Looks at how a value is stored. Time: That of the subcommand.
     *
     * `OBJECT`
     *
     * @return mixed
     */
    public function object(string|int|float $subcommand, string $key): mixed
    {
        return $this->call(['OBJECT', $subcommand, $this->prefix . $key]);
    }
}
