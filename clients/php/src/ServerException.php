<?php

declare(strict_types=1);

namespace Undercroft;

/** An error that the server or the store answered. The connection goes on. */
class ServerException extends UndercroftException
{
    /** The first word of the error, which says of which kind it is: ERR, WRONGTYPE, NOSCRIPT, ... */
    public function kind(): string
    {
        return explode(' ', $this->getMessage(), 2)[0];
    }
}
