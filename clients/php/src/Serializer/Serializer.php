<?php

declare(strict_types=1);

namespace Undercroft\Serializer;

/** Makes strings of values and values of strings. */
interface Serializer
{
    public function encode(mixed $value): string|int;

    /** @throws \Undercroft\SerializerException where the string is none of this serializer's */
    public function decode(string $text): mixed;
}
