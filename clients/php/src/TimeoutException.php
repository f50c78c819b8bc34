<?php

declare(strict_types=1);

namespace Undercroft;

/**
 * A server did not reply in time. The connection is closed, because the late reply may still
 * arrive.
 */
class TimeoutException extends ConnectionException
{
}
