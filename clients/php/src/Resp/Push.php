<?php

declare(strict_types=1);

namespace Undercroft\Resp;

/**
 * A RESP3 push: data that a server sends without a request, such as a message or an invalidation.
 */
final class Push
{
    /** @param list<mixed> $items */
    public function __construct(public readonly array $items)
    {
    }
}
