<?php

declare(strict_types=1);

namespace Undercroft;

/** A connection could not be opened or was lost. The next call reconnects. */
class ConnectionException extends UndercroftException
{
}
