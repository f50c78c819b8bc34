<?php

declare(strict_types=1);

namespace Undercroft;

/** The server or store replied with an error. The connection remains usable. */
class ServerException extends UndercroftException
{
    /**
     * Returns the error code, which is the first word of the message: ERR, WRONGTYPE, NOSCRIPT, ...
     */
    public function kind(): string
    {
        return explode(' ', $this->getMessage(), 2)[0];
    }
}
