<?php

declare(strict_types=1);

namespace Undercroft\Commands;

$isCli = in_array(PHP_SAPI, ['cli', 'phpdbg'], true);
if (ini_get('opcache.enable') && (!$isCli || ini_get('opcache.enable_cli'))) {
    /**
     * Provides all command methods in one trait, which a process loads from opcache without
     * parsing.
     */
    trait Methods
    {
        use Packing;
        use Written;
        use Strings;
        use Lists;
        use Hashes;
        use Sets;
        use SortedSets;
        use Keys;
        use Server;
        use Streams;
        use StreamsWritten;

        private function family(string $method): ?Family
        {
            return null;
        }
    }
} else {
    /**
     * Loads each family of command methods on first use. Without opcache, parsing all families
     * takes longer than the remaining work of a process' first call.
     */
    trait Methods
    {
        /** @var array<string, Family> the loaded families, by the name of the called method */
        private array $families = [];

        private function family(string $method): ?Family
        {
            return $this->families[$method] ??= Families::of($method, $this->prefix, $this->serializer);
        }
    }
}
