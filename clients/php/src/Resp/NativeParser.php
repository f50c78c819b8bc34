<?php

declare(strict_types=1);

namespace Undercroft\Resp;

use Undercroft\Connection\Wire;
use Undercroft\Native\Parser as Native;

/**
 * Reads replies with the extension's parser over TLS connections, whose bytes only PHP's streams
 * can read.
 */
final class NativeParser implements Reader
{
    /** The number of bytes requested per read. */
    private const CHUNK = 131_072;

    private readonly Native $parser;

    public function __construct(private readonly Source|Wire $source)
    {
        $this->parser = new Native();
    }

    public function feed(string $bytes): void
    {
        $this->parser->feed($bytes);
    }

    public function hasBytes(): bool
    {
        return $this->parser->hasBytes();
    }

    public function next(): mixed
    {
        while (!$this->parser->next()) {
            $this->parser->feed($this->source->read(self::CHUNK));
        }
        $reply = $this->parser->reply();
        return $this->parser->isPush() ? new Push($reply) : $reply;
    }

    public function many(int $count): array
    {
        $replies = [];
        for (; $count > 0; $count--) {
            $replies[] = $this->next();
        }
        return $replies;
    }
}
