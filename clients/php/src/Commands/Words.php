<?php

declare(strict_types=1);

namespace Undercroft\Commands;

use Undercroft\ArgumentException;

/** Converts method arguments to command words. */
final class Words
{
    /**
     * Commands that are refused because they never end, or because they change connection state
     * that a reconnect would lose. Each command comes with a hint for its error message.
     */
    private const STATES = [
        'SELECT' => 'the database is part of the URL',
        'HELLO' => 'use the option protocol',
        'MULTI' => 'see transaction()',
        'EXEC' => 'see transaction()',
        'DISCARD' => 'see transaction()',
        'SUBSCRIBE' => 'see pubSubLoop()',
        'PSUBSCRIBE' => 'see pubSubLoop()',
        'SSUBSCRIBE' => 'see pubSubLoop()',
        'MONITOR' => 'it never ends',
        'SYNC' => 'it never ends',
        'PSYNC' => 'it never ends',
        'REPLCONF' => 'it is for replicas',
        'ASKING' => 'a cluster client does this automatically',
        'READONLY' => 'commands go to the server that owns the slot',
        'READWRITE' => 'commands go to the server that owns the slot',
        'QUIT' => 'see close()',
        'RESET' => 'see close()',
    ];

    /**
     * Refuses a command that would change the connection's state without the client's knowledge.
     */
    public static function check(string $name): void
    {
        if (isset(self::STATES[$name])) {
            throw new ArgumentException("expected a command that returns at once and does not change its connection, "
                . "got $name: " . self::STATES[$name]);
        }
    }

    /**
     * Returns the words of options, which have the form `['nx', 'ex' => 10, 'limit' => [0, 5],
     * 'withscores' => true]` or are plain words.
     *
     * An option that is true is sent as its name alone. False and null omit the option. If an
     * option is a list, its items follow the option's name.
     *
     * @param array<mixed> $arguments the arguments after a method's named parameters
     *
     * @return list<string|int|float>
     */
    public static function options(array $arguments): array
    {
        $words = [];
        foreach ($arguments as $name => $argument) {
            if (is_string($name)) {
                // PHP stores named arguments under their names.
                $argument = [$name => $argument];
            }
            if (!is_array($argument)) {
                if ($argument === true) {
                    // phpredis allows `true` for WITHSCORES: zRange($key, 0, -1, true).
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
     * Returns the words of one option. Also accepts the forms of Predis and phpredis: `'limit' =>
     * ['offset' => 1, 'count' => 2]`, `'sort' => 'desc'`, `'weights' => ['key' => 2]`.
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
     * Returns the option words of ZUNION and similar commands. As in phpredis, the weights and the
     * aggregate function can be plain arguments: `zUnionStore($to, $keys, [2, 1], 'max')`.
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

    /**
     * @return list<string|int|float> the words, with lists flattened and string keys before their items
     */
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

    /** @return list<string> all keys, including those in nested lists, with the prefix */
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

    /**
     * Returns the number of seconds that an XREAD blocks, 0 for no limit, or null if it does not
     * block.
     */
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

    /** @return list<string|int|float> the words, preceded by their count */
    public static function counted(array $words): array
    {
        return [count($words), ...$words];
    }
}
