<?php

declare(strict_types=1);

namespace Undercroft\Commands;

use Undercroft\ArgumentException;

/** Provides the commands whose arguments follow no common pattern. */
trait Written
{
    /**
     * Sets fields in a hash: `hSet('k', 'field', 'value', ...)` or `hSet('k', ['field' =>
     * 'value'])`. Time: O(N) for N fields.
     *
     * @return int the number of added fields
     */
    public function hSet(string $key, mixed ...$fields): mixed
    {
        if (count($fields) === 1 && is_array($fields[0] ?? null)) {
            return $this->call(['HSET', $this->prefix . $key, ...$this->pairs($fields[0])]);
        }
        if (count($fields) % 2 !== 0 || $fields === []) {
            throw new ArgumentException('expected fields and values by turns, got ' . count($fields) . ' words');
        }
        $words = ['HSET', $this->prefix . $key];
        foreach (array_chunk($fields, 2) as [$field, $value]) {
            $words[] = $field;
            $words[] = $this->pack($value);
        }
        return $this->call($words);
    }

    /**
     * Adds members to a sorted set or updates their scores. Time: O(log(N)) per member.
     *
     * `zAdd('k', ['ada' => 1.5, 'bob' => 2])`, `zAdd('k', ['nx', 'ch'], 1.5, 'ada')` or `zAdd('k',
     * 1.5, 'ada', 2, 'bob')`. Options may also come last: `zAdd('k', ['ada' => 1.5], ['gt'])`.
     *
     * @return mixed the number of added members; with `ch`, the number of changed members; with
     *     `incr`, the new score
     */
    public function zAdd(string $key, mixed ...$arguments): mixed
    {
        $options = $members = [];
        $plain = [];
        foreach ($arguments as $argument) {
            if (!is_array($argument)) {
                $plain[] = $argument;
            } elseif (self::areOptions($argument)) {
                array_push($options, ...Words::options([$argument]));
            } else {
                foreach ($argument as $member => $score) {
                    array_push($members, $score, $this->pack($member));
                }
            }
        }
        // Predis passes options as plain words before the first score.
        while (is_string($plain[0] ?? null) && self::areOptions([$plain[0]])) {
            $options[] = array_shift($plain);
        }
        foreach (array_chunk($plain, 2) as $pair) {
            if (count($pair) !== 2) {
                throw new ArgumentException('expected scores and members by turns, got ' . count($plain) . ' words');
            }
            array_push($members, $pair[0], $this->pack($pair[1]));
        }
        $isSum = in_array('INCR', array_map(self::capitals(...), $options), true);
        return $this->call(['ZADD', $this->prefix . $key, ...$options, ...$members], $isSum ? 'float' : '');
    }

    private static function areOptions(array $words): bool
    {
        foreach ($words as $name => $word) {
            $word = is_int($name) ? $word : $name;
            if (!is_string($word) || !in_array(strtoupper($word), ['NX', 'XX', 'GT', 'LT', 'CH', 'INCR'], true)) {
                return false;
            }
        }
        return $words !== [];
    }

    /**
     * Runs a Lua script.
     *
     * Accepts two argument orders: `eval($script, [$key, $argument], 1)` as in phpredis, and
     * `eval($script, 1, $key, $argument)` as in Predis.
     */
    public function eval(string $script, mixed ...$arguments): mixed
    {
        return $this->call($this->scriptWords('EVAL', $script, $arguments));
    }

    /**
     * Runs a script that is cached on the server, identified by its SHA-1. The other arguments are
     * the same as for eval().
     */
    public function evalSha(string $digest, mixed ...$arguments): mixed
    {
        return $this->call($this->scriptWords('EVALSHA', $digest, $arguments));
    }

    /** Runs a read-only Lua script. The arguments are the same as for eval(). */
    public function evalRo(string $script, mixed ...$arguments): mixed
    {
        return $this->call($this->scriptWords('EVAL_RO', $script, $arguments));
    }

    /**
     * Runs a cached read-only script, identified by its SHA-1. The other arguments are the same as
     * for eval().
     */
    public function evalShaRo(string $digest, mixed ...$arguments): mixed
    {
        return $this->call($this->scriptWords('EVALSHA_RO', $digest, $arguments));
    }

    /**
     * Calls a function from a library that is loaded on the server. The other arguments are the
     * same as for eval().
     */
    public function fCall(string $function, mixed ...$arguments): mixed
    {
        return $this->call($this->scriptWords('FCALL', $function, $arguments));
    }

    /**
     * Calls a read-only function from a library that is loaded on the server. The other arguments
     * are the same as for eval().
     */
    public function fCallRo(string $function, mixed ...$arguments): mixed
    {
        return $this->call($this->scriptWords('FCALL_RO', $function, $arguments));
    }

    private function scriptWords(string $command, string $script, array $arguments): array
    {
        if (is_array($arguments[0] ?? null) || $arguments === []) {
            [$words, $count] = [Words::flat([$arguments[0] ?? []]), (int) ($arguments[1] ?? 0)];
        } else {
            $count = (int) array_shift($arguments);
            $words = Words::flat($arguments);
        }
        for ($at = 0; $at < $count && $at < count($words); $at++) {
            $words[$at] = $this->prefix . $words[$at];
        }
        return [$command, $script, $count, ...$words];
    }

    /**
     * Lists keys in batches: `scan($cursor, ['match' => 'user:*', 'count' => 100, 'type' =>
     * 'hash'])`. See also scanIterator().
     *
     * @return array{string, list<string>} the next cursor, '0' at the end, and the keys
     */
    public function scan(string|int $cursor = 0, mixed ...$options): mixed
    {
        $words = Words::options($options);
        if ($this->prefix !== '') {
            $at = array_search('MATCH', array_map(self::capitals(...), $words), true);
            if ($at === false) {
                array_push($words, 'MATCH', $this->pattern('*'));
            } else {
                $words[$at + 1] = $this->pattern($words[$at + 1]);
            }
        }
        return $this->call(['SCAN', $cursor, ...$words], 'scan');
    }

    /**
     * Returns all keys that match a pattern. The returned keys include the prefix. Time: O(N) for N
     * keys.
     *
     * @return list<string>
     */
    public function keys(string $pattern): mixed
    {
        return $this->call(['KEYS', $this->pattern($pattern)]);
    }

    /** Reports memory usage: `memory('usage', $key, ['samples' => 0])`. */
    public function memory(string $subcommand, ?string $key = null, mixed ...$options): mixed
    {
        $words = $key === null ? [] : [$this->prefix . $key];
        return $this->call(['MEMORY', $subcommand, ...$words, ...Words::options($options)]);
    }

    /** @return array{string, array<string, mixed>} the next cursor, and field => value */
    public function hScan(string $key, string|int $cursor = 0, mixed ...$options): mixed
    {
        return $this->call(['HSCAN', $this->prefix . $key, $cursor, ...Words::options($options)], 'scan:hash');
    }

    /** @return array{string, list<mixed>} the next cursor, and members */
    public function sScan(string $key, string|int $cursor = 0, mixed ...$options): mixed
    {
        return $this->call(['SSCAN', $this->prefix . $key, $cursor, ...Words::options($options)], 'scan:set');
    }

    /** @return array{string, array<string, float>} the next cursor, and member => score */
    public function zScan(string $key, string|int $cursor = 0, mixed ...$options): mixed
    {
        return $this->call(['ZSCAN', $this->prefix . $key, $cursor, ...Words::options($options)], 'scan:scores');
    }
}
