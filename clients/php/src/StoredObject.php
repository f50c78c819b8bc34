<?php

declare(strict_types=1);

namespace Undercroft;

/** An object read from the store: its kind, its description and its bytes. */
final class StoredObject
{
    /**
     * @param string $kind `b` for bytes, `a` for an array; Python has more kinds, for which
     *     `$bytes` contains everything after the header
     * @param string $description the description in the header, such as `('<f8', (3, 4))` for an array
     */
    private function __construct(
        public readonly string $kind,
        public readonly string $description,
        public readonly string $bytes,
    ) {
    }

    /**
     * Decodes a stored value to an object.
     *
     * @throws ArgumentException if the value is not an object
     */
    public static function of(string $value): self
    {
        $end = strlen($value) < 8 ? PHP_INT_MAX : 8 + unpack('V', $value, 4)[1];
        if (!str_starts_with($value, Objects::MAGIC) || $end > strlen($value)) {
            throw new ArgumentException(
                'expected an object, got a value that begins with ' . bin2hex(substr($value, 0, 8))
            );
        }
        return new self($value[3], substr($value, 8, $end - 8), substr($value, Objects::padded($end)));
    }

    /**
     * Returns the type of an array's items in numpy's notation, such as `<f8`. Returns null for all
     * objects except plain arrays.
     */
    public function dtype(): ?string
    {
        return $this->array()[0] ?? null;
    }

    /**
     * Returns the dimensions of an array.
     *
     * @return list<int>|null null for all objects except plain arrays
     */
    public function shape(): ?array
    {
        return $this->array()[1] ?? null;
    }

    /** @return array{string, list<int>}|null */
    private function array(): ?array
    {
        $known = "/^\\('([<>|=]?\\w+)', \\(((?:\\d+,? ?)*)\\)\\)$/D";
        if ($this->kind !== 'a' || preg_match($known, $this->description, $found) !== 1) {
            return null;
        }
        preg_match_all('/\d+/', $found[2], $lengths);
        return [$found[1], array_map('intval', $lengths[0])];
    }
}
