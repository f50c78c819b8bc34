<?php

declare(strict_types=1);

namespace Undercroft;

/** What every exception of this package extends. */
class UndercroftException extends \RuntimeException
{
}
