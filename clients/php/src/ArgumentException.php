<?php

declare(strict_types=1);

namespace Undercroft;

/** An argument of a method is invalid. No command was sent. */
class ArgumentException extends \InvalidArgumentException
{
}
