<?php

declare(strict_types=1);

namespace Undercroft\Commands;

/** Made by tools/generate.php of tools/commands.php. */
trait Sets
{
    /**
     * Adds members to a set. Time: O(N) for N members.
     *
     * `SADD key member [member ...]`
     *
     * @return int
     */
    public function sAdd(string $key, mixed ...$members): mixed
    {
        return $this->call(['SADD', $this->prefix . $key, ...$this->packed($members)]);
    }

    /**
     * Counts the members of a set. Time: O(1).
     *
     * `SCARD key`
     *
     * @return int
     */
    public function sCard(string $key): mixed
    {
        return $this->call(['SCARD', $this->prefix . $key]);
    }

    /**
     * Returns what is in the first of several sets and in none of the others. Time: O(N) for N members in all sets.
     *
     * `SDIFF key [key ...]`
     *
     * @return mixed the value or the list of values
     */
    public function sDiff(string|array ...$keys): mixed
    {
        return $this->call(['SDIFF', ...$this->prefixed($keys)], 'values');
    }

    /**
     * Stores what is in the first of several sets and in none of the others. Time: O(N) for N members in all sets.
     *
     * `SDIFFSTORE destination key [key ...]`
     *
     * @return int
     */
    public function sDiffStore(string $destination, string|array ...$keys): mixed
    {
        return $this->call(['SDIFFSTORE', $this->prefix . $destination, ...$this->prefixed($keys)]);
    }

    /**
     * Returns what is in all of several sets. Time: O(N*M) for the smallest of M sets with N members.
     *
     * `SINTER key [key ...]`
     *
     * @return mixed the value or the list of values
     */
    public function sInter(string|array ...$keys): mixed
    {
        return $this->call(['SINTER', ...$this->prefixed($keys)], 'values');
    }

    /**
     * Counts what is in all of several sets. Time: O(N*M) for the smallest of M sets with N members.
     *
     * `SINTERCARD numkeys key [key ...] [LIMIT limit]`
     *
     * @return int
     */
    public function sInterCard(string|array $keys, mixed ...$options): mixed
    {
        return $this->call([
            'SINTERCARD',
            ...Words::counted($this->prefixed((array) $keys)),
            ...Words::options($options),
        ]);
    }

    /**
     * Stores what is in all of several sets. Time: O(N*M) for the smallest of M sets with N members.
     *
     * `SINTERSTORE destination key [key ...]`
     *
     * @return int
     */
    public function sInterStore(string $destination, string|array ...$keys): mixed
    {
        return $this->call(['SINTERSTORE', $this->prefix . $destination, ...$this->prefixed($keys)]);
    }

    /**
     * Says whether a set has a member. Time: O(1).
     *
     * `SISMEMBER key member`
     *
     * @return bool
     */
    public function sIsMember(string $key, mixed $member): mixed
    {
        return $this->call(['SISMEMBER', $this->prefix . $key, $this->pack($member)], 'bool');
    }

    /**
     * Returns the members of a set. Time: O(N) for N members.
     *
     * `SMEMBERS key`
     *
     * @return mixed the value or the list of values
     */
    public function sMembers(string $key): mixed
    {
        return $this->call(['SMEMBERS', $this->prefix . $key], 'values');
    }

    /**
     * Says which of several members a set has. Time: O(N) for N members.
     *
     * `SMISMEMBER key member [member ...]`
     *
     * @return list<bool>
     */
    public function sMIsMember(string $key, mixed ...$members): mixed
    {
        return $this->call(['SMISMEMBER', $this->prefix . $key, ...$this->packed($members)], 'bools');
    }

    /**
     * Moves a member from one set to another. Time: O(1).
     *
     * `SMOVE source destination member`
     *
     * @return bool
     */
    public function sMove(string $source, string $destination, mixed $member): mixed
    {
        return $this->call([
            'SMOVE',
            $this->prefix . $source,
            $this->prefix . $destination,
            $this->pack($member),
        ], 'bool');
    }

    /**
     * Removes members chosen by chance and returns them. Time: O(N) for N members.
     *
     * `SPOP key [count]`
     *
     * @return mixed the value or the list of values
     */
    public function sPop(string $key, string|int|float|null $count = null): mixed
    {
        return $this->call(['SPOP', $this->prefix . $key, ...($count === null ? [] : [$count])], 'values');
    }

    /**
     * Returns members chosen by chance, different ones unless the count is negative. Time: O(N) for N members.
     *
     * `SRANDMEMBER key [count]`
     *
     * @return mixed the value or the list of values
     */
    public function sRandMember(string $key, string|int|float|null $count = null): mixed
    {
        return $this->call(['SRANDMEMBER', $this->prefix . $key, ...($count === null ? [] : [$count])], 'values');
    }

    /**
     * Removes members of a set, and the set with the last of them. Time: O(N) for N members.
     *
     * `SREM key member [member ...]`
     *
     * @return int
     */
    public function sRem(string $key, mixed ...$members): mixed
    {
        return $this->call(['SREM', $this->prefix . $key, ...$this->packed($members)]);
    }

    /**
     * Returns what is in any of several sets. Time: O(N) for N members in all sets.
     *
     * `SUNION key [key ...]`
     *
     * @return mixed the value or the list of values
     */
    public function sUnion(string|array ...$keys): mixed
    {
        return $this->call(['SUNION', ...$this->prefixed($keys)], 'values');
    }

    /**
     * Stores what is in any of several sets. Time: O(N) for N members in all sets.
     *
     * `SUNIONSTORE destination key [key ...]`
     *
     * @return int
     */
    public function sUnionStore(string $destination, string|array ...$keys): mixed
    {
        return $this->call(['SUNIONSTORE', $this->prefix . $destination, ...$this->prefixed($keys)]);
    }
}
