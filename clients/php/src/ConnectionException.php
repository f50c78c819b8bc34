<?php

declare(strict_types=1);

namespace Undercroft;

/** A connection could not be made, or was lost. The next call connects anew. */
class ConnectionException extends UndercroftException
{
}
