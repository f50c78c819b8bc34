<?php

// strict_types is off, so that methods accept the same arguments as in a caller without
// strict_types, such as an integer as a key.

namespace Undercroft\Commands;

use Undercroft\Serializer\Serializer;

/**
 * A family of command methods that is loaded on first use. Each method returns the arguments for
 * the client's call().
 */
abstract class Family
{
    public function __construct(protected readonly string $prefix, protected readonly ?Serializer $serializer)
    {
    }

    /**
     * @param array<array-key, mixed> $arguments the method's arguments; named arguments keep their names
     *
     * @return array{list<mixed>, string, string|int|float|null} words, reply shape and seconds to wait
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
