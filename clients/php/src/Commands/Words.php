<?php

declare(strict_types=1);

namespace Undercroft\Commands;

use Undercroft\ArgumentException;

/** Makes words of a command of what methods are called with. */
final class Words
{
    /** Commands that change what a connection is, which would be lost with it, and what does the same here. */
    private const STATES = [
        'SELECT' => 'the database stands in the URL',
        'HELLO' => 'see the option protocol',
        'MULTI' => 'see transaction()',
        'EXEC' => 'see transaction()',
        'DISCARD' => 'see transaction()',
        'SUBSCRIBE' => 'see pubSubLoop()',
        'PSUBSCRIBE' => 'see pubSubLoop()',
        'SSUBSCRIBE' => 'see pubSubLoop()',
        'MONITOR' => 'it has no end',
        'SYNC' => 'it has no end',
        'PSYNC' => 'it has no end',
        'REPLCONF' => 'it is for replicas',
        'ASKING' => 'clients of a cluster do so by themselves',
        'READONLY' => 'commands go to the server that has the slot',
        'READWRITE' => 'commands go to the server that has the slot',
        'QUIT' => 'see close()',
        'RESET' => 'see close()',
    ];

    /** Refuses a command that would leave its connection in another state than the client knows of. */
    public static function check(string $name): void
    {
        if (isset(self::STATES[$name])) {
            throw new ArgumentException("expected a command that runs at once and leaves its connection as it is, "
                . "got $name: " . self::STATES[$name]);
        }
    }

    /**
     * The words of options: `['nx', 'ex' => 10, 'limit' => [0, 5], 'withscores' => true]`, or plain words.
     *
     * A name with true is the name alone; one with false or null is left out; one with a list has all of its items
     * behind it.
     *
     * @param array<mixed> $arguments what stands behind the named parameters of a method
     *
     * @return list<string|int|float>
     */
    public static function options(array $arguments): array
    {
        $words = [];
        foreach ($arguments as $name => $argument) {
            if (is_string($name)) {
                // PHP's named arguments.
                $argument = [$name => $argument];
            }
            if (!is_array($argument)) {
                if ($argument === true) {
                    // As phpredis has it: zRange($key, 0, -1, true).
                    $words[] = 'WITHSCORES';
                } elseif ($argument !== null && $argument !== false) {
                    $words[] = $argument;
                }
                continue;
            }
            foreach ($argument as $option => $value) {
                if (is_int($option)) {
                    if (is_array($value)) {
                        array_push($words, ...self::flat($value));
                    } else {
                        $words[] = $value;
                    }
                } elseif ($value !== false && $value !== null) {
                    array_push($words, ...self::option(strtoupper($option), $value));
                }
            }
        }
        return $words;
    }

    /**
     * The words of one option, as Predis and phpredis write it as well: `'limit' => ['offset' => 1, 'count' => 2]`,
     * `'sort' => 'desc'`, `'weights' => ['key' => 2]`.
     *
     * @return list<string|int|float>
     */
    private static function option(string $name, mixed $value): array
    {
        if ($value === true) {
            return [$name];
        }
        if ($name === 'SORT') {
            $order = is_string($value) ? strtoupper($value) : '';
            return $order === 'ASC' || $order === 'DESC' ? [$order] : throw new ArgumentException(
                "expected 'asc' or 'desc' as option sort, got " . (is_string($value) ? "'$value'" : gettype($value)));
        }
        if ($name === 'LIMIT' && is_array($value) && !array_is_list($value)) {
            $parts = array_change_key_case($value);
            if (count($parts) !== 2 || !isset($parts['offset'], $parts['count'])) {
                throw new ArgumentException("expected 'offset' and 'count' in the option limit, got "
                    . implode(', ', array_keys($value)));
            }
            $value = [$parts['offset'], $parts['count']];
        }
        return [$name, ...self::flat([$name === 'WEIGHTS' && is_array($value) ? array_values($value) : $value])];
    }

    /**
     * The words of options of ZUNION and its like. phpredis has the weights and what becomes of scores as arguments:
     * `zUnionStore($to, $keys, [2, 1], 'max')`.
     *
     * @param array<mixed> $arguments
     *
     * @return list<string|int|float>
     */
    public static function weighed(array $arguments): array
    {
        $words = [];
        $weights = $arguments[0] ?? null;
        if (is_array($weights) && $weights !== [] && array_filter($weights, is_numeric(...)) === $weights
            && array_filter(array_keys($weights), self::isOfWeights(...)) === []) {
            array_push($words, 'WEIGHTS', ...array_values($weights));
            $arguments[0] = null;
        }
        $kind = $arguments[1] ?? null;
        if (($arguments[0] ?? null) === null && is_string($kind)
            && in_array(strtoupper($kind), ['SUM', 'MIN', 'MAX'], true)) {
            array_push($words, 'AGGREGATE', $kind);
            $arguments[1] = null;
        }
        return [...$words, ...self::options($arguments)];
    }

    private static function isOfWeights(int|string $name): bool
    {
        return is_string($name) && in_array(strtoupper($name), ['WEIGHTS', 'AGGREGATE', 'WITHSCORES'], true);
    }

    /** @return list<string|int|float> with lists in their places, keys before the items that have some */
    public static function flat(array $arguments): array
    {
        $words = [];
        foreach ($arguments as $argument) {
            if (!is_array($argument)) {
                $words[] = $argument;
                continue;
            }
            $isList = array_is_list($argument);
            foreach ($argument as $name => $value) {
                if (!$isList) {
                    $words[] = $name;
                }
                if (is_array($value)) {
                    array_push($words, ...self::flat($value));
                } else {
                    $words[] = $value;
                }
            }
        }
        return $words;
    }

    /** @return list<string> keys, also those in lists, with a prefix before each */
    public static function prefixed(array $keys, string $prefix): array
    {
        $prefixed = [];
        foreach ($keys as $key) {
            if (is_array($key)) {
                array_push($prefixed, ...self::prefixed($key, $prefix));
            } else {
                $prefixed[] = $prefix . $key;
            }
        }
        return $prefixed;
    }

    /** The seconds that an XREAD waits, 0 without end; null where it does not wait. */
    public static function block(array $words): ?float
    {
        foreach ($words as $at => $word) {
            $name = is_string($word) ? strtoupper($word) : '';
            if ($name === 'BLOCK' && isset($words[$at + 1])) {
                return (float) $words[$at + 1] / 1000;
            }
            if ($name === 'STREAMS') {
                return null;
            }
        }
        return null;
    }

    /** @return list<string|int|float> with their number before them */
    public static function counted(array $words): array
    {
        return [count($words), ...$words];
    }
}
