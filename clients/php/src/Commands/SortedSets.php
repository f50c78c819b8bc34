<?php

declare(strict_types=1);

namespace Undercroft\Commands;

/** Made by tools/generate.php of tools/commands.php. */
trait SortedSets
{
    /**
     * Removes members of the first sorted set that is there, or waits for one, and returns them. Time:
     * O(K)+O(M*log(N)) for K keys and M members.
     *
     * `BZMPOP timeout numkeys key [key ...] MIN | MAX [COUNT count]`
     *
     * @return array{string, array}|null key, and what was taken from it
     */
    public function bzmPop(
        string|int|float $timeout,
        string|array $keys,
        string|int|float $end,
        mixed ...$options,
    ): mixed {
        return $this->call([
            'BZMPOP',
            $timeout,
            ...Words::counted($this->prefixed((array) $keys)),
            $end,
            ...Words::options($options),
        ], 'popped', $timeout);
    }

    /**
     * Removes the member with the highest score of the first of several sorted sets that has any, or waits for one.
     * Time: O(log(N)).
     *
     * `BZPOPMAX key [key ...] timeout`
     *
     * @return array{string, mixed, float}|null key, member and score
     */
    public function bzPopMax(string|array $keys, string|int|float $timeout): mixed
    {
        return $this->call(['BZPOPMAX', ...$this->prefixed((array) $keys), $timeout], 'scored', $timeout);
    }

    /**
     * Removes the member with the lowest score of the first of several sorted sets that has any, or waits for one.
     * Time: O(log(N)).
     *
     * `BZPOPMIN key [key ...] timeout`
     *
     * @return array{string, mixed, float}|null key, member and score
     */
    public function bzPopMin(string|array $keys, string|int|float $timeout): mixed
    {
        return $this->call(['BZPOPMIN', ...$this->prefixed((array) $keys), $timeout], 'scored', $timeout);
    }

    /**
     * Counts the members of a sorted set. Time: O(1).
     *
     * `ZCARD key`
     *
     * @return int
     */
    public function zCard(string $key): mixed
    {
        return $this->call(['ZCARD', $this->prefix . $key]);
    }

    /**
     * Counts the members in a range of scores. Time: O(log(N)).
     *
     * `ZCOUNT key min max`
     *
     * @return int
     */
    public function zCount(string $key, string|int|float $min, string|int|float $max): mixed
    {
        return $this->call(['ZCOUNT', $this->prefix . $key, $min, $max]);
    }

    /**
     * Returns what is in the first of several sorted sets only. Time: O(N)+O(M*log(M)) for N members of all and M of
     * the result.
     *
     * `ZDIFF numkeys key [key ...] [WITHSCORES]`
     *
     * @return list<mixed>|array<string, float> with scores: member => score
     */
    public function zDiff(string|array $keys, mixed ...$options): mixed
    {
        return $this->call([
            'ZDIFF',
            ...Words::counted($this->prefixed((array) $keys)),
            ...Words::options($options),
        ], 'members');
    }

    /**
     * Stores what is in the first of several sorted sets only. Time: O(N)+O(M*log(M)) for N members of all and M of
     * the result.
     *
     * `ZDIFFSTORE destination numkeys key [key ...]`
     *
     * @return int
     */
    public function zDiffStore(string $destination, string|array $keys): mixed
    {
        return $this->call([
            'ZDIFFSTORE',
            $this->prefix . $destination,
            ...Words::counted($this->prefixed((array) $keys)),
        ]);
    }

    /**
     * Adds to the score of a member, which may be new. Time: O(log(N)).
     *
     * `ZINCRBY key increment member`
     *
     * @return float|null
     */
    public function zIncrBy(string $key, string|int|float $increment, mixed $member): mixed
    {
        return $this->call(['ZINCRBY', $this->prefix . $key, $increment, $this->pack($member)], 'float');
    }

    /**
     * Returns what is in all of several sorted sets. Time: O(N)+O(M*log(M)) for N members of all and M of the result.
     *
     * `ZINTER numkeys key [key ...] [WEIGHTS weight [weight ...]] [AGGREGATE SUM | MIN | MAX] [WITHSCORES]`
     *
     * @return list<mixed>|array<string, float> with scores: member => score
     */
    public function zInter(string|array $keys, mixed ...$options): mixed
    {
        return $this->call([
            'ZINTER',
            ...Words::counted($this->prefixed((array) $keys)),
            ...Words::weighed($options),
        ], 'members');
    }

    /**
     * Counts what is in all of several sorted sets. Time: O(N) for N members of all.
     *
     * `ZINTERCARD numkeys key [key ...] [LIMIT limit]`
     *
     * @return int
     */
    public function zInterCard(string|array $keys, mixed ...$options): mixed
    {
        return $this->call([
            'ZINTERCARD',
            ...Words::counted($this->prefixed((array) $keys)),
            ...Words::options($options),
        ]);
    }

    /**
     * Stores what is in all of several sorted sets. Time: O(N)+O(M*log(M)) for N members of all and M of the result.
     *
     * `ZINTERSTORE destination numkeys key [key ...] [WEIGHTS weight [weight ...]] [AGGREGATE SUM | MIN | MAX]`
     *
     * @return int
     */
    public function zInterStore(string $destination, string|array $keys, mixed ...$options): mixed
    {
        return $this->call([
            'ZINTERSTORE',
            $this->prefix . $destination,
            ...Words::counted($this->prefixed((array) $keys)),
            ...Words::weighed($options),
        ]);
    }

    /**
     * Counts the members in a range of texts, where all scores are equal. Time: O(log(N)).
     *
     * `ZLEXCOUNT key min max`
     *
     * @return int
     */
    public function zLexCount(string $key, string|int|float $min, string|int|float $max): mixed
    {
        return $this->call(['ZLEXCOUNT', $this->prefix . $key, $min, $max]);
    }

    /**
     * Removes members of the first sorted set that is there and returns them. Time: O(K)+O(M*log(N)) for K keys and M
     * members.
     *
     * `ZMPOP numkeys key [key ...] MIN | MAX [COUNT count]`
     *
     * @return array{string, array}|null key, and what was taken from it
     */
    public function zmPop(string|array $keys, string|int|float $end, mixed ...$options): mixed
    {
        return $this->call([
            'ZMPOP',
            ...Words::counted($this->prefixed((array) $keys)),
            $end,
            ...Words::options($options),
        ], 'popped');
    }

    /**
     * Returns the scores of several members. Time: O(N) for N members.
     *
     * `ZMSCORE key member [member ...]`
     *
     * @return list<float|null>
     */
    public function zmScore(string $key, mixed ...$members): mixed
    {
        return $this->call(['ZMSCORE', $this->prefix . $key, ...$this->packed($members)], 'floats');
    }

    /**
     * Removes the members with the highest scores and returns them. Time: O(log(N)) for each member.
     *
     * `ZPOPMAX key [count]`
     *
     * @return array<string, float> member => score
     */
    public function zPopMax(string $key, string|int|float|null $count = null): mixed
    {
        return $this->call(['ZPOPMAX', $this->prefix . $key, ...($count === null ? [] : [$count])], 'scores');
    }

    /**
     * Removes the members with the lowest scores and returns them. Time: O(log(N)) for each member.
     *
     * `ZPOPMIN key [count]`
     *
     * @return array<string, float> member => score
     */
    public function zPopMin(string $key, string|int|float|null $count = null): mixed
    {
        return $this->call(['ZPOPMIN', $this->prefix . $key, ...($count === null ? [] : [$count])], 'scores');
    }

    /**
     * Returns members chosen by chance, different ones unless the count is negative. Time: O(N) for N members
     * returned.
     *
     * `ZRANDMEMBER key [count [WITHSCORES]]`
     *
     * @return list<mixed>|array<string, float> with scores: member => score
     */
    public function zRandMember(string $key, mixed ...$options): mixed
    {
        return $this->call(['ZRANDMEMBER', $this->prefix . $key, ...Words::options($options)], 'members');
    }

    /**
     * Returns members by rank, score or text. Time: O(log(N)+M) for M members.
     *
     * `ZRANGE key start stop [BYSCORE | BYLEX] [REV] [LIMIT offset count] [WITHSCORES]`
     *
     * @return list<mixed>|array<string, float> with scores: member => score
     */
    public function zRange(string $key, string|int|float $start, string|int|float $stop, mixed ...$options): mixed
    {
        return $this->call(['ZRANGE', $this->prefix . $key, $start, $stop, ...Words::options($options)], 'members');
    }

    /**
     * Returns members by text, where all scores are equal. Time: O(log(N)+M) for M members.
     *
     * `ZRANGEBYLEX key min max [LIMIT offset count]`
     *
     * @return list<mixed>|array<string, float> with scores: member => score
     */
    public function zRangeByLex(string $key, string|int|float $min, string|int|float $max, mixed ...$options): mixed
    {
        return $this->call(['ZRANGEBYLEX', $this->prefix . $key, $min, $max, ...Words::options($options)], 'members');
    }

    /**
     * Returns members by score. Time: O(log(N)+M) for M members.
     *
     * `ZRANGEBYSCORE key min max [WITHSCORES] [LIMIT offset count]`
     *
     * @return list<mixed>|array<string, float> with scores: member => score
     */
    public function zRangeByScore(string $key, string|int|float $min, string|int|float $max, mixed ...$options): mixed
    {
        return $this->call([
            'ZRANGEBYSCORE',
            $this->prefix . $key,
            $min,
            $max,
            ...Words::options($options),
        ], 'members');
    }

    /**
     * Stores members by rank, score or text. Time: O(log(N)+M*log(M)) for M members.
     *
     * `ZRANGESTORE dst src min max [BYSCORE | BYLEX] [REV] [LIMIT offset count]`
     *
     * @return int
     */
    public function zRangeStore(
        string $destination,
        string $source,
        string|int|float $min,
        string|int|float $max,
        mixed ...$options,
    ): mixed {
        return $this->call([
            'ZRANGESTORE',
            $this->prefix . $destination,
            $this->prefix . $source,
            $min,
            $max,
            ...Words::options($options),
        ]);
    }

    /**
     * Counts the members before one. Time: O(log(N)).
     *
     * `ZRANK key member`
     *
     * @return mixed
     */
    public function zRank(string $key, mixed $member): mixed
    {
        return $this->call(['ZRANK', $this->prefix . $key, $this->pack($member)]);
    }

    /**
     * Removes members of a sorted set, and the set with the last of them. Time: O(log(N)) for each member.
     *
     * `ZREM key member [member ...]`
     *
     * @return int
     */
    public function zRem(string $key, mixed ...$members): mixed
    {
        return $this->call(['ZREM', $this->prefix . $key, ...$this->packed($members)]);
    }

    /**
     * Removes members by text, where all scores are equal. Time: O(log(N)+M) for M members removed.
     *
     * `ZREMRANGEBYLEX key min max`
     *
     * @return int
     */
    public function zRemRangeByLex(string $key, string|int|float $min, string|int|float $max): mixed
    {
        return $this->call(['ZREMRANGEBYLEX', $this->prefix . $key, $min, $max]);
    }

    /**
     * Removes members by rank. Time: O(log(N)+M) for M members removed.
     *
     * `ZREMRANGEBYRANK key start stop`
     *
     * @return int
     */
    public function zRemRangeByRank(string $key, string|int|float $start, string|int|float $stop): mixed
    {
        return $this->call(['ZREMRANGEBYRANK', $this->prefix . $key, $start, $stop]);
    }

    /**
     * Removes members by score. Time: O(log(N)+M) for M members removed.
     *
     * `ZREMRANGEBYSCORE key min max`
     *
     * @return int
     */
    public function zRemRangeByScore(string $key, string|int|float $min, string|int|float $max): mixed
    {
        return $this->call(['ZREMRANGEBYSCORE', $this->prefix . $key, $min, $max]);
    }

    /**
     * Returns members by rank, the highest score first. Time: O(log(N)+M) for M members.
     *
     * `ZREVRANGE key start stop [WITHSCORES]`
     *
     * @return list<mixed>|array<string, float> with scores: member => score
     */
    public function zRevRange(string $key, string|int|float $start, string|int|float $stop, mixed ...$options): mixed
    {
        return $this->call(['ZREVRANGE', $this->prefix . $key, $start, $stop, ...Words::options($options)], 'members');
    }

    /**
     * Returns members by text, where all scores are equal, the greatest first. Time: O(log(N)+M) for M members.
     *
     * `ZREVRANGEBYLEX key max min [LIMIT offset count]`
     *
     * @return list<mixed>|array<string, float> with scores: member => score
     */
    public function zRevRangeByLex(string $key, string|int|float $max, string|int|float $min, mixed ...$options): mixed
    {
        return $this->call([
            'ZREVRANGEBYLEX',
            $this->prefix . $key,
            $max,
            $min,
            ...Words::options($options),
        ], 'members');
    }

    /**
     * Returns members by score, the highest first. Time: O(log(N)+M) for M members.
     *
     * `ZREVRANGEBYSCORE key max min [WITHSCORES] [LIMIT offset count]`
     *
     * @return list<mixed>|array<string, float> with scores: member => score
     */
    public function zRevRangeByScore(
        string $key,
        string|int|float $max,
        string|int|float $min,
        mixed ...$options,
    ): mixed {
        return $this->call([
            'ZREVRANGEBYSCORE',
            $this->prefix . $key,
            $max,
            $min,
            ...Words::options($options),
        ], 'members');
    }

    /**
     * Counts the members behind one. Time: O(log(N)).
     *
     * `ZREVRANK key member`
     *
     * @return mixed
     */
    public function zRevRank(string $key, mixed $member): mixed
    {
        return $this->call(['ZREVRANK', $this->prefix . $key, $this->pack($member)]);
    }

    /**
     * Returns the score of a member. Time: O(1).
     *
     * `ZSCORE key member`
     *
     * @return float|null
     */
    public function zScore(string $key, mixed $member): mixed
    {
        return $this->call(['ZSCORE', $this->prefix . $key, $this->pack($member)], 'float');
    }

    /**
     * Returns what is in any of several sorted sets. Time: O(N)+O(M*log(M)) for N members of all and M of the result.
     *
     * `ZUNION numkeys key [key ...] [WEIGHTS weight [weight ...]] [AGGREGATE SUM | MIN | MAX] [WITHSCORES]`
     *
     * @return list<mixed>|array<string, float> with scores: member => score
     */
    public function zUnion(string|array $keys, mixed ...$options): mixed
    {
        return $this->call([
            'ZUNION',
            ...Words::counted($this->prefixed((array) $keys)),
            ...Words::weighed($options),
        ], 'members');
    }

    /**
     * Stores what is in any of several sorted sets. Time: O(N)+O(M*log(M)) for N members of all and M of the result.
     *
     * `ZUNIONSTORE destination numkeys key [key ...] [WEIGHTS weight [weight ...]] [AGGREGATE SUM | MIN | MAX]`
     *
     * @return int
     */
    public function zUnionStore(string $destination, string|array $keys, mixed ...$options): mixed
    {
        return $this->call([
            'ZUNIONSTORE',
            $this->prefix . $destination,
            ...Words::counted($this->prefixed((array) $keys)),
            ...Words::weighed($options),
        ]);
    }

    /**
     * Adds members with their positions, or gives them other ones. Time: O(log(N)) for each member.
     *
     * `GEOADD key [NX | XX] [CH] longitude latitude member [longitude latitude member ...]`
     *
     * @return int
     */
    public function geoAdd(string $key, mixed ...$options): mixed
    {
        return $this->call(['GEOADD', $this->prefix . $key, ...Words::options($options)]);
    }

    /**
     * Returns the distance of two members. Time: O(1).
     *
     * `GEODIST key member1 member2 [M | KM | FT | MI]`
     *
     * @return float|null
     */
    public function geoDist(string $key, string|int|float $first, string|int|float $second, mixed ...$options): mixed
    {
        return $this->call(['GEODIST', $this->prefix . $key, $first, $second, ...Words::options($options)], 'float');
    }

    /**
     * Returns the positions of members as the letters of a geohash. Time: O(N) for N members.
     *
     * `GEOHASH key [member [member ...]]`
     *
     * @return list<string>
     */
    public function geoHash(string $key, mixed ...$members): mixed
    {
        return $this->call(['GEOHASH', $this->prefix . $key, ...Words::flat($members)]);
    }

    /**
     * Returns the positions of members. Time: O(N) for N members.
     *
     * `GEOPOS key [member [member ...]]`
     *
     * @return list<array{float, float}|null>
     */
    public function geoPos(string $key, mixed ...$members): mixed
    {
        return $this->call(['GEOPOS', $this->prefix . $key, ...Words::flat($members)], 'positions');
    }

    /**
     * Returns or stores members inside a circle around a position. Time: O(N+log(M)) for N members in the cells
     * searched.
     *
     * `GEORADIUS key longitude latitude radius M | KM | FT | MI [WITHCOORD] [WITHDIST] [WITHHASH] [COUNT count [ANY]]
     * [ASC | DESC] [STORE key] [STOREDIST key]`
     *
     * @return array|int
     */
    public function geoRadius(
        string $key,
        string|int|float $longitude,
        string|int|float $latitude,
        string|int|float $radius,
        string|int|float $unit,
        mixed ...$options,
    ): mixed {
        return $this->call([
            'GEORADIUS',
            $this->prefix . $key,
            $longitude,
            $latitude,
            $radius,
            $unit,
            ...$this->keyOptions($options, 'STORE', 'STOREDIST'),
        ], 'places');
    }

    /**
     * Returns members inside a circle around a position. Time: O(N+log(M)) for N members in the cells searched.
     *
     * `GEORADIUS_RO key longitude latitude radius M | KM | FT | MI [WITHCOORD] [WITHDIST] [WITHHASH] [COUNT count
     * [ANY]] [ASC | DESC]`
     *
     * @return array|int
     */
    public function geoRadiusRo(
        string $key,
        string|int|float $longitude,
        string|int|float $latitude,
        string|int|float $radius,
        string|int|float $unit,
        mixed ...$options,
    ): mixed {
        return $this->call([
            'GEORADIUS_RO',
            $this->prefix . $key,
            $longitude,
            $latitude,
            $radius,
            $unit,
            ...$this->keyOptions($options, 'STORE', 'STOREDIST'),
        ], 'places');
    }

    /**
     * Returns or stores members inside a circle around a member. Time: O(N+log(M)) for N members in the cells
     * searched.
     *
     * `GEORADIUSBYMEMBER key member radius M | KM | FT | MI [WITHCOORD] [WITHDIST] [WITHHASH] [COUNT count [ANY]] [ASC
     * | DESC] [STORE key] [STOREDIST key]`
     *
     * @return array|int
     */
    public function geoRadiusByMember(
        string $key,
        string|int|float $member,
        string|int|float $radius,
        string|int|float $unit,
        mixed ...$options,
    ): mixed {
        return $this->call([
            'GEORADIUSBYMEMBER',
            $this->prefix . $key,
            $member,
            $radius,
            $unit,
            ...$this->keyOptions($options, 'STORE', 'STOREDIST'),
        ], 'places');
    }

    /**
     * Returns members inside a circle around a member. Time: O(N+log(M)) for N members in the cells searched.
     *
     * `GEORADIUSBYMEMBER_RO key member radius M | KM | FT | MI [WITHCOORD] [WITHDIST] [WITHHASH] [COUNT count [ANY]]
     * [ASC | DESC]`
     *
     * @return array|int
     */
    public function geoRadiusByMemberRo(
        string $key,
        string|int|float $member,
        string|int|float $radius,
        string|int|float $unit,
        mixed ...$options,
    ): mixed {
        return $this->call([
            'GEORADIUSBYMEMBER_RO',
            $this->prefix . $key,
            $member,
            $radius,
            $unit,
            ...$this->keyOptions($options, 'STORE', 'STOREDIST'),
        ], 'places');
    }

    /**
     * Returns members inside a circle or a box. Time: O(N+log(M)) for N members in the cells searched.
     *
     * `GEOSEARCH key <FROMMEMBER member | FROMLONLAT longitude latitude> <BYRADIUS radius <M | KM | FT | MI> | BYBOX
     * width height <M | KM | FT | MI>> [ASC | DESC] [COUNT count [ANY]] [WITHCOORD] [WITHDIST] [WITHHASH]`
     *
     * @return array|int
     */
    public function geoSearch(string $key, mixed ...$options): mixed
    {
        return $this->call(['GEOSEARCH', $this->prefix . $key, ...Words::options($options)], 'places');
    }

    /**
     * Stores members inside a circle or a box. Time: O(N+log(M)) for N members in the cells searched.
     *
     * `GEOSEARCHSTORE destination source <FROMMEMBER member | FROMLONLAT longitude latitude> <BYRADIUS radius <M | KM
     * | FT | MI> | BYBOX width height <M | KM | FT | MI>> [ASC | DESC] [COUNT count [ANY]] [STOREDIST]`
     *
     * @return int
     */
    public function geoSearchStore(string $destination, string $source, mixed ...$options): mixed
    {
        return $this->call([
            'GEOSEARCHSTORE',
            $this->prefix . $destination,
            $this->prefix . $source,
            ...Words::options($options),
        ]);
    }
}
