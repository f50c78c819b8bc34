<?php

declare(strict_types=1);

namespace Undercroft;

/**
 * A custom command that the application defines.
 *
 * Register a command with `$client->register('name', new Mine())` or with the option `commands`.
 * Then call it as a method of the client, its pipelines or its transactions.
 */
abstract class Command
{
    /**
     * Returns the words to send for a call.
     *
     * @param list<mixed> $arguments the call's arguments, with nested lists flattened
     *
     * @return list<string|int|float>
     */
    abstract public function words(array $arguments): array;

    /** Converts the server's reply to the call's result. */
    public function result(mixed $reply): mixed
    {
        return $reply;
    }
}
