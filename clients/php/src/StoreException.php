<?php

declare(strict_types=1);

namespace Undercroft;

/** A store in shared memory could not be opened, is full or busy, or was removed. */
class StoreException extends UndercroftException
{
}
