<?php

declare(strict_types=1);

namespace Undercroft\Resp;

/** Reads replies out of the bytes of a Source. */
interface Reader
{
    /** Adds bytes behind those that are there. */
    public function feed(string $bytes): void;

    /** Whether bytes are there that were not read yet. */
    public function hasBytes(): bool;

    /**
     * Reads a reply. An error is a ServerException, which is returned; what was pushed is a Push.
     *
     * @throws \Undercroft\ProtocolException where the bytes are none
     */
    public function next(): mixed;

    /**
     * Reads so many replies.
     *
     * @return list<mixed>
     */
    public function many(int $count): array;
}
