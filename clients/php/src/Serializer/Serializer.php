<?php

declare(strict_types=1);

namespace Undercroft\Serializer;

/** Converts values to strings and back. */
interface Serializer
{
    public function encode(mixed $value): string|int;

    /** @throws \Undercroft\SerializerException if the string was not written by this serializer */
    public function decode(string $text): mixed;
}
