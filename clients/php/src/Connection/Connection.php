<?php

declare(strict_types=1);

namespace Undercroft\Connection;

/**
 * What runs commands: a socket to a server, a cluster of them, or a store in shared memory.
 *
 * A command is a list of words: strings and numbers. Replies are those of the protocol: strings, integers, null,
 * lists; of RESP3 and of stores also floats, booleans and maps as arrays.
 */
interface Connection
{
    /**
     * Runs one command. One that waits by itself, as BLPOP does, is given so many seconds more; 0 is without end.
     *
     * @param list<string|int|float> $words
     *
     * @throws \Undercroft\ServerException where the reply is an error
     */
    public function execute(array $words, ?float $wait = null): mixed;

    /**
     * Runs several commands in one round trip. Errors stand in their places as ServerException objects.
     *
     * @param list<list<string|int|float>> $commands
     *
     * @return list<mixed>
     */
    public function pipeline(array $commands): array;

    /**
     * Runs commands all at one moment, by MULTI and EXEC. Null where a watched key was changed.
     *
     * @param list<list<string|int|float>> $commands
     *
     * @return list<mixed>|null
     */
    public function transaction(array $commands): ?array;

    /** Sends commands whose replies are fetched by receive(), or never: SUBSCRIBE and its like, MONITOR. */
    public function send(array ...$commands): void;

    /**
     * Waits for the next message.
     *
     * @throws \Undercroft\TimeoutException where none comes in so many seconds; the connection goes on then
     */
    public function receive(?float $timeout): mixed;

    /** Says whether the server remembers something for this connection: watched keys, an open transaction. */
    public function pin(bool $isPinned): void;

    /** Whether it still remembers that: false after the connection was lost or closed. */
    public function isPinned(): bool;

    /** Another connection to the same place with the same options. */
    public function another(): Connection;

    /** Whether replies are those of RESP3: maps and floats are told from lists and strings. */
    public function hasMaps(): bool;

    public function close(): void;
}
