<?php

declare(strict_types=1);

namespace Undercroft;

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
                } elseif ($value === true) {
                    $words[] = strtoupper($option);
                } elseif ($value !== false && $value !== null) {
                    array_push($words, strtoupper($option), ...self::flat([$value]));
                }
            }
        }
        return $words;
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
