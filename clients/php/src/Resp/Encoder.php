<?php

declare(strict_types=1);

namespace Undercroft\Resp;

use Undercroft\ArgumentException;

use function count;
use function is_string;
use function strlen;

/** Encodes commands in the Redis protocol. */
final class Encoder
{
    /** @param list<mixed> $words */
    public static function command(array $words): string
    {
        $count = count($words);
        $request = "*$count\r\n";
        foreach ($words as $word) {
            if (!is_string($word)) {
                $word = self::word($word);
            }
            $length = strlen($word);
            $request .= "\$$length\r\n$word\r\n";
        }
        return $request;
    }

    /** @param list<list<mixed>> $commands */
    public static function commands(array $commands): string
    {
        $request = '';
        foreach ($commands as $words) {
            $count = count($words);
            $request .= "*$count\r\n";
            foreach ($words as $word) {
                if (!is_string($word)) {
                    $word = self::word($word);
                }
                $length = strlen($word);
                $request .= "\$$length\r\n$word\r\n";
            }
        }
        return $request;
    }

    /**
     * Converts a word that is not a string. Numbers are formatted so that parsing restores the same
     * number.
     */
    public static function word(mixed $word): string
    {
        if (is_int($word)) {
            return (string) $word;
        }
        if (is_float($word)) {
            return self::number($word);
        }
        if ($word instanceof \Stringable) {
            return (string) $word;
        }
        throw new ArgumentException('expected a string or a number as a command argument, got '
            . get_debug_type($word) . '; convert it, or set the option serializer for values');
    }

    private static function number(float $number): string
    {
        if (is_nan($number)) {
            throw new ArgumentException('expected a number as a command argument, got NAN');
        }
        if (is_infinite($number)) {
            return $number > 0 ? 'inf' : '-inf';
        }
        $text = var_export($number, true);
        return str_ends_with($text, '.0') ? substr($text, 0, -2) : $text;
    }
}
