<?php

declare(strict_types=1);

namespace Undercroft\Commands;

$isCli = in_array(PHP_SAPI, ['cli', 'phpdbg'], true);
if (ini_get('opcache.enable') && (!$isCli || ini_get('opcache.enable_cli'))) {
    /**
     * All command methods in one trait. opcache caches them, so that a process loads them without
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
     * Command methods that load each family on first use. Without opcache, parsing all families
     * takes longer than the rest of a process' first call.
     */
    trait Methods
    {
        /** @var array<string, Family> by the name of the called method */
        private array $families = [];

        private function family(string $method): ?Family
        {
            return $this->families[$method] ??= Families::of($method, $this->prefix, $this->serializer);
        }
    }
}
