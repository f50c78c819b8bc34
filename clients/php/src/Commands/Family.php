<?php

// Without strict_types, so that methods take what they take of a program's own file: an integer as a key, for example.

namespace Undercroft\Commands;

use Undercroft\Serializer\Serializer;

/** Methods of commands apart from a client. They return what its call() is to be given. */
abstract class Family
{
    public function __construct(protected readonly string $prefix, protected readonly ?Serializer $serializer)
    {
    }

    /**
     * @param array<array-key, mixed> $arguments of the method, with names as PHP has them
     *
     * @return array{list<mixed>, string, string|int|float|null} the words, the shape and how long the command waits
     */
    public function words(string $method, array $arguments): array
    {
        return $this->$method(...$arguments);
    }

    protected function call(array $words, string $shape = '', string|int|float|null $wait = null): array
    {
        return [$words, $shape, $wait];
    }
}
