<?php

declare(strict_types=1);

namespace Undercroft\Connection;

/**
 * Runs commands on a server over a socket, on a cluster, or on a store in shared memory.
 *
 * A command is a list of words, which are strings and numbers. Replies are the protocol's strings,
 * integers, nulls and lists. RESP3 and stores also return floats, booleans, and maps as arrays.
 */
interface Connection
{
    /**
     * Runs one command. `$wait` is the number of seconds that a blocking command such as BLPOP may
     * wait, where 0 means no limit.
     *
     * @param list<string|int|float> $words
     *
     * @throws \Undercroft\ServerException if the reply is an error
     */
    public function execute(array $words, ?float $wait = null): mixed;

    /**
     * Runs several commands in one round trip. Errors are returned in the list as ServerException
     * objects.
     *
     * @param list<list<string|int|float>> $commands
     *
     * @return list<mixed>
     */
    public function pipeline(array $commands): array;

    /**
     * Runs commands atomically with MULTI and EXEC. Returns null if a watched key changed.
     *
     * @param list<list<string|int|float>> $commands
     *
     * @return list<mixed>|null
     */
    public function transaction(array $commands): ?array;

    /**
     * Sends commands without waiting for replies, such as SUBSCRIBE. receive() returns what the
     * server sends.
     */
    public function send(array ...$commands): void;

    /**
     * Waits for the next message.
     *
     * @throws \Undercroft\TimeoutException if no message arrives within `$timeout` seconds; the
     *     connection remains usable
     */
    public function receive(?float $timeout): mixed;

    /**
     * Records whether the server holds state for this connection: watched keys or an open
     * transaction.
     */
    public function pin(bool $isPinned): void;

    /**
     * Returns whether the server still holds state for this connection. Returns false once the
     * connection has been lost or closed.
     */
    public function isPinned(): bool;

    /** Returns a new connection to the same address with the same options. */
    public function another(): Connection;

    /**
     * Returns whether replies distinguish maps and floats from lists and strings, as RESP3 does.
     */
    public function hasMaps(): bool;

    public function close(): void;
}
