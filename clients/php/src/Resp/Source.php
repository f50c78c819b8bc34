<?php

declare(strict_types=1);

namespace Undercroft\Resp;

/** Supplies the bytes that a parser reads. */
interface Source
{
    /**
     * Waits for bytes and returns at least one byte. `$wanted` is a hint for the number of bytes to
     * read.
     *
     * @throws \Undercroft\ConnectionException if no bytes arrive
     */
    public function read(int $wanted): string;
}
