<?php

declare(strict_types=1);

namespace Undercroft\Resp;

/** What a server sends in RESP3 that is no reply: a message, an invalidation. */
final class Push
{
    /** @param list<mixed> $items */
    public function __construct(public readonly array $items)
    {
    }
}
