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
 * Reads replies of RESP2 and RESP3.
 *
 * Bytes are split into lines by one call of explode(), as PHP's functions are many times faster than loops in PHP over
 * bytes: a string without a line's end in it is the line behind its length, and is compared and taken. A string with
 * lines' ends in it is put together again, and what is longer than the bytes that are there is read in one piece.
 */
final class Parser implements Reader
{
    /** How deep replies may lie in one another. */
    private const DEPTH = 64;

    /** A line that is longer is none: lines hold lengths, numbers and errors. */
    private const LINE = 65_536;

    /** So many bytes are asked for at once. */
    private const CHUNK = 131_072;

    /** Of so many items a run of strings of one length is looked for. */
    private const RUN = 64;

    /** @var list<string> the lines that are there; the last one is not complete */
    private array $lines = [''];

    /** The next line to be read. */
    private int $at = 0;

    /** The line that is not complete. */
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
        // The last length that was read, as most often the next one is the same.
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
     * Reads strings of one length, one behind the other, into a list: at most one less than are wanted. Bytes are split
     * at what stands between two of them, so that there is no line for a length.
     *
     * @param list<mixed> $items
     *
     * @return int how many there were
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
        // The last one is not complete, or more stands behind it.
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

    /** Reads a string of this length and the line's end behind it. */
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
        // All that is there belongs to it.
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
            throw $this->wrong('replies in at most ' . self::DEPTH . ' others', 'more');
        }
        return $depth + 1;
    }

    private function wrong(string $expected, string $got): ProtocolException
    {
        $shown = addcslashes(substr($got, 0, 40), "\0..\37\177..\377");
        return new ProtocolException("expected $expected, got '$shown'");
    }
}
