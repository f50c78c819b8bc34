<?php

declare(strict_types=1);

namespace Undercroft\Resp;

/** The source of a parser's bytes. */
interface Source
{
    /**
     * Waits for bytes and returns at least one byte. `$wanted` is a hint for how many to read.
     *
     * @throws \Undercroft\ConnectionException if no bytes arrive
     */
    public function read(int $wanted): string;
}
