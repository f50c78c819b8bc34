<?php

declare(strict_types=1);

namespace Undercroft\Channels;

use Undercroft\UndercroftException;

/** The channel is closed and, for a consumer, empty. */
final class ChannelClosed extends UndercroftException
{
    public function __construct()
    {
        parent::__construct('the channel is closed');
    }
}
