<?php

declare(strict_types=1);

namespace Undercroft;

/**
 * A Lua script as a command. The first arguments of a call are the script's keys.
 *
 * A call sends only the script's SHA-1. If the server does not have the script, the call then sends
 * the complete script. Pipelines always send the complete script.
 */
class Script extends Command
{
    public readonly string $digest;

    public function __construct(public readonly string $text, public readonly int $keys = 0)
    {
        $this->digest = sha1($text);
    }

    public function words(array $arguments): array
    {
        return ['EVAL', $this->text, ...$this->arguments($arguments)];
    }

    /** @return list<mixed> the words that call the script by its digest */
    public function short(array $arguments): array
    {
        return ['EVALSHA', $this->digest, ...$this->arguments($arguments)];
    }

    private function arguments(array $arguments): array
    {
        if (count($arguments) < $this->keys) {
            throw new ArgumentException("expected at least $this->keys arguments, the keys of the script, got "
                . count($arguments));
        }
        return [$this->keys, ...$arguments];
    }
}
