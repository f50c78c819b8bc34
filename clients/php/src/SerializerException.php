<?php

declare(strict_types=1);

namespace Undercroft;

/** A value could not be serialized, or a stored string was not written by this serializer. */
class SerializerException extends UndercroftException
{
}
