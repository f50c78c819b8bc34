<?php

declare(strict_types=1);

namespace Undercroft;

/** A value could not be made a string, or a stored string is none of the serializer's. */
class SerializerException extends UndercroftException
{
}
