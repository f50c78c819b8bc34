<?php

declare(strict_types=1);

namespace Undercroft\Commands;

use Undercroft\Serializer\Serializer;
use Undercroft\ServerException;

/** Converts replies to method results. */
final class Replies
{
    /**
     * @param string $shape the conversion, as named in tools/commands.php
     * @param list<mixed> $words the command's words
     * @param bool $hasMaps whether maps and floats arrive as such (RESP3), or as lists and strings
     */
    public static function shaped(mixed $reply, string $shape, array $words, bool $hasMaps, ?Serializer $with): mixed
    {
        if ($reply instanceof ServerException) {
            return $reply;
        }
        switch ($shape) {
            case 'bool':
                return $reply === 1 || $reply === true || $reply === 'OK';
            case 'value':
                return $with !== null && is_string($reply) ? $with->decode($reply) : $reply;
            case 'values':
                return self::values($reply, $with);
            case 'float':
                return self::float($reply);
            case 'floats':
                return array_map(self::float(...), $reply);
            case 'bools':
                return array_map(static fn (mixed $each): bool => (bool) $each, $reply);
            case 'hash':
                $hash = $hasMaps ? $reply : self::pairs($reply);
                return self::values($hash, $with);
            case 'scores':
                return self::scores($reply, $with);
            case 'members':
                return self::has($words, 'WITHSCORES', $words[0] === 'ZRANDMEMBER' ? 3 : 2)
                    ? self::scores($reply, $with)
                    : self::values($reply, $with);
            case 'keyed':
                return $reply === null ? null : [$reply[0], self::values($reply[1], $with)];
            case 'scored':
                return $reply === null
                    ? null
                    : [$reply[0], self::values($reply[1], $with), self::float($reply[2])];
            case 'popped':
                if ($reply === null) {
                    return null;
                }
                $isScored = str_contains((string) $words[0], 'Z');
                return [$reply[0], $isScored
                    ? self::scores($reply[1], $with)
                    : self::values($reply[1], $with)];
            case 'fields':
                return self::has($words, 'WITHVALUES', 3) ? self::randomFields($reply, $with) : $reply;
            case 'positions':
                return array_map(static fn (?array $each): ?array => $each === null
                    ? null
                    : [(float) $each[0], (float) $each[1]], $reply);
            case 'places':
                return is_array($reply) ? array_map(self::place(...), $reply) : $reply;
            case 'lcs':
            case 'numbers':
                $isFlat = is_array($reply) && array_is_list($reply);
                return $isFlat && self::isPairs($words) ? self::pairs($reply) : $reply;
            case 'settings':
                return match (strtoupper((string) $words[1])) {
                    'GET' => $hasMaps ? $reply : self::pairs($reply),
                    'SET', 'RESETSTAT', 'REWRITE' => $reply === 'OK',
                    default => $reply,
                };
            case 'clients':
                return match (strtoupper((string) $words[1])) {
                    'LIST' => array_map(self::client(...), explode("\n", trim($reply))),
                    'INFO' => self::client(trim($reply)),
                    default => $reply,
                };
            case 'info':
                return self::info($reply);
            case 'done':
                return $reply === 'OK' ? true : $reply;
            case 'entries':
                return self::entries($reply, $with);
            case 'streams':
                return self::streams($reply, $with);
            case 'claimed':
                return [$reply[0], self::entries($reply[1], $with), $reply[2] ?? []];
            case 'acl':
            case 'cluster':
            case 'functions':
            case 'modules':
            case 'told':
                return self::told($reply, $words, $hasMaps);
            case 'scan:hash':
                return [(string) $reply[0], self::shaped($reply[1], 'hash', $words, false, $with)];
            case 'scan:set':
                return [(string) $reply[0], self::values($reply[1], $with)];
            case 'scan:scores':
                return [(string) $reply[0], self::scores($reply[1], $with)];
            case 'scan':
                return [(string) $reply[0], $reply[1]];
        }
        return $reply;
    }

    /** Returns whether an option occurs among the words from position `$from` on. */
    private static function has(array $words, string $option, int $from): bool
    {
        for ($at = count($words) - 1; $at >= $from; $at--) {
            if (is_string($words[$at]) && strcasecmp($words[$at], $option) === 0) {
                return true;
            }
        }
        return false;
    }

    /** @return array<array-key, mixed> the pairs of a list in which names and values alternate */
    public static function pairs(array $flat): array
    {
        $pairs = [];
        for ($at = 0, $count = count($flat) - 1; $at < $count; $at += 2) {
            $pairs[$flat[$at]] = $flat[$at + 1];
        }
        return $pairs;
    }

    private static function values(mixed $values, ?Serializer $with): mixed
    {
        if ($with === null) {
            return $values;
        }
        if (is_string($values)) {
            return $with->decode($values);
        }
        if (is_array($values)) {
            foreach ($values as $key => $value) {
                if (is_string($value)) {
                    $values[$key] = $with->decode($value);
                }
            }
        }
        return $values;
    }

    /**
     * @param list<mixed> $reply alternating members and scores, or a list of pairs
     *
     * @return array<array-key, float>
     */
    public static function scores(array $reply, ?Serializer $with = null): array
    {
        if ($reply !== [] && is_array($reply[0])) {
            $reply = array_merge(...$reply);
        }
        $scores = [];
        for ($at = 0, $count = count($reply) - 1; $at < $count; $at += 2) {
            $member = $reply[$at];
            if ($with !== null) {
                $decoded = $with->decode($member);
                // A decoded value that cannot be an array key remains in its stored form.
                $member = is_string($decoded) || is_int($decoded) ? $decoded : $member;
            }
            $scores[$member] = self::float($reply[$at + 1]);
        }
        return $scores;
    }

    private static function randomFields(mixed $reply, ?Serializer $with): mixed
    {
        if (!is_array($reply)) {
            return $reply;
        }
        $fields = $reply !== [] && is_array($reply[0]) ? array_column($reply, 1, 0) : self::pairs($reply);
        return self::values($fields, $with);
    }

    public static function float(mixed $number): ?float
    {
        return match ($number) {
            null => null,
            'inf' => INF,
            '-inf' => -INF,
            'nan', '-nan' => NAN,
            default => (float) $number,
        };
    }

    /**
     * Converts one place in a GEOSEARCH result. The distance and the coordinates, if requested,
     * become numbers.
     */
    private static function place(mixed $place): mixed
    {
        if (!is_array($place)) {
            return $place;
        }
        foreach ($place as $at => $part) {
            if ($at > 0) {
                $place[$at] = match (true) {
                    is_array($part) => [(float) $part[0], (float) $part[1]],
                    is_string($part) => (float) $part,
                    default => $part,
                };
            }
        }
        return $place;
    }

    /**
     * Converts the entries of a stream.
     *
     * @return array<string, array<array-key, mixed>|null> id => [field => value], null for a
     *     deleted entry; a list if the reply contains only IDs
     */
    private static function entries(array $reply, ?Serializer $with): array
    {
        if (is_string($reply[0] ?? null)) {
            return $reply;
        }
        $entries = [];
        foreach ($reply as $entry) {
            if ($entry !== null) {
                $entries[$entry[0]] = $entry[1] === null ? null : self::values(self::pairs($entry[1]), $with);
            }
        }
        return $entries;
    }

    /** @return array<array-key, array>|null stream => entries */
    private static function streams(?array $reply, ?Serializer $with): ?array
    {
        if ($reply === null) {
            return null;
        }
        // RESP2 sends a list of pairs, and RESP3 sends a map.
        $streams = array_is_list($reply) && is_array($reply[0] ?? null) && is_string($reply[0][0] ?? null)
            ? array_column($reply, 1, 0)
            : $reply;
        return array_map(static fn (array $entries): array => self::entries($entries, $with), $streams);
    }

    /**
     * Converts a subcommand's reply to an array of names and values, or to a list of name-value
     * arrays.
     */
    private static function told(mixed $reply, array $words, bool $hasMaps): mixed
    {
        $what = "$words[0] " . strtoupper((string) $words[1]);
        if ($reply === 'OK') {
            return true;
        }
        if ($what === 'CLUSTER INFO') {
            return self::info("# Cluster\n$reply")['Cluster'];
        }
        if ($hasMaps || !is_array($reply)) {
            return $reply;
        }
        return match ($what) {
            'ACL GETUSER', 'XINFO STREAM', 'FUNCTION STATS' => self::pairs($reply),
            'XINFO GROUPS', 'XINFO CONSUMERS', 'FUNCTION LIST', 'MODULE LIST', 'ACL LOG', 'CLUSTER LINKS',
            'CLUSTER SHARDS' => array_map(self::pairs(...), $reply),
            default => $reply,
        };
    }

    private static function isPairs(array $words): bool
    {
        $name = $words[0] === 'LCS' ? 'IDX' : 'NUMSUB';
        return self::has($words, $name, 1) || self::has($words, 'SHARDNUMSUB', 1);
    }

    /** @return array<string, string> */
    private static function client(string $line): array
    {
        $client = [];
        foreach (explode(' ', $line) as $pair) {
            [$name, $value] = explode('=', $pair, 2) + [1 => ''];
            $client[$name] = $value;
        }
        return $client;
    }

    /** @return array<string, array<string, string>|string> section => name => value */
    private static function info(string $text): array
    {
        $info = [];
        $section = '';
        foreach (explode("\n", $text) as $line) {
            $line = rtrim($line, "\r");
            if (str_starts_with($line, '# ')) {
                $section = substr($line, 2);
                $info[$section] = [];
            } elseif (str_contains($line, ':')) {
                [$name, $value] = explode(':', $line, 2);
                $info[$section][$name] = $value;
            }
        }
        return $info;
    }
}
