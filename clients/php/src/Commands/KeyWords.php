<?php

declare(strict_types=1);

namespace Undercroft\Commands;

use Undercroft\ArgumentException;

/** Which words of a command are keys. */
final class KeyWords
{
    /** Commands of which the table does not tell all, or not in words as they are written. */
    private const OTHERS = [
        'OBJECT' => [2, 2, 1], 'MEMORY' => [2, 2, 1], 'ZDIFFSTORE' => [2], 'ZINTERSTORE' => [2], 'ZUNIONSTORE' => [2],
    ];

    /**
     * @param list<mixed> $words
     *
     * @return list<int>|null the places of keys; null where nothing is known of the command
     */
    public static function of(array $words): ?array
    {
        $name = strtoupper((string) ($words[0] ?? ''));
        if ($name === 'XREAD' || $name === 'XREADGROUP') {
            return self::streams($words);
        }
        $where = self::OTHERS[$name] ?? Table::KEYS[$name] ?? null;
        if ($where === null) {
            return isset(Table::KEYLESS[$name]) ? [] : null;
        }
        $count = count($words);
        $places = [];
        if (count($where) === 1) {
            $number = (int) ($words[$where[0]] ?? 0);
            // Such as ZUNIONSTORE, whose destination stands before the number.
            for ($at = $where[0] + 1; $at <= $where[0] + $number && $at < $count; $at++) {
                $places[] = $at;
            }
            if (str_ends_with($name, 'STORE') && $where[0] === 2) {
                array_unshift($places, 1);
            }
            return $places;
        }
        [$first, $last, $step] = $where;
        $last = $last < 0 ? $count + $last : $last;
        for ($at = $first; $at <= $last && $at < $count; $at += $step) {
            $places[] = $at;
        }
        return $places;
    }

    /** @return list<int> */
    private static function streams(array $words): array
    {
        foreach ($words as $at => $word) {
            if (is_string($word) && strtoupper($word) === 'STREAMS') {
                return range($at + 1, $at + intdiv(count($words) - $at - 1, 2));
            }
        }
        return [];
    }

    /** @return list<mixed> the words, with a prefix before each key */
    public static function prefixed(array $words, string $prefix): array
    {
        $places = self::of($words) ?? throw new ArgumentException(
            "expected a command whose keys are known, as they get a prefix; got $words[0], which can run by execute()");
        foreach ($places as $at) {
            $words[$at] = $prefix . $words[$at];
        }
        return $words;
    }
}
