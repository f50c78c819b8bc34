<?php

declare(strict_types=1);

namespace Undercroft;

/** An object that was read: what it is, and its bytes. */
final class StoredObject
{
    /**
     * @param string $kind `b` bytes, `a` an array; others are Python's, whose bytes are all that is behind the head
     * @param string $description what the head says, such as `('<f8', (3, 4))` of an array
     */
    private function __construct(
        public readonly string $kind,
        public readonly string $description,
        public readonly string $bytes,
    ) {
    }

    /**
     * The object that a value of a store is.
     *
     * @throws ArgumentException where it is none
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

    /** The type of an array's items as numpy has it, such as `<f8`; null of what is no array of such items. */
    public function dtype(): ?string
    {
        return $this->array()[0] ?? null;
    }

    /**
     * The lengths of an array.
     *
     * @return list<int>|null
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
