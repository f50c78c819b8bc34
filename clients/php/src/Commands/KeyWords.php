<?php

declare(strict_types=1);

namespace Undercroft\Commands;

use Undercroft\ArgumentException;

/** Determines which words of a command are keys. */
final class KeyWords
{
    /** Commands that the generated table lacks or whose keys it describes in another form. */
    private const OTHERS = [
        'OBJECT' => [2, 2, 1], 'MEMORY' => [2, 2, 1], 'ZDIFFSTORE' => [2], 'ZINTERSTORE' => [2], 'ZUNIONSTORE' => [2],
    ];

    /**
     * @param list<mixed> $words
     *
     * @return list<int>|null the positions of the keys, or null if the command is unknown
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
            // Commands such as ZUNIONSTORE also have a destination key before the key count.
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

    /** @return list<mixed> the words, with the prefix added to each key */
    public static function prefixed(array $words, string $prefix): array
    {
        $places = self::of($words) ?? throw new ArgumentException(
            "the keys of $words[0] are unknown, so they cannot get the prefix; run it with execute() and "
                . 'add the prefix yourself');
        foreach ($places as $at) {
            $words[$at] = $prefix . $words[$at];
        }
        return $words;
    }
}
