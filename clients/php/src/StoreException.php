<?php

declare(strict_types=1);

namespace Undercroft;

/** A store in shared memory could not be opened, or is full, busy or removed. */
class StoreException extends UndercroftException
{
}
