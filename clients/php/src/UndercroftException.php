<?php

declare(strict_types=1);

namespace Undercroft;

/** The base class of this package's exceptions. */
class UndercroftException extends \RuntimeException
{
}
