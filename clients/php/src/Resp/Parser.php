<?php

declare(strict_types=1);

namespace Undercroft\Resp;

use Undercroft\Connection\Wire;
use Undercroft\ProtocolException;
use Undercroft\ServerException;

use function count;
use function explode;
use function strlen;
use function substr;

/**
 * Reads RESP2 and RESP3 replies.
 *
 * A single explode() call splits the bytes into lines, because PHP's built-in functions are many
 * times faster than PHP loops over bytes. A string without line breaks is the line that follows its
 * length line, so checking the string's length is enough. The lines of a string with line breaks
 * are joined again. A string that is longer than the buffered bytes is read in one piece.
 */
final class Parser implements Reader
{
    /** The maximum nesting depth of replies. */
    private const DEPTH = 64;

    /**
     * The maximum length of a line in bytes. Lines contain only lengths, numbers and errors, so a
     * longer line is a protocol error.
     */
    private const LINE = 65_536;

    /** The number of bytes requested per read. */
    private const CHUNK = 131_072;

    /**
     * The minimum number of remaining items for which the parser looks for a run of strings with
     * equal lengths.
     */
    private const RUN = 64;

    /** @var list<string> the buffered lines; the last line is incomplete */
    private array $lines = [''];

    /** The index of the next line to read. */
    private int $at = 0;

    /** The index of the incomplete line. */
    private int $last = 0;

    public function __construct(private readonly Source|Wire $source)
    {
    }

    public function feed(string $bytes): void
    {
        $left = $this->at === $this->last
            ? $this->lines[$this->last]
            : implode("\r\n", array_slice($this->lines, $this->at));
        $this->split($left . $bytes);
    }

    public function hasBytes(): bool
    {
        return $this->at < $this->last || $this->lines[$this->last] !== '';
    }

    public function next(): mixed
    {
        return $this->item(0);
    }

    public function many(int $count, int $depth = 0): array
    {
        $items = [];
        [$lines, $at, $last] = [$this->lines, $this->at, $this->last];
        // Remember the last length line, because the next string often has the same length.
        [$head, $length] = ['', -1];
        for (; $count > 0; $count--) {
            if ($at < $last && $lines[$at] === '+OK') {
                $items[] = 'OK';
                $at++;
                continue;
            }
            if ($at + 1 < $last) {
                $value = $lines[$at + 1];
                if ($lines[$at] === $head && strlen($value) === $length) {
                    $items[] = $value;
                    $at += 2;
                    continue;
                }
                if ($lines[$at] === '$' . strlen($value)) {
                    [$head, $length] = [$lines[$at], strlen($value)];
                    $items[] = $value;
                    $at += 2;
                    continue;
                }
            }
            $this->at = $at;
            if ($count >= self::RUN && $length >= 0 && $at + 1 >= $last) {
                $count -= $this->run($items, $count, $head, $length);
            }
            $items[] = $this->item($depth);
            $at = $this->at;
            if ($last !== $this->last || $lines !== $this->lines) {
                [$lines, $last] = [$this->lines, $this->last];
            }
        }
        $this->at = $at;
        return $items;
    }

    /**
     * Reads consecutive strings with the same length into a list, up to `$count - 1` strings. The
     * bytes between two of these strings, including the length line, serve as the separator for one
     * explode() call, so that no length line is parsed.
     *
     * @param list<mixed> $items
     *
     * @return int the number of strings that were read
     */
    private function run(array &$items, int $count, string $head, int $length): int
    {
        $bytes = implode("\r\n", array_slice($this->lines, $this->at)) . $this->source->read(self::CHUNK);
        if (!str_starts_with($bytes, "$head\r\n")) {
            $this->split($bytes);
            return 0;
        }
        $between = "\r\n$head\r\n";
        $parts = explode($between, substr($bytes, strlen($head) + 2), $count);
        // The last part is either an incomplete string or a string that is followed by other
        // replies.
        $rest = array_pop($parts);
        $done = 0;
        foreach ($parts as $part) {
            if (strlen($part) !== $length) {
                $rest = implode($between, [...array_slice($parts, $done), $rest]);
                break;
            }
            $items[] = $part;
            $done++;
        }
        $this->split("$head\r\n$rest");
        return $done;
    }

    private function item(int $depth): mixed
    {
        while ($this->at >= $this->last) {
            $this->more();
        }
        $line = $this->lines[$this->at++];
        switch ($line[0] ?? '') {
            case '$':
                return $line === '$-1' ? null : $this->bulk($this->length($line));
            case '+':
                return $line === '+OK' ? 'OK' : substr($line, 1);
            case ':':
                return $this->integer($line);
            case '-':
                return new ServerException(substr($line, 1));
            case '*':
            case '~':
                return $line === '*-1' ? null : $this->many($this->length($line), $this->deeper($depth));
            case '>':
                return new Push($this->many($this->length($line), $this->deeper($depth)));
            case '%':
                return $this->map($line, $depth);
            case '|':
                $this->map($line, $depth);
                return $this->item($this->deeper($depth));
            case '_':
                return null;
            case '#':
                return match ($line) {
                    '#t' => true,
                    '#f' => false,
                    default => throw $this->wrong('#t or #f', $line),
                };
            case ',':
                return $this->double($line);
            case '(':
                return preg_match('~^\([+-]?\d+$~D', $line) ? substr($line, 1) : throw $this->wrong('a number', $line);
            case '=':
                return substr($this->bulk($this->length($line)), 4);
            case '!':
                return new ServerException($this->bulk($this->length($line)));
            default:
                throw $this->wrong('a reply', $line);
        }
    }

    /** @return array<array-key, mixed> */
    private function map(string $line, int $depth): array
    {
        $flat = $this->many(2 * $this->length($line), $this->deeper($depth));
        $map = [];
        for ($at = 0, $count = count($flat); $at < $count; $at += 2) {
            $key = $flat[$at];
            if (!is_string($key) && !is_int($key)) {
                throw $this->wrong('strings or numbers as keys of a map', get_debug_type($key));
            }
            $map[$key] = $flat[$at + 1];
        }
        return $map;
    }

    /** Reads a string of the given length, and its line end. */
    private function bulk(int $length): string
    {
        $value = $this->lines[$this->at];
        while ($this->at < $this->last) {
            $has = strlen($value);
            if ($has === $length) {
                $this->at++;
                return $value;
            }
            if ($has > $length) {
                throw $this->wrong("a string of $length bytes", $value);
            }
            $value .= "\r\n" . $this->lines[++$this->at];
        }
        // All buffered bytes belong to this string, so read the remaining bytes directly.
        $has = strlen($value);
        $parts = [$value];
        while ($has < $length + 2) {
            $part = $this->source->read(max($length + 2 - $has, self::CHUNK));
            $has += strlen($part);
            $parts[] = $part;
        }
        $all = implode('', $parts);
        if (substr_compare($all, "\r\n", $length, 2) !== 0) {
            throw $this->wrong("the end of a string of $length bytes", substr($all, $length, 40));
        }
        $this->split(substr($all, $length + 2));
        return substr($all, 0, $length);
    }

    private function more(): void
    {
        $left = $this->lines[$this->last];
        if (strlen($left) > self::LINE) {
            throw $this->wrong('a line of at most ' . self::LINE . ' bytes', $left);
        }
        $this->split($left . $this->source->read(self::CHUNK));
    }

    private function split(string $bytes): void
    {
        $this->lines = explode("\r\n", $bytes);
        $this->at = 0;
        $this->last = count($this->lines) - 1;
    }

    private function length(string $line): int
    {
        $digits = substr($line, 1);
        if ($digits === '' || strlen($digits) > 12 || strspn($digits, '0123456789') !== strlen($digits)) {
            throw $this->wrong('a length', $line);
        }
        return (int) $digits;
    }

    private function integer(string $line): int
    {
        $digits = substr($line, 1);
        $number = (int) $digits;
        if ((string) $number !== $digits && !preg_match('~^[+-]?\d{1,18}$~D', $digits)) {
            throw $this->wrong('a number', $line);
        }
        return $number;
    }

    private function double(string $line): float
    {
        $text = substr($line, 1);
        return match ($text) {
            'inf', '+inf' => INF,
            '-inf' => -INF,
            'nan', '-nan' => NAN,
            default => is_numeric($text) ? (float) $text : throw $this->wrong('a number', $line),
        };
    }

    private function deeper(int $depth): int
    {
        if ($depth >= self::DEPTH) {
            throw $this->wrong('replies nested at most ' . self::DEPTH . ' levels deep', 'more');
        }
        return $depth + 1;
    }

    private function wrong(string $expected, string $got): ProtocolException
    {
        $shown = addcslashes(substr($got, 0, 40), "\0..\37\177..\377");
        return new ProtocolException("expected $expected, got '$shown'");
    }
}
