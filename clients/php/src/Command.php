<?php

declare(strict_types=1);

namespace Undercroft;

/**
 * A command of a program's own. Register one by `$client->register('name', new Mine())`, or by the option `commands`,
 * and call it as a method of the client, of its pipelines and its transactions.
 */
abstract class Command
{
    /**
     * The words of a call.
     *
     * @param list<mixed> $arguments with lists spliced
     *
     * @return list<string|int|float>
     */
    abstract public function words(array $arguments): array;

    /** What is made of its reply. */
    public function result(mixed $reply): mixed
    {
        return $reply;
    }
}
