<?php

declare(strict_types=1);

namespace Undercroft;

/** A server sent bytes that violate its protocol. The connection is closed. */
class ProtocolException extends ConnectionException
{
}
