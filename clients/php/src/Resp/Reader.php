<?php

declare(strict_types=1);

namespace Undercroft\Resp;

/** Reads replies from the bytes of a Source. */
interface Reader
{
    /** Appends bytes to the buffer. */
    public function feed(string $bytes): void;

    /** Returns whether the buffer contains unread bytes. */
    public function hasBytes(): bool;

    /**
     * Reads one reply. An error reply is returned as a ServerException, and a pushed message as a
     * Push.
     *
     * @throws \Undercroft\ProtocolException if the bytes are not a valid reply
     */
    public function next(): mixed;

    /**
     * Reads `$count` replies.
     *
     * @return list<mixed>
     */
    public function many(int $count): array;
}
