<?php

declare(strict_types=1);

namespace Undercroft\Channels;

/** A message that a channel has delivered. */
final class Received
{
    /**
     * @param string $kind `b` for bytes, `s` for text, `a` for an array; Python sends more kinds,
     *     such as `m`, for which `$bytes` contains everything after the description
     * @param string|null $dtype the type of an array's items in numpy's notation, such as `<f8`
     * @param list<int>|null $shape the dimensions of an array
     */
    public function __construct(
        public readonly string $kind,
        public readonly string $bytes,
        public readonly ?string $dtype = null,
        public readonly ?array $shape = null,
    ) {
    }
}
