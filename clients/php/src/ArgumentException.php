<?php

declare(strict_types=1);

namespace Undercroft;

/** An argument was not what a method expects. Nothing was sent. */
class ArgumentException extends \InvalidArgumentException
{
}
