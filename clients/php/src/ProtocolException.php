<?php

declare(strict_types=1);

namespace Undercroft;

/** A server sent what is not its protocol. The connection is closed. */
class ProtocolException extends ConnectionException
{
}
