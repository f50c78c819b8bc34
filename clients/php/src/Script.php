<?php

declare(strict_types=1);

namespace Undercroft;

/**
 * A script in Lua as a command: the first arguments of a call are its keys.
 *
 * A call sends the script's SHA-1 only, and the whole script where the server does not have it. Within pipelines the
 * whole script is sent.
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

    /** @return list<mixed> the words that call it by its digest */
    public function short(array $arguments): array
    {
        return ['EVALSHA', $this->digest, ...$this->arguments($arguments)];
    }

    private function arguments(array $arguments): array
    {
        if (count($arguments) < $this->keys) {
            throw new ArgumentException("expected at least $this->keys arguments, the keys of the script; got "
                . count($arguments));
        }
        return [$this->keys, ...$arguments];
    }
}
