<?php

declare(strict_types=1);

namespace Undercroft\Commands;

$isCli = in_array(PHP_SAPI, ['cli', 'phpdbg'], true);
if (ini_get('opcache.enable') && (!$isCli || ini_get('opcache.enable_cli'))) {
    /** All methods of commands. opcache keeps them, so that a process loads them without reading their text. */
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
     * The same methods, of which a family is loaded when the first one of it is called: PHP needs longer to read the
     * text of all than for all the rest of a process' first call.
     */
    trait Methods
    {
        /** @var array<string, Family> by the names of methods that were called */
        private array $families = [];

        private function family(string $method): ?Family
        {
            return $this->families[$method] ??= Families::of($method, $this->prefix, $this->serializer);
        }
    }
}
