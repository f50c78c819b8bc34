<?php

declare(strict_types=1);

namespace Undercroft;

/** Which words of a command are keys. */
final class KeyWords
{
    /** Commands that Redis has beside those of the table. */
    private const OTHERS = [
        'XADD' => [1, 1, 1], 'XLEN' => [1, 1, 1], 'XRANGE' => [1, 1, 1], 'XREVRANGE' => [1, 1, 1], 'XDEL' => [1, 1, 1],
        'XTRIM' => [1, 1, 1], 'XACK' => [1, 1, 1], 'XPENDING' => [1, 1, 1], 'XCLAIM' => [1, 1, 1],
        'XAUTOCLAIM' => [1, 1, 1], 'XSETID' => [1, 1, 1], 'XGROUP' => [2, 2, 1], 'XINFO' => [2, 2, 1],
        'OBJECT' => [2, 2, 1], 'MEMORY' => [2, 2, 1], 'EVAL_RO' => [2], 'EVALSHA_RO' => [2], 'FCALL' => [2],
        'FCALL_RO' => [2], 'ZDIFFSTORE' => [2], 'ZINTERSTORE' => [2], 'ZUNIONSTORE' => [2],
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
