<?php

declare(strict_types=1);

namespace Undercroft\Resp;

/** Where a parser's bytes come from. */
interface Source
{
    /**
     * Waits for bytes and returns those that are there, at least one and about as many as are wanted.
     *
     * @throws \Undercroft\ConnectionException where none come
     */
    public function read(int $wanted): string;
}
