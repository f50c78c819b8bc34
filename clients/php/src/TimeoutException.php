<?php

declare(strict_types=1);

namespace Undercroft;

/** A server did not answer in time. The connection is closed, as the answer may still come. */
class TimeoutException extends ConnectionException
{
}
