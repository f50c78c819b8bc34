<?php

declare(strict_types=1);

namespace Undercroft;

/** A method's argument is invalid. No command was sent. */
class ArgumentException extends \InvalidArgumentException
{
}
