<?php

declare(strict_types=1);

namespace Undercroft;

/** An argument is not what the method expects. No command was sent. */
class ArgumentException extends \InvalidArgumentException
{
}
